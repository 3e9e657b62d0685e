"""Each recogniser with its other side, for the suite that all of them have to pass."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import av
import numpy as np

from tests.acceptance.bench import Bench
from tests.acceptance.recogniser_kit import SpeechKitServer
from tests.acceptance.recogniser_servers import KEY, OpenAiServer, serving
from tests.acceptance.service import SAMPLES, free_port, wait_until
from worker.engine.operations import HttpOperations
from worker.errors import LeaseLost, RecogniserRefused
from worker.jobs import Recording
from worker.media import normalise
from worker.pocketbase.client import Client
from worker.recognisers.base import Recogniser, Refused, Running, Unfinished, Verdict
from worker.recognisers.local import LocalRecogniser
from worker.recognisers.openai import OpenAiRecogniser
from worker.recognisers.speechkit import SpeechKitRecogniser

TEXT = "Сказанное вслух."


def speech(folder: Path, phrases: int = 1, pause: float = 1.5) -> Path:
    """A normalised recording: so many different phrases of real speech, with pauses between."""
    target = folder / f"speech-{phrases}-{pause:g}.flac"
    if target.exists():
        return target
    voices = []
    for name in ("hello_ru.ogg", "hello_en.ogg"):
        plain = folder / f"{name}.flac"
        normalise.normalise(SAMPLES / name, plain, 60)
        with av.open(str(plain)) as container:
            voices.append(
                np.concatenate([f.to_ndarray().reshape(-1) for f in container.decode(audio=0)])
            )
    gap = np.zeros(int(16000 * pause), np.int16)
    # Each a little quieter than the one before, so that no two pieces are alike.
    parts = [
        part
        for n in range(phrases)
        for part in ((voices[n % 2] * (1 - n / 400)).astype(np.int16), gap)
    ]
    flac(target, np.concatenate(parts))
    return target


def flac(target: Path, samples: np.ndarray) -> Path:
    """Mono samples of 16 kHz as FLAC."""
    with av.open(str(target), "w", format="flac") as out:
        stream = out.add_stream("flac", rate=16000, layout="mono")
        stream.codec_context.format = "s16"
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), "s16", "mono")
        frame.sample_rate = 16000
        out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return target


def seconds(file: Path) -> float:
    with av.open(str(file)) as container:
        return container.duration / av.time_base


class Rig(ABC):
    """A recogniser, one recording, and what the other side can be made to do."""

    recogniser: Recogniser

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench = bench
        self.folder = folder
        self.opened = ExitStack()
        self.stop = threading.Event()
        self.file = speech(folder)
        self.recording = self.record(self.file)

    def use(self, recogniser: Any) -> None:
        """Work with this one from now on."""
        self.recogniser = self.opened.enter_context(closing(recogniser))

    def record(self, file: Path, **hints: str) -> Recording:
        """A recording with its job, whose audio is this file."""
        job = self.bench.job("normalized")
        return Recording(
            id=job, audio="a.wav", normalized="n.flac", extension="wav", duration=seconds(file),
            language=hints.get("language", ""), vocabulary=hints.get("vocabulary", ""),
            lease_token=self.bench.hold(job),
        )  # fmt: skip

    def audio(self, file: Path | None = None) -> Callable[[], Path]:
        """The audio, fetched into a folder of its own."""

        def fetch() -> Path:
            folder = self.folder / f"fetched-{os.urandom(4).hex()}"
            folder.mkdir()
            copy = folder / "normalized.flac"
            copy.write_bytes((file or self.file).read_bytes())
            return copy

        return fetch

    def submit(self) -> str | Unfinished:
        """One turn."""
        return self.recogniser.submit(self.recording, self.audio())

    def hand_in(self) -> str:
        """Submit until there is an operation."""
        while isinstance(operation := self.submit(), Unfinished):
            pass
        return operation

    def outcome(self) -> Verdict:
        """Submit, let the other side do what it was told to, and ask."""
        try:
            operation = self.hand_in()
        except RecogniserRefused as error:
            return Refused(error.reason)
        self.work(operation)
        return self.recogniser.check(operation)

    @abstractmethod
    def work(self, operation: str) -> None:
        """The other side does its part."""

    @abstractmethod
    def says(self, text: str) -> None:
        """What the other side will hear; empty: nobody spoke."""

    @abstractmethod
    def underway(self) -> Verdict | Unfinished:
        """What can be seen while the other side is at it."""

    @abstractmethod
    def refuses(self) -> None:
        """It will not take this recording."""

    @abstractmethod
    def busy(self) -> None:
        """Its quota is used up, until `free`."""

    @abstractmethod
    def free(self) -> None: ...

    @abstractmethod
    def loses(self, operation: str) -> None:
        """It forgets an operation."""

    @abstractmethod
    def unplug(self) -> None:
        """Nobody listens at its address, until `plug`."""

    @abstractmethod
    def plug(self) -> None: ...

    @abstractmethod
    def late(self) -> str:
        """An operation that is cancelled while the other side is at it, which then comes to its
        end all the same."""


class LocalRig(Rig):
    """The real PocketBase, and an engine that says what the test wants."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        super().__init__(bench, folder)
        self.engine = HttpOperations(bench.client, "engine")
        self.says(TEXT)
        self.failure = ""
        self.plug()

    def plug(self) -> None:
        self.recogniser = LocalRecogniser(self.bench.client)

    def unplug(self) -> None:
        nowhere = Client(f"http://127.0.0.1:{free_port()}", lambda: "x")
        self.recogniser = LocalRecogniser(self.opened.enter_context(nowhere))

    def says(self, text: str) -> None:
        self.segments = [{"start": 0.2, "end": 1.0, "text": text}] if text else []

    def refuses(self) -> None:
        self.failure = "the engine died 3 times on unit 0"

    def work(self, operation: str) -> None:
        held = self.engine.claim()
        assert held is not None
        assert held.id == operation
        if self.failure:
            self.engine.finish(held, "failed", error_text=self.failure)
            return
        if held.units is None:
            self.engine.cut(held, [(0.0, 2.0)] if self.segments else [], "ru")
        if self.segments:
            self.engine.write(held, 0, self.segments)
        self.engine.finish(held, "done", engine="scripted/one")

    def underway(self) -> Verdict | Unfinished:
        operation = self.hand_in()
        self.engine.claim()
        return self.recogniser.check(operation)

    def busy(self) -> None:
        """Engines have no quota; that all of them are busy is the same to the recording."""
        operation = self.hand_in()
        held = self.engine.claim()
        assert held is not None
        self.engine.finish(held, "released")
        assert isinstance(self.recogniser.check(operation), Running)

    def free(self) -> None:
        pass

    def loses(self, operation: str) -> None:
        self.bench.service.execute("DELETE FROM operations WHERE id = ?", operation)

    def late(self) -> str:
        operation = self.hand_in()
        held = self.engine.claim()
        assert held is not None
        self.engine.cut(held, [(0.0, 2.0)], "ru")
        self.recogniser.cancel(operation)
        try:
            self.engine.write(held, 0, self.segments)
        except LeaseLost:
            return operation
        raise AssertionError("what was cancelled was written")


