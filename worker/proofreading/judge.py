"""How far a corrected text strays from the raw one. Pure functions, the same for all languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

WORDS: Final = 0.2
"""Share of the words that may be others."""
LENGTHS: Final = (0.75, 1.25)
"""How long the letters of the corrected text may be, by those of the raw one."""
END: Final = 10
"""Words at either end that are looked at apart, since that is where models add remarks."""
SOUNDS: Final = 0.35
"""Share of the sounds that may be others where a term is put right in a short text."""
_SHORT: Final = 60
"""Words up to which sounds are compared."""

# A letter of a script that puts no spaces between words counts as a word.
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD: Final = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")
_APOSTROPHES: Final = str.maketrans("", "", "'’ʼ`\u0301")

_LATIN: Final[dict[str, str]] = {
    **dict(zip("абвгдезийклмнопрстуфыэіїєґў", "abvgdeziiklmnoprstufieiiegu", strict=True)),
    "ё": "e", "ж": "zh", "х": "h", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "sh", "ъ": "", "ь": "",
    "ю": "u", "я": "a", "c": "k", "q": "k", "x": "ks", "w": "v", "y": "i", "j": "i",
}  # fmt: skip


def words(text: str) -> list[str]:
    """The words that are compared: without punctuation, case, accents on top and apostrophes."""
    plain = unicodedata.normalize("NFKC", text).translate(_APOSTROPHES).casefold()
    return _WORD.findall(plain.replace("ё", "е"))


def distance(one: Sequence[str], other: Sequence[str], most: int | None = None) -> int:
    """Insertions, deletions and replacements between the two; above `most`, just `most` + 1."""
    low = 0
    while low < min(len(one), len(other)) and one[low] == other[low]:
        low += 1
    high = 0
    while high < min(len(one), len(other)) - low and one[-1 - high] == other[-1 - high]:
        high += 1
    one, other = one[low : len(one) - high], other[low : len(other) - high]
    band = max(len(one), len(other)) if most is None else most
    beyond = band + 1
    if abs(len(one) - len(other)) > band:
        return beyond
    # Only what lies within the band around the diagonal can cost less than it is wide.
    row = {column: column for column in range(min(len(other), band) + 1)}
    for number, each in enumerate(one, 1):
        first = max(0, number - band)
        above, row = row, {}
        for column in range(first, min(len(other), number + band) + 1):
            row[column] = min(
                above.get(column, beyond) + 1,
                row.get(column - 1, beyond) + 1,
                above.get(column - 1, beyond) + (column == 0 or each != other[column - 1]),
            )
        if min(row.values()) > band:
            return beyond
    return min(row[len(other)], beyond)


def strays(raw: str, corrected: str, vocabulary: str = "") -> str:
    """Why the corrected text cannot be taken for the raw one's; empty when it can.

    A text of few words must keep them all, but for terms of the vocabulary that sound like what
    they replace.
    """
    before, after = words(raw), words(corrected)
    if not after:
        return "" if not before else "empty"
    shortest, longest = LENGTHS
    letters = sum(map(len, before))
    if not shortest * letters <= sum(map(len, after)) <= longest * letters:
        return "length"
    most = int(WORDS * len(before))
    if distance(before, after, most) > most:
        return "" if _terms_alone(before, after, vocabulary) else "words"
    if _begins_late(before, after) or _begins_late(before[::-1], after[::-1]):
        return "additions"
    return ""


def _begins_late(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether the raw text begins inside the corrected one, behind something new."""
    begin = list(before[: END // 2])
    if list(after[: len(begin)]) == begin:
        return False
    behind = range(1, 2 * END + 1)
    return any(list(after[late : late + len(begin)]) == begin for late in behind) or (
        len(before) > END and distance(before[:END], after[:END]) > END // 2
    )


def _terms_alone(before: Sequence[str], after: Sequence[str], vocabulary: str) -> bool:
    """Whether all that is new are terms, in place of what sounded like them."""
    if not len(after) <= len(before) <= _SHORT:
        return False
    new = set(after) - set(before)
    if not new or not new <= set(words(vocabulary)):
        return False
    one, other = sounds("".join(before)), sounds("".join(after))
    most = int(SOUNDS * max(len(one), len(other)))
    return distance(one, other, most) <= most


def sounds(text: str) -> str:
    """Roughly how it sounds, in Latin letters, so that a term in either script is the same."""
    bare = "".join(
        each
        for each in unicodedata.normalize("NFKD", text.casefold().replace("й", "и"))
        if not unicodedata.combining(each)
    )
    latin = "".join(_LATIN.get(each, each) for each in bare)
    return re.sub(r"(.)\1+", r"\1", latin.replace("ph", "f"))
