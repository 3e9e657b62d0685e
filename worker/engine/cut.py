"""Where somebody speaks: voice detection over the recording, and its cutting into units.

The detector's state goes on from window to window, so that the result does not depend on where
windows fall, and memory does not grow with the recording (a 32 ms frame leaves one float).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from worker.engine import RATE
from worker.engine.audio import Samples

FRAME: Final = 512
"""Samples of one frame of the detector, 32 ms."""
CONTEXT: Final = 64
"""Samples before a frame that the detector hears again with it."""
WINDOW: Final = 512
"""Frames given to the detector at once, 16 s; longer windows take memory and are no faster."""

Probabilities = npt.NDArray[np.float32]
Span = tuple[int, int]
"""Start and end, in samples."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How probabilities become units; times in seconds."""

    on: float = 0.5
    """Probability at which speech begins."""
    off: float = 0.35
    """Probability below which it may have ended."""
    pause: float = 0.5
    """Silence that ends a stretch of speech."""
    shortest: float = 0.1
    """A shorter stretch is a click."""
    pad: float = 0.2
    """Kept around speech on both sides."""
    longest: float = 28.0
    """The longest unit: the model hears 30 s at once."""
    gap: float = 4.0
    """The longest silence kept inside a unit."""


RULES: Final = Rules()


class Voice(Protocol):
    """A detector of voice that remembers what it heard."""

    def hear(self, frames: npt.NDArray[np.float32]) -> Probabilities:
        """Probability of speech of each frame; shape (n, FRAME) -> (n,)."""
        ...


class Silero:
    """The Silero network that ships with faster-whisper, fed in windows."""

    def __init__(self) -> None:
        from faster_whisper.vad import get_vad_model  # noqa: PLC0415 - loads native libraries

        self._session: Any = get_vad_model().session
        self._h = np.zeros((1, 1, 128), dtype=np.float32)
        self._c = np.zeros((1, 1, 128), dtype=np.float32)
        self._input = np.zeros((0, CONTEXT + FRAME), dtype=np.float32)
        self._tail = np.zeros(CONTEXT, dtype=np.float32)

    def hear(self, frames: npt.NDArray[np.float32]) -> Probabilities:
        """See `Voice.hear`."""
        if len(self._input) < len(frames):
            self._input = np.empty((len(frames), CONTEXT + FRAME), dtype=np.float32)
        heard_again = self._input[: len(frames)]
        heard_again[:, CONTEXT:] = frames
        heard_again[0, :CONTEXT] = self._tail
        heard_again[1:, :CONTEXT] = frames[:-1, -CONTEXT:]
        self._tail = frames[-1, -CONTEXT:].copy()
        heard, self._h, self._c = self._session.run(
            None, {"input": heard_again, "h": self._h, "c": self._c}
        )
        return np.asarray(heard, dtype=np.float32).reshape(-1)


Window = npt.NDArray[np.float32]
"""Frames of samples from -1 to 1, shape (n, FRAME)."""


def windows(audio: Samples, window: int = WINDOW) -> Iterator[Window]:
    """The recording in windows of so many frames; the last frame is padded.

    Each stands until the next is asked for, in the same place: ten hours have two thousand.
    """
    step = window * FRAME
    place = np.empty(min(step, -(-len(audio) // FRAME) * FRAME), dtype=np.float32)
    for start in range(0, len(audio), step):
        piece = audio[start : start + step]
        frames = place[: -(-len(piece) // FRAME) * FRAME]
        np.divide(piece, np.float32(32768), out=frames[: len(piece)])
        frames[len(piece) :] = 0
        yield frames.reshape(-1, FRAME)


def listen(audio: Samples, voice: Voice, window: int = WINDOW) -> Iterator[Probabilities]:
    """The probability of speech of every frame, a window at a time."""
    for frames in windows(audio, window):
        yield voice.hear(frames)


def hear(clip: Samples) -> Probabilities:
    """The probability of speech of every frame of a short clip."""
    return np.concatenate([np.zeros(0, dtype=np.float32), *listen(clip, Silero())])


def stretches(probabilities: Probabilities, rules: Rules = RULES) -> list[Span]:
    """Stretches of speech, in frames, apart by at least the pause."""
    pause = rules.pause * RATE / FRAME
    shortest = rules.shortest * RATE / FRAME
    found: list[Span] = []
    start = quiet = -1  # where speech began; where it may have ended
    for at, probability in enumerate(_floats(probabilities)):
        if probability >= rules.on:
            quiet = -1
            if start < 0:
                start = at
        elif start >= 0 and probability < rules.off:
            if quiet < 0:
                quiet = at
            if at - quiet >= pause:
                found.append((start, quiet))
                start = quiet = -1
    if start >= 0:
        found.append((start, quiet if quiet >= 0 else len(probabilities)))
    return [span for span in found if span[1] - span[0] >= shortest]


def _floats(probabilities: Probabilities) -> Iterator[float]:
    """As Python's numbers, a window at a time: of ten hours they would take 40 MB."""
    for start in range(0, len(probabilities), WINDOW):
        yield from probabilities[start : start + WINDOW].tolist()


def units(probabilities: Probabilities, length: int, rules: Rules = RULES) -> list[Span]:
    """Cut into units of speech, in samples, none longer than allowed, none overlapping.

    Args:
        probabilities: of each frame of the recording.
        length: samples of the recording.
    """
    longest = int(rules.longest * RATE) // FRAME
    pieces: list[Span] = []
    for stretch in stretches(probabilities, rules):
        pieces.extend(_split(stretch, probabilities, longest - 2 * _frames(rules.pad)))
    return _merge(_padded(pieces, length, rules), rules)


def _frames(seconds: float) -> int:
    return int(np.ceil(seconds * RATE / FRAME))


def _split(stretch: Span, probabilities: Probabilities, longest: int) -> Iterator[Span]:
    """Speech without a pause is cut where it is least like speech, in the later half of a unit."""
    start, end = stretch
    while end - start > longest:
        low, high = start + longest // 2, start + longest
        around = np.ones(5, dtype=np.float32) / 5  # a single quiet frame is no breath
        smooth = np.convolve(probabilities[low - 2 : high + 2], around, mode="valid")
        cut = low + int(np.argmin(smooth))
        yield start, cut
        start = cut
    yield start, end


def _padded(pieces: Sequence[Span], length: int, rules: Rules) -> list[Span]:
    """Frames to samples, with room around each piece, shared where two are close."""
    pad = int(rules.pad * RATE)
    spans = [(start * FRAME, min(end * FRAME, length)) for start, end in pieces]
    padded: list[Span] = []
    for index, (start, end) in enumerate(spans):
        before = spans[index - 1][1] if index else -2 * pad
        after = spans[index + 1][0] if index + 1 < len(spans) else length + 2 * pad
        padded.append(
            (
                max(0, start - min(pad, (start - before) // 2)),
                min(length, end + min(pad, (after - end) // 2)),
            )
        )
    return padded


def _merge(spans: Sequence[Span], rules: Rules) -> list[Span]:
    """Neighbours together, while the unit stays short enough and holds no long silence."""
    longest, gap = int(rules.longest * RATE), int(rules.gap * RATE)
    merged: list[Span] = []
    for start, end in spans:
        if merged and end - merged[-1][0] <= longest and start - merged[-1][1] <= gap:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged
