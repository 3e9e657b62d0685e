"""A piece of text: as the model says it in a clip, and as it is stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NotRequired, TypedDict

from worker.engine import RATE

Span = tuple[int, ...]
"""Start and end of a unit, in samples, and its channel where each is read apart."""


class Segment(TypedDict):
    """A piece of text with its place in the recording, seconds rounded to milliseconds."""

    start: float
    end: float
    text: str
    channel: NotRequired[int]
    doubtful: NotRequired[bool]
    """The model was not sure of it, or said it only when it was kept from repeating itself."""
    left_out: NotRequired[str]
    """Why there is no text: `no_speech`, or what the model said and nobody can have: `loop`,
    `credits`, `too_dense`."""


@dataclass(frozen=True, slots=True)
class Line:
    """A piece of text in one clip, times in seconds from the clip's start."""

    start: float
    end: float
    text: str
    doubtful: bool = False
    left_out: str = ""

    def later(self, seconds: float) -> Line:
        """The same text, so much later."""
        return replace(self, start=self.start + seconds, end=self.end + seconds)


def segment(line: Line, unit: Span) -> Segment:
    """The line of a unit as it is stored."""
    begin = unit[0] / RATE
    stored = Segment(
        start=round(begin + line.start, 3), end=round(begin + line.end, 3), text=line.text
    )
    if len(unit) > 2:
        stored["channel"] = unit[2]
    if line.left_out:
        stored["left_out"] = line.left_out
    elif line.doubtful:
        stored["doubtful"] = True
    return stored
