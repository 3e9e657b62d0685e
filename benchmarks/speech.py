"""Speech of any length, out of the repo's own samples with pauses between."""

from __future__ import annotations

import itertools
import wave
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from tests.acceptance.service import SAMPLES

RATE = 16_000
PAUSE = 0.8


def make(path: Path, seconds: float) -> Path:
    """Write about `seconds` of speech as 16 kHz mono WAV."""
    clips = [decoded(each) for each in sorted(SAMPLES.glob("*.ogg"))]
    silence = np.zeros(int(PAUSE * RATE), dtype=np.int16)
    wanted = int(seconds * RATE)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        written = 0
        for clip in itertools.cycle(clips):
            piece = np.concatenate([clip, silence])[: wanted - written]
            file.writeframes(piece.tobytes())
            written += len(piece)
            if written >= wanted:
                return path
    raise AssertionError


def decoded(path: Path) -> npt.NDArray[np.int16]:
    """A sample as 16 kHz mono."""
    resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
    with av.open(str(path)) as container:
        frames = [out for frame in container.decode(audio=0) for out in resampler.resample(frame)]
        frames += resampler.resample(None)
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])
