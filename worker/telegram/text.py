"""A text in pieces that Telegram takes: at most so many UTF-16 units, cut where people pause."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

LIMIT: Final = 4096
CAPTION_LIMIT: Final = 1024
_PREVIEW: Final = 300

_SENTENCE: Final = re.compile(r"""[.!?…]+["'»”)\]]*(?=\s)|\n""")
_WORD: Final = re.compile(r"\S(?=\s)")
_JOINER: Final = "\u200d"


def units(text: str) -> int:
    """The text's length as Telegram counts it."""
    return len(text) + sum(letter > "\uffff" for letter in text)


def split(text: str, limit: int = LIMIT) -> list[str]:
    """The text in order, nothing lost but the white space at the cuts."""
    return list(_pieces(text.strip(), limit))


def _pieces(text: str, limit: int) -> Iterator[str]:
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        end = _reach(text, position, limit)
        if end < len(text):
            end = _cut(text, position, end)
        yield text[position:end].rstrip()
        position = end


def _reach(text: str, start: int, limit: int) -> int:
    """Where the longest piece from `start` ends."""
    left, position = limit, start
    while position < len(text):
        left -= 2 if text[position] > "\uffff" else 1
        if left < 0:
            break
        position += 1
    return position


def _cut(text: str, start: int, end: int) -> int:
    """The best place to cut in the second half of what would fit."""
    middle = start + (end - start) // 2
    for pattern in (_SENTENCE, _WORD):
        # One letter more, to see the white space that may follow just behind what fits.
        found = [each.end() for each in pattern.finditer(text, middle, end + 1)]
        found = [each for each in found if middle < each <= end]
        if found:
            return found[-1]
    cut = end
    while cut > middle and _joined(text, cut):
        cut -= 1
    return cut if cut > middle else end


def _joined(text: str, cut: int) -> bool:
    """Whether what is left and right of the cut is one sign to the reader."""
    after, before = text[cut], text[cut - 1]
    return (
        _JOINER in (after, before)
        or unicodedata.combining(after) != 0
        or "\ufe00" <= after <= "\ufe0f"
        or "\U0001f3fb" <= after <= "\U0001f3ff"
    )


def preview(text: str) -> str:
    """The beginning of a text that goes as a file."""
    flat = " ".join(text[: 2 * _PREVIEW].split())
    if units(flat) <= _PREVIEW:
        return flat
    return split(flat, _PREVIEW)[0] + " …"
