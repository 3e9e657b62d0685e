"""The intake: small files and large ones, against a bare PocketBase that takes the same file.

Ours looks into each file (the metadata source, a process of its own), gives it a name of its own
and makes a job of it; the bare one stores it in a record.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks import options, speech
from benchmarks.memory import grow
from benchmarks.plain import plain
from benchmarks.processes import Side, private
from benchmarks.processor import spent as cpu_of
from benchmarks.sampler import Sampler
from benchmarks.table import Row, ratio, spread
from tests.acceptance.service import Service, tone

ROUNDS = 3
SECONDS = 2.0
SENDERS = (1, 8)
LARGE = 256 << 20


class Contestant:
    """Someone who takes files: its senders, and its processes, PocketBase the first."""

    def __init__(self, stack: ExitStack, url: str, path: str, token: str, *pids: int) -> None:
        address = url.removeprefix("http://")
        self.side = Side(sys.executable, "benchmarks.senders", address, path, token)
        stack.callback(self.side.close)
        self.pids = pids

    def small(self, file: Path, senders: int) -> tuple[float, float]:
        """Files a second, and CPU seconds that each costs the server."""
        before = cpu_of(self.pids)
        answer = self.side.ask("many", file=str(file), senders=senders, seconds=SECONDS)
        spent = cpu_of(self.pids) - before
        return answer["done"] / SECONDS, spent / answer["done"]

    def large(self, file: Path) -> tuple[float, float]:
        """MB a second, and MB by which PocketBase's memory rose at most."""
        before = private(self.pids[0])
        with Sampler(lambda: private(self.pids[0])) as memory:
            took = float(self.side.ask("one", file=str(file)))
        return file.stat().st_size / took / 1e6, (memory.most - before) / (1 << 20)


def rows() -> list[Row]:
    """The intake's part of the table."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        service = Service(folder)
        stack.callback(service.close)
        service.start("pb", "media")
        bare = stack.enter_context(plain(folder / "plain"))
        session = str(service.user().http.headers["Authorization"])
        pids = [service.processes[each].pid for each in ("pb", "media")]
        contestants = [
            Contestant(stack, service.url, "/api/audio", session, *pids),
            Contestant(stack, bare.url, "/api/collections/plain/records", bare.token, bare.pid),
        ]
        file = tone(folder, seconds=0.3)
        return [
            *[small(contestants, file, senders) for senders in SENDERS],
            *large(contestants, folder),
        ]


def small(contestants: list[Contestant], file: Path, senders: int) -> Row:
    """Files of 10 KB."""
    found: list[list[tuple[float, float]]] = [[], []]
    for number in range(options.given().rounds or ROUNDS):
        for which in (0, 1) if number % 2 else (1, 0):
            found[which].append(contestants[which].small(file, senders))
    (ours, spent), (theirs, theirs_spent) = ([*zip(*each, strict=True)] for each in found)
    return Row(
        f"intake: files of {file.stat().st_size / 1e3:.0f} KB, senders: {senders}",
        f"{spread(ours)} files/s, {statistics.median(spent) * 1e3:.1f} ms CPU each",
        f"bare PocketBase {spread(theirs)} files/s, {statistics.median(theirs_spent) * 1e3:.1f} ms:"
        f" {ratio(ours, theirs)}",
        "ours looks into the file and makes a job of it",
    )


def large(contestants: list[Contestant], folder: Path) -> list[Row]:
    """A large file, and one of a tenth of it."""
    files = [silence(folder, LARGE // 10), silence(folder, LARGE)]
    speeds: dict[tuple[int, int], list[float]] = {}
    rises: dict[int, list[float]] = {0: [], 1: []}
    for number in range(options.given().rounds or ROUNDS):
        for which in (0, 1) if number % 2 else (1, 0):
            for size, file in enumerate(files):
                speed, rise = contestants[which].large(file)
                speeds.setdefault((which, size), []).append(speed)
                if size:
                    rises[which].append(rise)
    return [
        Row(
            f"intake: a file of {LARGE >> 20} MB",
            f"{spread(speeds[0, 1])} MB/s, memory {spread(rises[0])} MB more",
            f"bare PocketBase {spread(speeds[1, 1])} MB/s: {ratio(speeds[0, 1], speeds[1, 1])},"
            f" memory {spread(rises[1])} MB more",
        ),
        Row(
            f"growth: a file of {LARGE >> 20} MB to one of {LARGE // 10 >> 20} MB",
            f"{ratio(speeds[0, 1], speeds[0, 0])} of the speed",
            f"bare PocketBase {ratio(speeds[1, 1], speeds[1, 0])}",
        ),
    ]


def silence(folder: Path, size: int) -> Path:
    """A WAV file of that size."""
    path = speech.make(folder / f"{size}.wav", 1)
    grow(path, size)
    return path
