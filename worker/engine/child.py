"""The child process: all native code runs here, where it may crash or hang.

Over a pipe come numbered requests; back go numbered replies, `Progress` any number of times and
then one `Done` or `Failed`. A request that comes while another runs replaces it at its next
report of progress; a long one that was replaced is put aside, and goes on from there when it is
asked again. The child ends when its parent does, however that ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Literal

from worker.errors import MediaError, describe

Span = tuple[int, ...]
"""Start and end of a unit, in samples, and its channel where each is read apart."""


@dataclass(frozen=True, slots=True)
class Decode:
    """Write the samples of `source` to `target` (see `worker.engine.audio`). Done with None."""

    source: Path
    target: Path


@dataclass(frozen=True, slots=True)
class Cut:
    """Find the units of speech and the language. Done with (list of spans, code)."""

    samples: Path
    language: str
    """The sender's hint; where it says nothing to the model, the language is detected."""


@dataclass(frozen=True, slots=True)
class Recognise:
    """Recognise a batch of units. Done with a list of segments for each."""

    samples: Path
    units: tuple[Span, ...]
    language: str
    mixed: bool
    vocabulary: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Still at it."""


@dataclass(frozen=True, slots=True)
class Done:
    """The request's result."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The request failed in Python; the child lives on."""

    kind: Literal["media", "disk", "fault"]
    """The recording's fault; the machine's; or anybody's."""
    reason: str


READY: Final = -1
"""Number of the reply that says whether the model is loaded."""

REST: Final = 2.0
"""Seconds without a request after which memory goes back to the system."""

ASIDE: Final = 4
"""Requests that are kept half done."""

Work = Generator[None, None, Any]
"""A request being worked on: yields at every progress, returns the result."""
Handler = Callable[[Any], Work]


def main(
    connection: Connection, parent: int, folder: Path, threads: int, speakers: Path | None = None
) -> None:
    """Load the model and serve requests until the pipe closes.

    Args:
        connection: the child's end of the pipe.
        parent: process id of the parent.
        folder: the model's, verified.
        threads: of native code.
        speakers: the speaker model's file, where speakers are to be told apart.
    """
    die_with(parent)
    try:
        handler = _handler(folder, threads, speakers)
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent has to hear of it
        connection.send((READY, Failed("fault", describe(error))))
        return
    connection.send((READY, Done(None)))
    serve(connection, handler)


def die_with(parent: int) -> None:
    """Leave signals from the terminal to the parent, and end when it ends, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        pdeathsig = 1
        ctypes.CDLL(None).prctl(pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)


def give_memory_back() -> None:
    """Have the C library return what it keeps for later, where it is one that can (glibc)."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def serve(connection: Connection, handler: Handler) -> None:
    """Work on requests until the pipe closes, which it does when the parent ends."""
    aside: dict[object, Work] = {}
    try:
        while True:
            if not connection.poll(REST):
                give_memory_back()
            number, request = connection.recv()
            work = aside.pop(request, None) or handler(request)
            if reply := _work(connection, number, work):
                connection.send((number, reply))
            elif isinstance(request, Decode | Cut):
                aside[request] = work
                if len(aside) > ASIDE:
                    aside.pop(next(iter(aside))).close()
            else:
                work.close()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _work(connection: Connection, number: int, work: Work) -> Done | Failed | None:
    try:
        while not connection.poll():
            try:
                next(work)
            except StopIteration as end:
                return Done(end.value)
            connection.send((number, Progress()))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise
    except MediaError as error:
        return Failed("media", describe(error))
    except OSError as error:
        return Failed("disk", error.strerror or type(error).__name__)  # without the path
    except Exception as error:  # noqa: BLE001 - native bindings raise anything
        return Failed("fault", describe(error))
    return None


def _handler(folder: Path, threads: int, speakers: Path | None = None) -> Handler:
    # Native libraries are loaded in the child alone: the parent imports this module too.
    from worker.engine import audio, channels, cut  # noqa: PLC0415 - native libraries, in the child alone
    from worker.engine.onnx_models import LONGEST, OnnxRecogniser, is_one  # noqa: PLC0415 - the same
    from worker.engine.recognise import Recogniser  # noqa: PLC0415 - the same
    from worker.engine.voices import Voices  # noqa: PLC0415 - the same

    voices = Voices(speakers, threads) if speakers else None  # the smaller one fails sooner
    recogniser: Recogniser | OnnxRecogniser
    rules = cut.RULES
    if (folder / "model.bin").is_file() or not is_one(folder):
        recogniser = Recogniser(folder, threads)
    else:
        recogniser = OnnxRecogniser(folder, threads)
        rules = replace(rules, longest=LONGEST)

    def decode(request: Decode) -> Work:
        for _ in audio.decode(request.source, request.target):
            yield

    def find(request: Cut) -> Work:
        sound = audio.channels(request.samples)
        units = yield from channels.units(sound, rules)
        language = recogniser.known(request.language)
        if units and not language:
            language = recogniser.language(sound, units)
        return units, language

    def recognise(request: Recognise) -> Work:
        yield
        sound = audio.channels(request.samples)
        found = recogniser.recognise(
            sound,
            request.units,
            language=request.language,
            mixed=request.mixed,
            vocabulary=request.vocabulary,
        )
        if voices:
            voices.mark(sound, request.units, found)
        return found

    def handle(request: Decode | Cut | Recognise) -> Work:
        match request:
            case Decode():
                return decode(request)
            case Cut():
                return find(request)
            case Recognise():
                return recognise(request)

    return handle
