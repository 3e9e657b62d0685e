"""Speech of any length and kind, made of the repo's own samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from tests.acceptance.service import sample

RATE = 16_000
Sound = npt.NDArray[np.int16]


def said(name: str) -> Sound:
    """One of the samples, `en` or `ru`, as 16 kHz mono."""
    resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
    with av.open(str(sample(f"hello_{name}.ogg"))) as container:
        frames = [out for frame in container.decode(audio=0) for out in resampler.resample(frame)]
        frames += resampler.resample(None)
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])


def pause(seconds: float) -> Sound:
    return np.zeros(round(seconds * RATE), np.int16)


def noise(seconds: float, level: float = 100, seed: int = 0) -> Sound:
    """White noise."""
    return np.random.default_rng(seed).normal(0, level, round(seconds * RATE)).astype(np.int16)


def write(path: Path, *channels: Sound, times: int = 1) -> Path:
    """Write FLAC with a channel or two, so many times over."""
    layout = "stereo" if len(channels) == 2 else "mono"
    data = np.ascontiguousarray(np.stack(channels).T.reshape(1, -1))
    with av.open(str(path), "w", format="flac") as file:
        stream = file.add_stream("flac", rate=RATE, layout=layout)
        stream.codec_context.format = "s16"
        for _ in range(times):
            frame = av.AudioFrame.from_ndarray(data, "s16", layout)
            frame.sample_rate = RATE
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return path


CODECS = {
    "flac": "flac", "wav": "pcm_s16le", "mp3": "libmp3lame", "ogg": "libopus", "webm": "libopus",
    "mkv": "ac3", "m4a": "aac", "mp4": "aac", "avi": "pcm_s16le",
}  # fmt: skip
"""The codec of each container in `store`."""


def store(path: Path, *channels: Sound, rate: int = 48_000) -> Path:
    """Write a channel or two in the container of the path's extension."""
    layout = "stereo" if len(channels) == 2 else "mono"
    container = {"m4a": "mp4", "mkv": "matroska"}.get(path.suffix[1:], path.suffix[1:])
    planes = np.ascontiguousarray(np.stack(channels).astype(np.float32) / 32768)
    frame = av.AudioFrame.from_ndarray(planes, "fltp", layout)
    frame.sample_rate = RATE
    with av.open(str(path), "w", format=container) as file:
        stream = file.add_stream(CODECS[path.suffix[1:]], rate=rate, layout=layout)
        resampler = av.AudioResampler(
            stream.format, layout, rate, frame_size=stream.codec_context.frame_size or 1024
        )
        for part in [*resampler.resample(frame), *resampler.resample(None)]:
            file.mux(stream.encode(part))
        file.mux(stream.encode(None))
    return path


def lecture(path: Path, hours: float, sentences: Sequence[str] = ("en", "ru")) -> Path:
    """Hours of speech, a minute over and over."""
    minute = np.concatenate([part for name in sentences for part in (said(name), pause(0.8))])
    return write(path, np.resize(minute, 60 * RATE), times=round(hours * 60))
