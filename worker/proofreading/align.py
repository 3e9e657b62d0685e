"""The corrected text on the raw one's times: each segment gets the words in its place."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from worker.proofreading.judge import words

KEPT: Final = ("start", "end", "channel", "speaker")
"""What a segment keeps of the raw one in whose place it stands."""

_TOKEN = re.compile(r"\S+")


def segments(
    raw: Sequence[dict[str, Any]], pairs: Iterable[tuple[str, str]]
) -> list[dict[str, Any]]:
    """Segments of the corrected text, with the raw ones' times, channels and speakers, and without
    the times of words.

    Args:
        raw: the raw segments; their texts, joined, are the raw text's.
        pairs: the pieces of the text in their order, each as it was and as it is now.

    A segment whose words have all gone over to its neighbour is left out. Empty where the raw
    segments are not what the text was made of.
    """
    before, after, places = _tokens(pairs)
    counts = [len(_TOKEN.findall(str(each.get("text", "")))) for each in raw]
    if sum(counts) != len(before):
        return []
    result = []
    border = start = 0
    for each, count in zip(raw, counts, strict=True):
        border += count
        end = places[border]
        if start < end:
            kept: dict[str, Any] = {name: each[name] for name in KEPT if name in each}
            result.append({**kept, "text": " ".join(after[start:end])})
        start = end
    return result


def _tokens(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[str], list[int]]:
    """All tokens before and after, and for each border between those before its place after."""
    before: list[str] = []
    after: list[str] = []
    places = [0]
    for one, other in pairs:
        old, new = _TOKEN.findall(one), _TOKEN.findall(other)
        places += [len(after) + place for place in _places(old, new)[1:]]
        before += old
        after += new
    return before, after, places


def _places(old: list[str], new: list[str]) -> list[int]:
    """For each border between tokens of `old` where it lies in `new`; both ends are ends."""
    matcher = SequenceMatcher(
        None,
        [" ".join(words(each)) for each in old],
        [" ".join(words(each)) for each in new],
        False,
    )
    anchors = [(0, 0)]
    for block in matcher.get_matching_blocks():  # the last one is (len(old), len(new), 0)
        anchors += [(block.a, block.b), (block.a + block.size, block.b + block.size)]
    starts = [a for a, _ in anchors]
    places = []
    for border in range(len(old) + 1):
        # The last of those at this border: what was put in goes with what stands before it.
        index = bisect_right(starts, border) - 1
        a, b = anchors[index]
        if a != border:  # inside what was replaced: as far along as before
            end_a, end_b = anchors[index + 1]
            b += round((border - a) * (end_b - b) / (end_a - a))
        places.append(b)
    return [0, *places[1:-1], len(new)]
