"""Ways from a recording to its text: this service, its bare engine, the library, other programs.

The peers, whisper-ctranslate2 (the engine's own command line) and wyoming-faster-whisper (the
server that Home Assistant's users run), are installed from the package registry into a virtual
environment, with the versions of faster-whisper and CTranslate2 that are installed here. Others
are named as servers that run already (`benchmarks.servers`). Nothing of them enters the project.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import resource
import socket
import subprocess
import tempfile
import time
import venv
import wave
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import processor, recognition
from benchmarks.bare import Bare
from benchmarks.options import Options
from benchmarks.servers import Server
from benchmarks.spoken import Spoken
from tests.acceptance.service import ALL, Service, User, free_port, wait_until
from worker.engine import RATE, model
from worker.settings import Settings

PEERS = ("whisper-ctranslate2==0.5.8", "wyoming-faster-whisper==3.8.1")
SHORT = 60.0
"""Seconds of a recording whose sender asks often."""


def unknown() -> float:
    """Processor seconds that cannot be seen."""
    return float("nan")


@dataclass(frozen=True, slots=True)
class Way:
    """One way, ready."""

    name: str
    text: Callable[[Spoken], str]
    spent: Callable[[], float] = unknown
    """Processor seconds so far."""
    at_once: bool = False
    """Whether it takes recordings as they come; else they wait for each other outside of it."""


def weights(folder: Path, options: Options) -> Path:
    """The folder with the model that is measured."""
    return model.install(
        Settings(telegram_enabled=False, engine_model=options.model, data_dir=folder)
    )


class Senders:
    """Programs that upload recordings to a service and ask for the texts."""

    def __init__(self, service: Service, asking: tuple[float, float] = (0.05, 0.25)) -> None:
        self._service = service
        self._asking = asking
        self._users: dict[int, User] = {}

    def text(self, spoken: Spoken) -> str:
        """Upload, and ask until it is there: asking is work, too, and not what is measured."""
        if spoken.sender not in self._users:
            self._users[spoken.sender] = self._service.user()
        user = self._users[spoken.sender]
        pause = self._asking[spoken.seconds > SHORT]
        job = user.upload(spoken.path, language=spoken.language)
        while "transcription_text" not in (status := user.status(job)):
            if "halted" in status:
                raise RuntimeError(f"halted: {self._service.job(job)['error_text']}")
            time.sleep(pause)
        return str(status["transcription_text"])


@contextlib.contextmanager
def service(
    folder: Path, options: Options, asking: tuple[float, float] = (0.05, 0.25)
) -> Iterator[Way]:
    """Everything: upload, queue, normalising, recognition, the text's way back.

    Args:
        folder: the service's.
        options: model and threads.
        asking: seconds between two questions for a short recording's text, and a long one's.
    """
    own = Service(folder, ENGINE_THREADS=str(options.threads), ENGINE_MODEL=options.model)
    try:
        own.start(*ALL)
        yield Way(
            "this service",
            Senders(own, asking).text,
            lambda: processor.spent(each.pid for each in own.processes.values()),
            at_once=True,
        )
    finally:
        own.close()


@contextlib.contextmanager
def engine(folder: Path, options: Options) -> Iterator[Way]:
    """Our engine without the service."""
    os.environ |= {"ENGINE_THREADS": str(options.threads), "ENGINE_MODEL": options.model}
    bare = Bare(folder)
    try:
        yield Way(
            "bare engine",
            lambda spoken: bare.recognise(spoken.path, spoken.language)[1],
            lambda: processor.spent([bare.pid]),
        )
    finally:
        bare.close()


@contextlib.contextmanager
def library(name: str, folder: Path, options: Options, way: recognition.Way) -> Iterator[Way]:
    """The bare library, in this process."""
    from faster_whisper import decode_audio  # noqa: PLC0415 - native libraries, only where they are measured

    recogniser = recognition.library(folder, options.threads)

    def text(spoken: Spoken) -> str:
        samples = (decode_audio(str(spoken.path)) * 32768).astype(np.int16)
        return way(recogniser, samples, spoken.language)

    yield Way(name, text, time.process_time)


@contextlib.contextmanager
def sequential(folder: Path, options: Options) -> Iterator[Way]:
    """The library as most programs call it."""
    with library("faster-whisper, `vad_filter`", folder, options, recognition.filtered) as way:
        yield way


@contextlib.contextmanager
def batched(folder: Path, options: Options) -> Iterator[Way]:
    """The library's batched pipeline."""
    with library("faster-whisper, batched", folder, options, recognition.batched) as way:
        yield way


