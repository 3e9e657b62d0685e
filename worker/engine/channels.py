"""Two channels with a speaker in each: each is cut on its own, and neither hears the other.

A channel that is silent, that only carries the other one's leak, or that is the other one again
(the same sound, or turned upside down) gives nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from worker.engine import cut
from worker.engine.audio import Samples

LEAK: Final = 10.0
"""A channel that is softer than the other by this factor (20 dB) carries only its leak there."""
SILENT: Final = 10.0
"""Root mean square, of 32,768, below which nobody is heard (-70 dB)."""
SAME: Final = 0.95
"""Correlation from which on two channels are one."""
AROUND: Final = 15
"""Frames (half a second) over which loudness is compared: a voice has gaps, its leak has none."""

Unit = tuple[int, ...]
Heard = list[tuple[tuple[int, ...], cut.Probabilities]]
"""For each channel with a voice of its own, or for the only one there is, which is called ():
the probability of speech of every frame."""
Levels = npt.NDArray[np.float64]


def units(
    sound: Sequence[Samples], rules: cut.Rules = cut.RULES
) -> Generator[None, None, list[Unit]]:
    """Cut a recording of one or two channels; yields now and then.

    Returns (start, end) of each unit in samples, in order, and behind them the channel where there
    are two.
    """
    heard = yield from listen(sound)
    length = len(sound[0])
    return sorted(
        (*span, *channel)
        for channel, probabilities in heard
        for span in cut.units(probabilities, length, rules)
    )


def listen(sound: Sequence[Samples]) -> Generator[None, None, Heard]:
    """Where each channel's own voice is; yields now and then."""
    voices = [cut.Silero() for _ in sound]
    heard: list[list[cut.Probabilities]] = [[] for _ in sound]
    levels: list[list[Levels]] = [[] for _ in sound]
    products = np.zeros(3)  # left by left, right by right, left by right
    for windows in zip(*(cut.windows(channel) for channel in sound), strict=True):
        for n, window in enumerate(windows):
            heard[n].append(voices[n].hear(window))
        if len(windows) == 2:
            for n, window in enumerate(windows):
                squares = np.einsum("ij,ij->i", window, window, dtype=np.float64)
                levels[n].append(np.sqrt(squares / cut.FRAME))
            left, right = windows
            products += [np.vdot(left, left), np.vdot(right, right), np.vdot(left, right)]
        yield
    probabilities = [np.concatenate([np.zeros(0, np.float32), *each]) for each in heard]
    if len(sound) == 1:
        return [((), probabilities[0])]
    if abs(products[2]) > SAME * np.sqrt(products[0] * products[1]) > 0:
        louder = int(products[1] > products[0])
        return [((louder,), probabilities[louder])]
    loud = [np.concatenate([np.zeros(0), *each]) for each in levels]
    return [((n,), heeded(probabilities[n], loud[n], loud[1 - n])) for n in (0, 1)]


def heeded(probabilities: cut.Probabilities, own: Levels, other: Levels) -> cut.Probabilities:
    """The probability of speech without what is only the other channel's leak, or nothing at all.

    `own` and `other`: loudness of each frame, 0 to 1.
    """
    mine, theirs = _smooth(own), _smooth(other)
    real = (mine * LEAK > theirs) & (mine > SILENT / 32768)
    return np.where(real, probabilities, np.float32(0))


def _smooth(levels: Levels) -> Levels:
    if not len(levels):
        return levels
    around = np.ones(AROUND) / AROUND
    mean: Levels = np.convolve(np.square(levels), around, mode="full")
    return np.sqrt(mean[AROUND // 2 : AROUND // 2 + len(levels)])