class OpenAiRig(Rig):
    """A server with `POST /v1/audio/transcriptions`."""

    def __init__(self, bench: Bench, folder: Path, server: OpenAiServer, **settings: Any) -> None:
        super().__init__(bench, folder)
        self.server = server
        defaults = {
            "recogniser": "openai",
            "openai_url": f"{server.url}/v1",
            "openai_api_key": KEY,
            "openai_max_seconds": 10.0,  # a phrase and no more
        }
        self.settings = bench.settings(**{**defaults, **settings})
        self.says(TEXT)
        self.plug()

    def plug(self, turn: float = 20.0) -> None:
        self.use(OpenAiRecogniser(self.settings, self.bench.client, self.stop, turn=turn))

    def unplug(self) -> None:
        nowhere = {"openai_url": f"http://127.0.0.1:{free_port()}/v1"}
        settings = self.settings.model_copy(update=nowhere)
        self.use(OpenAiRecogniser(settings, self.bench.client, self.stop))

    def says(self, text: str) -> None:
        if text:
            self.server.text = lambda call: text
        else:
            self.file = flac(self.folder / "silence.flac", np.zeros(16000 * 4, np.int16))

    def refuses(self) -> None:
        self.server.order(400, "invalid_file", times=2)

    def work(self, operation: str) -> None:
        pass  # it was done while submitting

    def underway(self) -> Verdict | Unfinished:
        self.file = speech(self.folder, 2)  # two pieces, so that there is something between
        self.recording = self.record(self.file)
        self.plug(turn=0)
        return self.submit()

    def busy(self) -> None:
        self.server.always = _quota(self.server)

    def free(self) -> None:
        self.server.always = None

    def loses(self, operation: str) -> None:
        self.bench.service.execute("DELETE FROM operations")

    def late(self) -> str:
        self.server.gate.clear()
        ended: list[Exception | str | Unfinished] = []

        def run() -> None:
            try:
                ended.append(self.submit())
            except Exception as error:  # noqa: BLE001 - looked at below
                ended.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            wait_until(lambda: self.server.calls, what="a call")
            [row] = self.bench.service.rows("SELECT id FROM operations")
            operation = f"openai:{row['id']}"
            self.recogniser.cancel(operation)
        finally:
            self.server.gate.set()
            thread.join(20)
        assert isinstance(ended[0], LeaseLost), ended
        return operation


