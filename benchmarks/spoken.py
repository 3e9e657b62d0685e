"""Recordings with known texts, of any length, in one language each."""

from __future__ import annotations

import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.audio.stream import AudioStream

from benchmarks import recognition
from benchmarks.recognition import Part, errors, words
from tests.acceptance.service import SAMPLES
from worker.engine import RATE

PAUSES = (0.2, 1.5)
"""Seconds between two clips, at least and at most."""
NOISE = 3.0
"""Level (of 32,768) of white noise over all: no recording is silent between words."""
CODECS = {
    ".ogg": ("libopus", 24_000, {"compression_level": "2"}),
    ".mp3": ("libmp3lame", 48_000, {"compression_level": "9"}),
    ".m4a": ("aac", 64_000, {"aac_coder": "fast"}),
}
"""Encoder, bits a second, and what makes it quick, of what people send."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A file and what is said in it."""

    path: Path
    language: str
    text: str
    seconds: float
    sender: int = 0


def parts(folder: Path | None) -> dict[str, list[Part]]:
    """Samples and texts by language, of a folder or of the repo's own samples."""
    return recognition.load(folder or SAMPLES)


def make(path: Path, clips: Sequence[Part], language: str, seconds: float, seed: int) -> Spoken:
    """Whole clips in a random order with pauses, until there is about so much.

    One that would lead beyond is left out for a shorter one, so that a message stays a message.
    """
    random = np.random.default_rng(seed)
    sounds: list[np.ndarray] = []
    texts: list[str] = []
    total, bag = 0.0, list[int]()
    while total < seconds:
        bag = bag or [int(each) for each in random.permutation(len(clips))]
        fitting = [n for n in bag if total + len(clips[n][0]) / RATE <= max(1.2 * seconds, 12)]
        chosen = (fitting or bag)[0]
        bag.remove(chosen)
        if not fitting and sounds:
            break
        pause = np.zeros(int(RATE * random.uniform(*PAUSES)), np.int16)
        sounds += [clips[chosen][0], pause]
        texts.append(clips[chosen][1])
        total += (len(clips[chosen][0]) + len(pause)) / RATE
    samples = recognition.noisy(np.concatenate(sounds), NOISE, seed)
    write(path, samples)
    return Spoken(path, language, " ".join(texts), len(samples) / RATE)


def write(path: Path, samples: np.ndarray) -> Path:
    """16 kHz mono in the form that the name says."""
    if path.suffix == ".wav":
        with wave.open(str(path), "wb") as wav:
            wav.setnchannels(1)
            wav.setsampwidth(2)
            wav.setframerate(RATE)
            wav.writeframes(samples.tobytes())
        return path
    codec, bits, quick = CODECS[path.suffix]
    with av.open(str(path), "w") as file:
        stream = cast(AudioStream, file.add_stream(codec, rate=RATE, layout="mono", options=quick))
        stream.bit_rate = bits
        resampler = av.AudioResampler(
            stream.codec_context.format, "mono", RATE, stream.codec_context.frame_size or 960
        )

        def encode(frame: av.AudioFrame | None) -> None:
            for ready in resampler.resample(frame):
                ready.pts = None
                file.mux(stream.encode(ready))

        for at in range(0, len(samples), RATE):  # at once, it would be moved about for minutes
            frame = av.AudioFrame.from_ndarray(
                samples[at : at + RATE].reshape(1, -1), "s16", "mono"
            )
            frame.sample_rate = RATE
            encode(frame)
        encode(None)
        file.mux(stream.encode(None))
    return path


class Wrong:
    """Word errors over several texts."""

    def __init__(self) -> None:
        self._errors = self._words = 0

    def add(self, spoken: Spoken, heard: str) -> None:
        """Compare what was said with what was heard."""
        said = words(spoken.text)
        self._errors += errors(said, words(heard))
        self._words += len(said)

    @property
    def rate(self) -> float:
        """Errors for each word that was said."""
        return self._errors / max(1, self._words)

    def __str__(self) -> str:
        return f"{self.rate:.1%} of words wrong"
