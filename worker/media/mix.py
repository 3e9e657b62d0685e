"""From any number of channels to one or two, without losing the speech on the way."""

from __future__ import annotations

from typing import cast

import av
import numpy as np
from numpy.typing import NDArray

CANCELLED = 0.1
"""A mix with less than this part of the loudest channel's energy has cancelled itself out.

Two channels of one voice in opposite phase leave 0; two different voices leave 0.25 or more."""


def mix(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Mix a stretch of sound, shape (channels, n), to shape (1, n).

    The mean of the channels; where that cancels out, the first of the loud channels alone (the
    first, so that the choice does not flap between two equal ones).
    """
    with np.errstate(all="ignore"):  # float recordings may hold infinities
        mixed: NDArray[np.float32] = samples.mean(axis=0, keepdims=True)
        energies = np.einsum("ij,ij->i", samples, samples)
        loudest = energies.max()
        if np.einsum("ij,ij->", mixed, mixed) < CANCELLED * loudest:
            index = int(np.argmax(energies >= loudest / 2))
            return samples[index : index + 1]
        return mixed


class Mono:
    """Turns frames of one format, layout and rate into 16-bit mono of another rate."""

    def __init__(self, rate: int) -> None:
        """`rate`: of the output, Hz."""
        # Unlike for whole numbers, FFmpeg lets a float mix of six loud channels go beyond 1.
        self._planes = av.AudioResampler("fltp", "stereo", options={"rematrix_maxval": "1"})
        self._resampler = av.AudioResampler("s16", "mono", rate)
        self._known = True

    def convert(self, frame: av.AudioFrame | None) -> list[av.AudioFrame]:
        """The next stretch; None flushes the resampler's tail."""
        if frame is None:
            return [each for each in self._resampler.resample(None) if each is not None]
        if frame.layout.nb_channels > 1:
            planes = self._split(frame)
            mono = av.AudioFrame.from_ndarray(mix(planes), "fltp", "mono")
            mono.sample_rate = frame.sample_rate
            frame = mono
        frame.pts = None
        return self._resampler.resample(frame)

    def _split(self, frame: av.AudioFrame) -> NDArray[np.float32]:
        # Surround goes to stereo by FFmpeg's weights first; channels without a known place in the
        # room (a recorder with nine microphones) have none, and are mixed as equals.
        frame.pts = None
        if self._known:
            try:
                return np.concatenate(_arrays(self._planes.resample(frame)), axis=1)
            except (av.FFmpegError, ValueError):
                self._known = False
                # Interleaved: PyAV reads past the list of planes from the eighth on, and crashes.
                self._planes = av.AudioResampler("flt")
        packed = np.concatenate(_arrays(self._planes.resample(frame)), axis=1)
        return np.ascontiguousarray(packed.reshape(-1, frame.layout.nb_channels).T)


class Pair:
    """The same, to two channels as they are; what has another number of them is in both."""

    def __init__(self, rate: int) -> None:
        """`rate`: of the output, Hz."""
        self._mono = Mono(rate)
        self._planes = av.AudioResampler("fltp")
        self._resampler = av.AudioResampler("s16", "stereo", rate)
        self._two = True

    def convert(self, frame: av.AudioFrame | None) -> list[av.AudioFrame]:
        """The next stretch; None flushes the resampler's tail."""
        if frame is not None:
            self._two = frame.layout.nb_channels == 2
        if not self._two:
            return [_twice(each) for each in self._mono.convert(frame)]
        if frame is not None and frame.layout.name != "stereo":  # two without names, or by others
            frame.pts = None
            planes = np.concatenate(_arrays(self._planes.resample(frame)), axis=1)
            rate = frame.sample_rate
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(planes), "fltp", "stereo")
            frame.sample_rate = rate
        if frame is not None:
            frame.pts = None
        return [each for each in self._resampler.resample(frame) if each is not None]


def _twice(frame: av.AudioFrame) -> av.AudioFrame:
    both = np.ascontiguousarray(np.repeat(frame.to_ndarray(), 2, axis=1))
    pair = av.AudioFrame.from_ndarray(both, "s16", "stereo")
    pair.sample_rate = frame.sample_rate
    return pair


def _arrays(frames: list[av.AudioFrame]) -> list[NDArray[np.float32]]:
    return [cast("NDArray[np.float32]", each.to_ndarray()) for each in frames]