class SpeechKitRig(Rig):
    """SpeechKit's recognition and operations."""

    def __init__(
        self, bench: Bench, folder: Path, server: SpeechKitServer, **settings: Any
    ) -> None:
        super().__init__(bench, folder)
        self.server = server
        defaults = {
            "recogniser": "speechkit",
            "speechkit_url": server.url,
            "speechkit_operations_url": server.url,
            "speechkit_api_key": KEY,
        }
        self.settings = bench.settings(**{**defaults, **settings})
        self.failure = 0
        self.left: list[str] = []
        """Operations that are to be removed later."""
        self.says(TEXT)
        self.plug()

    def plug(self) -> None:
        self.use(SpeechKitRecogniser(self.settings, self.stop, leave=self.left.append))

    def unplug(self) -> None:
        nowhere = f"http://127.0.0.1:{free_port()}"
        elsewhere = {"speechkit_url": nowhere, "speechkit_operations_url": nowhere}
        self.use(SpeechKitRecogniser(self.settings.model_copy(update=elsewhere), self.stop))

    def says(self, text: str) -> None:
        self.server.phrases = lambda operation: [text] if text else []

    def refuses(self) -> None:
        self.failure = 3

    def work(self, operation: str) -> None:
        identifier = operation.removeprefix("speechkit:")
        if self.failure:
            self.server.fail(identifier, self.failure)
        else:
            self.server.finish(identifier)

    def underway(self) -> Verdict | Unfinished:
        return self.recogniser.check(self.hand_in())

    def busy(self) -> None:
        self.server.always = _quota(self.server)

    def free(self) -> None:
        self.server.always = None

    def loses(self, operation: str) -> None:
        self.server.operations.clear()

    def late(self) -> str:
        operation = self.hand_in()
        identifier = operation.removeprefix("speechkit:")
        kept = self.server.operations[identifier]
        self.recogniser.cancel(operation)
        assert self.server.deleted == [identifier]
        # The service's own record of the operation may outlive its result.
        kept.done = True
        self.server.operations[identifier] = kept
        return operation


def _quota(server: OpenAiServer | SpeechKitServer) -> Any:
    server.order(429, Retry_After="7")
    return server.faults.pop()


@contextmanager
def rig(name: str, bench: Bench, folder: Path, **settings: Any) -> Iterator[Any]:
    """A rig by its recogniser's name."""
    with ExitStack() as stack:
        made: Rig
        if name == "local":
            made = LocalRig(bench, folder)
        elif name == "openai":
            made = OpenAiRig(
                bench, folder, stack.enter_context(serving(OpenAiServer())), **settings
            )
        else:
            server = stack.enter_context(serving(SpeechKitServer()))
            made = SpeechKitRig(bench, folder, server, **settings)
        stack.enter_context(made.opened)
        yield made
