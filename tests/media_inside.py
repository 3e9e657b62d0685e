"""What tests run inside a sandbox. Nothing slow is imported here: each process pays for it."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from worker.errors import MediaError, describe


def measured(function: Callable[..., object], *args: object) -> tuple[object, int]:
    """Call it and tell its process's peak of resident memory too, in bytes."""
    result = function(*args)
    return result, _peak()


def attempted(function: Callable[..., object], *args: object) -> tuple[str, int]:
    """As `measured`, for what may fail: why it did, or nothing."""
    try:
        function(*args)
    except MediaError as error:
        return describe(error), _peak()
    return "", _peak()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def spin() -> None:
    while True:
        pass


def swell(size: int) -> int:
    return len(bytearray(size))


def inside() -> dict[str, object]:
    links = []
    for each in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(each.readlink()))
        except FileNotFoundError:  # the listing's own
            continue
    return {
        "pid": os.getpid(),
        "descriptors": [each for each in links if each != "/dev/null"],
        "core": resource.getrlimit(resource.RLIMIT_CORE),
    }


def fail(error: type[Exception], *args: object) -> None:
    raise error(*args)


def die_once(mark: Path) -> str:
    if mark.exists():
        return "second"
    mark.touch()
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def segfault() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def announce_and_hang(mark: Path) -> None:
    mark.write_text(str(os.getpid()))
    spin()


@dataclass
class Seen:
    """Enough of a probe's result."""

    duration: float = 1.0
    has_audio: bool = True


def crashing_probe(path: Path) -> Seen:
    """A probe that the video crashes."""
    if path.name == "video.mp4":
        segfault()
    return Seen()


def hanging_probe(path: Path) -> Seen:
    """A probe that the video hangs."""
    if path.name == "video.mp4":
        spin()
    return Seen()
