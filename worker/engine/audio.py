"""The normalised recording as raw samples on disk, mapped and not read: constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import av
import numpy as np
import numpy.typing as npt

from worker.engine import RATE
from worker.errors import NoAudioTrack, UnreadableMedia

Samples = npt.NDArray[np.int16]
"""Mono samples, shape (n,)."""

STRIDE: Final = 30 * RATE
"""Samples between two reports of progress."""


def decode(source: Path, target: Path) -> Iterator[float]:
    """Write the samples of `source` to `target`, raw int16; yields the seconds done, now and then.

    Raises:
        UnreadableMedia: it cannot be decoded.
        NoAudioTrack: nothing to hear in it.
        OSError: the target cannot be written.
    """
    written = reported = 0
    with target.open("wb") as out:
        for block in _blocks(source):
            out.write(block)
            written += len(block) // 2
            if written - reported >= STRIDE:
                reported = written
                yield written / RATE


def _blocks(source: Path) -> Iterator[bytes]:
    try:
        with av.open(str(source), options={"protocol_whitelist": "file"}) as container:
            if not container.streams.audio:
                raise NoAudioTrack
            resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
            for frame in container.decode(audio=0):
                for ready in resampler.resample(frame):
                    yield ready.to_ndarray().tobytes()
            for ready in resampler.resample(None):
                yield ready.to_ndarray().tobytes()
    except av.FFmpegError as error:
        raise UnreadableMedia(type(error).__name__) from error


def samples(path: Path) -> Samples:
    """Map raw samples as written by `decode`. Pages are read when touched, and given back."""
    if path.stat().st_size < 2:  # mmap refuses an empty file
        return np.zeros(0, dtype=np.int16)
    return np.memmap(path, dtype=np.int16, mode="r")
