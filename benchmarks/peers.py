"""This service, the bare library and what people run otherwise: same recordings, weights, threads.

    python -m benchmarks.peers FOLDER [--threads 2] [--rounds 2] [--minutes 3] [--venv PATH]

FOLDER is as for `benchmarks.recognition`; of each language a recording of some minutes is made. In
each round every way has its turn with it, so that a busy machine slows all. The peers,
whisper-ctranslate2 (the engine's own command line) and wyoming-faster-whisper (the server that Home
Assistant's users run), are installed from the package registry into a virtual environment that is
thrown away, with the versions of faster-whisper and CTranslate2 that are installed here; nothing of
them enters the project.

Seconds are from the file to the text. A server's start is not counted, the command line's is: it
has one each time.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import venv
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks import recognition
from benchmarks.bare import Bare
from benchmarks.recognition import errors, words
from tests.acceptance.service import ALL, Service, free_port, wait_until
from worker.engine import RATE, model
from worker.engine.recognise import Recogniser
from worker.settings import Settings

PEERS = ("whisper-ctranslate2==0.5.8", "wyoming-faster-whisper==3.8.1")
Way = Callable[[Path, str], str]
"""From a file and its language to the text."""


def recording(parts: list[recognition.Part], minutes: float) -> recognition.Part:
    """The recordings of a language in random orders with pauses, until it is long enough."""
    sounds, texts, seed = [], [], 0
    while sum(map(len, sounds)) < minutes * 60 * RATE:
        samples, text = recognition.long(parts, seed)
        sounds.append(recognition.noisy(samples, 3, seed))
        texts.append(text)
        seed += 1
    return np.concatenate(sounds), " ".join(texts)


def write(path: Path, samples: np.ndarray) -> Path:
    """16 kHz mono WAV."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    return path


def install(folder: Path) -> Path:
    """A virtual environment with the peers; its programs' folder."""
    programs = folder / "bin"
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
def service(folder: Path, options: argparse.Namespace) -> Iterator[Way]:
    """Everything: upload, queue, normalising, recognition, the text's way back."""
    own = Service(folder, ENGINE_THREADS=str(options.threads), ENGINE_MODEL=options.model)
    try:
        own.start(*ALL)
        user = own.user()

        def run(path: Path, language: str) -> str:
            job = user.upload(path, language=language)
            return str(user.wait(job, 3600)["transcription_text"])

        yield run
    finally:
        own.close()


@contextlib.contextmanager
def engine(folder: Path, options: argparse.Namespace) -> Iterator[Way]:
    """Our engine without the service (it finds the language itself)."""
    os.environ |= {"ENGINE_THREADS": str(options.threads), "ENGINE_MODEL": options.model}
    bare = Bare(folder)
    try:
        yield lambda path, _: bare.recognise(path)[1]
    finally:
        bare.close()


@contextlib.contextmanager
def library(weights: Path, options: argparse.Namespace, way: recognition.Way) -> Iterator[Way]:
    """The bare library, in this process."""
    from faster_whisper import decode_audio  # noqa: PLC0415 - native libraries, only where they are measured

    recogniser = Recogniser(weights, options.threads)

    def run(path: Path, language: str) -> str:
        samples = (decode_audio(str(path)) * 32768).astype(np.int16)
        return way(recogniser, samples, language)

    yield run


