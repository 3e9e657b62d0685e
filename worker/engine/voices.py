"""What a voice is like, in numbers that lie close together for one speaker: off by default.

The model is a file of the owner's (`SPEAKERS_MODEL`). What it finds stays with the unit's segments,
under a key of our own, until `worker.recognisers.speakers` makes labels of it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from worker.engine import RATE
from worker.errors import ConfigurationError, ModelMissing, Problem
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.engine.audio import Samples

KEY: Final = "_voice"
"""In a segment, only while its recording is in work. Empty: too short to tell."""
SHORTEST: Final = 1 * RATE
"""Samples of speech in which a voice can be told."""
LONGEST: Final = 10 * RATE
"""Samples that say enough of it; the middle of a longer segment is taken."""
SPEECH: Final = 0.5
"""The detector's probability from which on a frame is heard."""
BANDS: Final = 80
WIDEST: Final = 1024
"""Numbers of a voice, at most: each segment carries them."""
FORM: Final = (
    "it must be an ONNX file of a speaker embedding: one input (batch, frames, 80), an output "
    "(batch, dimensions)"
)

Vector = npt.NDArray[np.float32]


def find(settings: Settings) -> Path | None:
    """The model's file; None: speakers are not asked for.

    Raises:
        ConfigurationError: there is no such file.
    """
    if not settings.speakers_model:
        return None
    file = Path(settings.speakers_model).expanduser().absolute()
    if not file.is_file():
        raise ConfigurationError(Problem("SPEAKERS_MODEL", f"no such file; {FORM}"))
    return file


class Voices:
    """A speaker model, on the processor. What it says of a clip depends on that clip alone."""

    def __init__(self, file: Path, threads: int) -> None:
        """Load the model and try it.

        Raises:
            ModelMissing: it is no speaker model.
        """
        import onnxruntime  # noqa: PLC0415 - native libraries, in the engine's child only
        from onnx_asr.preprocessors.numpy_preprocessor import (  # noqa: PLC0415 - native libraries, in the child alone
            KaldiPreprocessorNumpy,
        )

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # The features that WeSpeaker's models learned from, as onnx-asr makes them.
        self._features: Any = KaldiPreprocessorNumpy("wespeaker")
        try:
            self._session: Any = onnxruntime.InferenceSession(
                str(file), options, providers=["CPUExecutionProvider"]
            )
            [given] = self._session.get_inputs()
            self._input = given.name
            self._output = self._session.get_outputs()[0].name
            noise = np.random.default_rng(0).normal(0, 1000, 2 * SHORTEST)
            self.width = len(self._embed(noise.astype(np.int16)))
            with file.open("rb") as content:
                self._name = hashlib.file_digest(content, "sha256").hexdigest()[:8]
        except Exception as error:  # whatever the runtime raises
            raise ModelMissing(file.name, f"not usable as SPEAKERS_MODEL: {FORM}") from error

    def mark(
        self,
        audio: Sequence[Samples],
        units: Sequence[tuple[int, ...]],
        found: Sequence[Sequence[Any]],
    ) -> None:
        """Add the voice to each unit's segments.

        Args:
            audio: the whole recording's channels, one or two.
            units: as they were recognised.
            found: the segments of each.
        """
        for unit, segments in zip(units, found, strict=True):
            channel = audio[unit[2] if len(unit) > 2 else 0]
            for segment in segments:
                if segment["text"]:
                    start, end = round(segment["start"] * RATE), round(segment["end"] * RATE)
                    segment[KEY] = self.of(channel[start:end])

    def of(self, clip: Samples) -> str:
        """The voice in a clip, packed; empty where too little is said in it."""
        sound = _spoken(clip)
        if len(sound) < SHORTEST:
            return ""
        skip = max(0, len(sound) - LONGEST) // 2
        try:
            vector = self._embed(sound[skip : skip + LONGEST])
        except Exception:  # noqa: BLE001 - a label is never worth a text
            return ""
        length = float(np.linalg.norm(vector))
        return pack(self._name, vector / length) if np.isfinite(length) and length > 0 else ""

    def _embed(self, sound: Samples) -> Vector:
        waves = sound.astype(np.float32)[None]  # in the scale of 16 bits, as they learned
        features, _ = self._features(waves, np.array([len(sound)], dtype=np.int64))
        features -= features.mean(axis=1, keepdims=True)
        [found] = self._session.run([self._output], {self._input: features.astype(np.float32)})
        if found.ndim != 2 or found.shape[0] != 1 or not 0 < found.shape[1] <= WIDEST:
            raise ValueError(f"the output has the shape {found.shape}")
        return np.asarray(found[0], dtype=np.float32)


def _spoken(clip: Samples) -> Samples:
    """The frames of a clip in which somebody speaks."""
    from worker.engine import cut  # noqa: PLC0415 - native libraries, in the engine's child only

    heard = cut.hear(clip)[: len(clip) // cut.FRAME] >= SPEECH
    frames = clip[: len(heard) * cut.FRAME].reshape(-1, cut.FRAME)
    return np.asarray(frames[heard]).reshape(-1)


def pack(model: str, vector: Vector) -> str:
    """A vector of length 1 with the name of the model that found it, for JSON."""
    return f"{model}:{base64.b64encode(vector.astype('<f2').tobytes()).decode()}"


def unpack(voice: str) -> tuple[str, Vector]:
    """Model and vector as they were packed."""
    model, _, data = voice.partition(":")
    return model, np.frombuffer(base64.b64decode(data), dtype="<f2").astype(np.float32)
