"""A text in pieces that end where sentences do; joined again they are the text."""

from __future__ import annotations

import re
from typing import Final

LENGTH: Final = 3000
"""Characters of a piece: enough to see what is meant, short enough to be kept to word by word."""

_SENTENCE: Final = re.compile(r"[.!?…]+[\"'»”’)\]]*(?=\s)|[。！？]+[」』”’）]*|\n+")
_SPACE: Final = re.compile(r"\s+")


def cut(text: str, length: int = LENGTH) -> list[str]:
    """Pieces of at most `length` characters: up to the last sentence's end that fits.

    Where no sentence ends in the second half of a piece, it ends between words, and where there
    are none, anywhere.
    """
    pieces = []
    start = 0
    while len(text) - start > length:
        end = (
            _last(_SENTENCE, text, start, length)
            or _last(_SPACE, text, start, length)
            or start + length
        )
        pieces.append(text[start:end])
        start = end
    if start < len(text):
        pieces.append(text[start:])
    return pieces


def _last(pattern: re.Pattern[str], text: str, start: int, length: int) -> int | None:
    """Where the last match ends in the second half of a piece."""
    middle, limit = start + length // 2, start + length
    # One character more, so that a sentence's end at the very border is seen as one.
    ends = [match.end() for match in pattern.finditer(text, middle, limit + 1)]
    return max((end for end in ends if end <= limit), default=None)