def install(folder: Path) -> Path:
    """A virtual environment with the peers; its programs' folder."""
    programs = folder.absolute() / "bin"
    if not (programs / "whisper-ctranslate2").exists():
        venv.create(folder, with_pip=True)
        ours = [
            f"{name}=={importlib.metadata.version(name)}"
            for name in ("faster-whisper", "ctranslate2")
        ]
        command = [str(programs / "pip"), "install", "--quiet", *ours, *PEERS]
        subprocess.run(command, check=True, env=quiet())
    return programs


def quiet() -> dict[str, str]:
    """This environment, offline as far as the hub is concerned."""
    return {**os.environ, "HF_HUB_OFFLINE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


@contextlib.contextmanager
def command_line(programs: Path, folder: Path, options: Options, *more: str) -> Iterator[Way]:
    """whisper-ctranslate2, a process each time."""

    def text(spoken: Spoken) -> str:
        with tempfile.TemporaryDirectory() as out:
            subprocess.run(
                [
                    str(programs / "whisper-ctranslate2"), str(spoken.path), "--model_directory",
                    str(folder), "--language", spoken.language, "--threads", str(options.threads),
                    "--device", "cpu", "--compute_type", "int8", "--output_format", "txt",
                    "--output_dir", out, "--verbose", "False", *more,
                ],
                check=True, env=quiet(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            return (Path(out) / f"{spoken.path.stem}.txt").read_text(encoding="utf-8")

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    name = "whisper-ctranslate2" + (", batched" if "--batched" in more else "")
    yield Way(name, text, spent)


@contextlib.contextmanager
def wyoming(programs: Path, folder: Path, options: Options) -> Iterator[Way]:
    """wyoming-faster-whisper, a server with its model loaded. It takes PCM alone."""
    port = free_port()
    with tempfile.TemporaryDirectory() as data:
        server = subprocess.Popen(
            [
                str(programs / "python"), "-m", "wyoming_faster_whisper", "--model", str(folder),
                "--uri", f"tcp://127.0.0.1:{port}", "--data-dir", data, "--device", "cpu",
                "--compute-type", "int8", "--cpu-threads", str(options.threads), "--beam-size",
                "5", "--stt-library", "faster-whisper",
            ],
            env=quiet(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

        def listens() -> bool:
            if server.poll() is not None:
                raise RuntimeError("wyoming-faster-whisper ended")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True
            return False

        def text(spoken: Spoken) -> str:
            with socket.create_connection(("127.0.0.1", port), 3600) as line:
                return exchange(line, spoken.path, spoken.language)

        try:
            wait_until(listens, 120, "wyoming-faster-whisper")
            yield Way("wyoming-faster-whisper", text, lambda: processor.spent([server.pid]))
        finally:
            server.kill()
            server.wait()


def exchange(line: socket.socket, path: Path, language: str) -> str:
    """One exchange of the Wyoming protocol: JSON lines, each with as much data as it announces."""
    kind = {"rate": RATE, "width": 2, "channels": 1}

    def say(event: str, data: Mapping[str, object], payload: bytes = b"") -> None:
        body = json.dumps(data).encode()
        head = {"type": event, "data_length": len(body), "payload_length": len(payload)}
        line.sendall(json.dumps(head).encode() + b"\n" + body + payload)

    say("transcribe", {"language": language})
    say("audio-start", kind)
    with wave.open(str(path), "rb") as file:
        while chunk := file.readframes(RATE):
            say("audio-chunk", kind, chunk)
    say("audio-stop", {})
    with line.makefile("rb") as answers:
        while True:
            head = json.loads(answers.readline())
            data = json.loads(answers.read(head.get("data_length") or 0) or b"{}")
            answers.read(head.get("payload_length") or 0)
            if head["type"] == "transcript":
                return str({**head.get("data", {}), **data}["text"])


def server(name: str, url: str) -> Way:
    """One that runs already."""
    own = Server(url)
    pids = own.pids()
    return Way(name, own.text, (lambda: processor.spent(pids)) if pids else unknown, at_once=True)


def others(
    enter: Callable[[contextlib.AbstractContextManager[Way]], Way], folder: Path, options: Options
) -> list[Way]:
    """The peers that the options name, entered: a virtual environment's, and running servers."""
    found = []
    if options.peers:
        programs = install(options.peers)
        found += [
            enter(command_line(programs, folder, options, "--vad_filter", "True")),
            enter(command_line(programs, folder, options, "--batched", "True")),
        ]
    return found + [server(name, url) for name, url in options.servers]