@contextlib.contextmanager
def command_line(
    programs: Path, weights: Path, options: argparse.Namespace, *more: str
) -> Iterator[Way]:
    """whisper-ctranslate2, a process each time."""

    def run(path: Path, language: str) -> str:
        with tempfile.TemporaryDirectory() as out:
            subprocess.run(
                [
                    str(programs / "whisper-ctranslate2"), str(path), "--model_directory",
                    str(weights), "--language", language, "--threads", str(options.threads),
                    "--device", "cpu", "--compute_type", "int8", "--output_format", "txt",
                    "--output_dir", out, "--verbose", "False", *more,
                ],
                check=True, env=quiet(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            return (Path(out) / f"{path.stem}.txt").read_text(encoding="utf-8")

    yield run


@contextlib.contextmanager
def wyoming(
    programs: Path, weights: Path, options: argparse.Namespace, *more: str
) -> Iterator[Way]:
    """wyoming-faster-whisper, a server with its model loaded."""
    port = free_port()
    with tempfile.TemporaryDirectory() as data:
        server = subprocess.Popen(
            [
                str(programs / "python"), "-m", "wyoming_faster_whisper", "--model", str(weights),
                "--uri", f"tcp://127.0.0.1:{port}", "--data-dir", data, "--device", "cpu",
                "--compute-type", "int8", "--cpu-threads", str(options.threads), "--beam-size",
                "5", "--stt-library", "faster-whisper", *more,
            ],
            env=quiet(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

        def listens() -> bool:
            if server.poll() is not None:
                raise RuntimeError("wyoming-faster-whisper ended")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True
            return False

        def run(path: Path, language: str) -> str:
            with socket.create_connection(("127.0.0.1", port), 3600) as line:
                return spoken(line, path, language)

        try:
            wait_until(listens, 120, "wyoming-faster-whisper")
            yield run
        finally:
            server.kill()
            server.wait()


def spoken(line: socket.socket, path: Path, language: str) -> str:
    """One exchange of the Wyoming protocol: JSON lines, each with as much data as it announces."""
    kind = {"rate": RATE, "width": 2, "channels": 1}

    def say(event: str, data: dict[str, object], payload: bytes = b"") -> None:
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


def main() -> None:
    """Run all ways in turn and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="base")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--venv", type=Path, help="of an earlier run, to be used again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folder = Path(scratch)
        settings = Settings(telegram_enabled=False, engine_model=options.model, data_dir=folder)
        weights = model.install(settings)
        programs = install(options.venv or folder / "venv")
        enter = stack.enter_context
        ways: dict[str, Way] = {
            "this service, whole": enter(service(folder, options)),
            "this service's engine alone": enter(engine(folder, options)),
            "faster-whisper, `vad_filter`": enter(library(weights, options, recognition.filtered)),
            "faster-whisper, batched": enter(library(weights, options, recognition.batched)),
            "whisper-ctranslate2": enter(
                command_line(programs, weights, options, "--vad_filter", "True")
            ),
            "whisper-ctranslate2, batched": enter(
                command_line(programs, weights, options, "--batched", "True")
            ),
            "wyoming-faster-whisper": enter(wyoming(programs, weights, options)),
        }
        compare(ways, options, folder)


def compare(ways: dict[str, Way], options: argparse.Namespace, folder: Path) -> None:
    """Each way's turn with each recording, in each round."""
    print("| language | way | seconds | times real time | ratio to the service | word error rate |")
    print("|---|---|---|---|---|---|")
    for language, parts in recognition.load(options.folder).items():
        if not parts:
            continue
        samples, text = recording(parts, options.minutes)
        path = write(folder / f"{language}.wav", samples)
        warm = write(folder / "warm.wav", samples[: 10 * RATE])
        for way in ways.values():
            way(warm, language)
        took: dict[str, list[float]] = {name: [] for name in ways}
        wrong: dict[str, float] = {}
        said = words(text)
        for number in range(options.rounds):
            for name, way in ways.items():
                print(f"{language}, round {number + 1}: {name}", file=sys.stderr)
                started = time.monotonic()
                got = way(path, language)
                took[name].append(time.monotonic() - started)
                wrong[name] = errors(said, words(got)) / len(said)
        first = statistics.median(took[next(iter(ways))])
        for name in ways:
            median = statistics.median(took[name])
            print(
                f"| {language} | {name} | {median:.1f} | {len(samples) / RATE / median:.1f} "
                f"| {median / first:.2f} | {wrong[name]:.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
