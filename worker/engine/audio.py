"""The normalised recording as raw samples on disk, mapped and not read: constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, cast

import av
import numpy as np
import numpy.typing as npt

from worker.engine import RATE
from worker.engine.scratch import second
from worker.errors import NoAudioTrack, UnreadableMedia, is_shortage

Samples = npt.NDArray[np.int16]
"""Mono samples, shape (n,)."""

STRIDE: Final = 30 * RATE
"""Samples between two reports of progress."""


def decode(source: Path, target: Path) -> Iterator[float]:
    """Write the samples of `source` to `target`, raw int16; yields the seconds done, now and then.

    Of two channels the other one's samples go to `second(target)`.

    Raises:
        UnreadableMedia: it cannot be decoded.
        NoAudioTrack: nothing to hear in it.
        OSError: the target cannot be written.
    """
    written = reported = 0
    with ExitStack() as files:
        outs = [files.enter_context(target.open("wb"))]
        for block in _blocks(source):
            if len(block) > len(outs):
                outs.append(files.enter_context(second(target).open("wb")))
            for out, plane in zip(outs, block, strict=True):
                out.write(plane.tobytes())
            written += block.shape[1]
            if written - reported >= STRIDE:
                reported = written
                yield written / RATE


def _blocks(source: Path) -> Iterator[Samples]:
    """Stretches of shape (channels, n), one or two of them throughout."""
    try:
        with av.open(str(source), options={"protocol_whitelist": "file"}) as container:
            if not container.streams.audio:
                raise NoAudioTrack
            pair = container.streams.audio[0].channels == 2
            layout = "stereo" if pair else "mono"
            resampler = av.AudioResampler(format="s16p", layout=layout, rate=RATE)
            for frame in container.decode(audio=0):
                for ready in resampler.resample(frame):
                    yield cast(Samples, ready.to_ndarray())
            for ready in resampler.resample(None):
                yield cast(Samples, ready.to_ndarray())
    except av.FFmpegError as error:
        fault = OSError(error.errno, error.strerror)
        if is_shortage(fault):
            raise fault from None
        raise UnreadableMedia(type(error).__name__) from error


def samples(path: Path) -> Samples:
    """Map raw samples as written by `decode`. Pages are read when touched, and given back."""
    if path.stat().st_size < 2:  # mmap refuses an empty file
        return np.zeros(0, dtype=np.int16)
    return np.memmap(path, dtype=np.int16, mode="r")


def channels(path: Path) -> list[Samples]:
    """Map the samples of each channel as written by `decode`."""
    other = second(path)
    return [samples(path), *([samples(other)] if other.exists() else [])]
