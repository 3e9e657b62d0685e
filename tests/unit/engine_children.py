"""Children for the engine's tests: the real protocol, and no model."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

from worker.engine.child import READY, Cut, Decode, Done, Failed, Recognise, Work, die_with, serve
from worker.errors import UnreadableMedia


def obedient(connection: Connection, parent: int) -> None:
    """Does what a request says: ("echo", x), ("sleep", s), ("steps", s), ("die", signal)..."""
    die_with(parent)
    kept: list[bytearray] = []

    def handle(request: tuple[str, object]) -> Work:
        yield
        match request:
            case ("echo", value):
                return value
            case ("pid", _):
                return os.getpid()
            case ("sleep", float(seconds)):
                time.sleep(seconds)
            case ("litter", int(pieces)):  # freed, but for the last: the C library keeps it all
                litter = [bytearray(60_000) for _ in range(pieces)]
                kept.append(litter.pop())
            case ("steps", float(seconds)):
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    time.sleep(0.3)
                    yield
                return "stepped"
            case ("die", int(number)):
                os.kill(os.getpid(), number)
            case ("raise", "media"):
                raise UnreadableMedia("no")
            case ("raise", "disk"):
                raise OSError(28, "No space left on device", "/somewhere/private")
            case ("raise", _):
                raise ValueError("broken")
        return None

    connection.send((READY, Done(None)))
    serve(connection, handle)


def modelless(connection: Connection, parent: int) -> None:
    """Cannot load its model."""
    die_with(parent)
    connection.send((READY, Failed("fault", "bad magic number")))


def unloadable(connection: Connection, parent: int, folder: Path, threads: int) -> None:
    """The same, with the arguments of a real engine."""
    modelless(connection, parent)


def stillborn(connection: Connection, parent: int) -> None:
    """Dies while it loads."""
    os.kill(os.getpid(), signal.SIGKILL)


def dawdle(text: str, log: Path) -> Work:
    """Take three seconds over a long recording, a tenth at a time."""
    if text.startswith("LONG"):
        with log.open("a") as file:
            file.write("begun\n")
        for _ in range(30):
            time.sleep(0.1)
            yield


def reciting(connection: Connection, parent: int, folder: Path, threads: int) -> None:
    """An engine whose recordings are text: "deadly" kills it, each line is a unit of 10 s.

    Lines: what is said; `DIE` kills the engine each time, `DIE ONCE` the first time only,
    `SLOW` takes a second. A recording that begins with `LONG` takes three to decode and three to
    cut, and `decoded` and `cut` beside the scratch folder count how often that was begun.
    """
    die_with(parent)

    def handle(request: Decode | Cut | Recognise) -> Work:
        yield
        match request:
            case Decode(source, target):
                text = source.read_text()
                if text == "not audio":
                    raise UnreadableMedia("not audio")
                yield from dawdle(text, source.parent.parent / "decoded")
                target.write_text(text)
                return None
            case Cut(samples, language):
                yield from dawdle(samples.read_text(), samples.parent.parent / "cut")
                count = len(samples.read_text().splitlines())
                spans = [(n * 160_000, (n + 1) * 160_000) for n in range(count)]
                return spans, language or "en"
            case Recognise(samples, units):
                lines = samples.read_text().splitlines()
                said = []
                for start, end in units:
                    line = lines[start // 160_000]
                    marker = samples.parent.parent / "died"
                    if line == "DIE" or (line == "DIE ONCE" and not marker.exists()):
                        marker.touch()
                        os.kill(os.getpid(), signal.SIGKILL)
                    if line == "SLOW":
                        time.sleep(1)
                    said.append([{"start": start / 16_000, "end": end / 16_000, "text": line}])
                return said

    connection.send((READY, Done(None)))
    serve(connection, handle)
