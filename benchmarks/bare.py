"""The bare engine: the same model, options, cutting and threads, with no service around it."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from worker.engine import audio, cut, model
from worker.engine.recognise import Recogniser
from worker.engine.work import BATCH
from worker.settings import Settings, load


class Bare:
    """The engine in a process of its own, model loaded, waiting for files."""

    def __init__(self, data: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        settings = load(telegram_enabled=False, data_dir=data)
        self._process = context.Process(target=_serve, args=(theirs, settings), daemon=True)
        self._process.start()
        theirs.close()  # so that a dead one is no endless wait
        self._pipe.recv()

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process.pid is not None
        return self._process.pid

    def recognise(self, path: Path, language: str = "") -> tuple[float, str]:
        """Seconds that decoding, cutting and recognising took, and the text.

        Args:
            path: the recording.
            language: the sender's hint, or empty.
        """
        self._pipe.send((path, language))
        seconds, text = self._pipe.recv()
        return seconds, text

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def _serve(pipe: Connection, settings: Settings) -> None:
    recogniser = Recogniser(model.install(settings), settings.threads)
    pipe.send("ready")
    while True:
        path, hint = pipe.recv()
        started = time.monotonic()
        samples = path.with_suffix(".pcm")
        for _ in audio.decode(path, samples):
            pass
        sound = audio.samples(samples)
        probabilities = np.concatenate([np.zeros(0, np.float32), *cut.listen(sound, cut.Silero())])
        units = cut.units(probabilities, len(sound))
        language = hint or recogniser.language([sound], units)
        texts = []
        for start in range(0, len(units), BATCH):
            batch = recogniser.recognise(
                [sound], units[start : start + BATCH], language=language, mixed=not hint
            )
            texts += [segment["text"].strip() for unit in batch for segment in unit]
        pipe.send((time.monotonic() - started, " ".join(texts)))
        samples.unlink()
