"""Against invented text: what a model says when nobody spoke, and when it got stuck."""

from __future__ import annotations

import re
import zlib
from typing import Final

LOOP_RATIO: Final = 2.4
"""Text that shrinks more than this under zlib repeats itself (Whisper's own figure)."""
DENSEST: Final = 40.0
"""Letters a second; the fastest speakers stay below 30."""

_CREDITS: Final = re.compile(
    r"""
    .*(?:редактор\s+субтитров|корректор\s+а\.|субтитры\s+(?:сделал|создавал|подготов|и\s+перевод)
        |dima\s?torzok|subtitles\s+by|amara\.org|captions?\s+by|untertitel(?:ung)?\s+(?:von|des|der|im))
    |(?:спасибо\s+за\s+(?:просмотр|внимание\s+и\s+просмотр)|продолжение\s+следует
        |thanks?\s+(?:you\s+)?(?:so\s+much\s+)?for\s+watching|please\s+subscribe)\W*$
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""The captions of the films that Whisper learned from. Nobody dictates the first kind."""


def looping(text: str) -> bool:
    """Whether the text says the same over and over."""
    data = bytes(ord(letter) & 0xFF for letter in text)  # one byte a letter in any script
    return len(data) > 40 and len(data) / len(zlib.compress(data)) > LOOP_RATIO


def credits(text: str) -> bool:
    """Whether the text is a caption credit or a film's farewell, and nothing else."""
    return bool(_CREDITS.match(text.strip()))


def too_dense(text: str, seconds: float) -> bool:
    """Whether nobody can have said so much in that time."""
    return len(text) > 20 and len(text) > DENSEST * max(seconds, 0.5)
