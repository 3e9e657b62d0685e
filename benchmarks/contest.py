"""The same recordings by several ways in one run, as rows of the table."""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import ways
from benchmarks.options import Options
from benchmarks.spoken import Spoken, Wrong
from benchmarks.table import Row
from benchmarks.ways import Way


@dataclass(slots=True)
class Result:
    """What one way did in all rounds."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    wrong: Wrong = field(default_factory=Wrong)

    def add(self, way: Way, spoken: Spoken) -> None:
        """Have it recognise the recording."""
        before, started = way.spent(), time.monotonic()
        heard = way.text(spoken)
        self.wall.append(time.monotonic() - started)
        self.processor.append(way.spent() - before)
        self.wrong.add(spoken, heard)

    def __str__(self) -> str:
        wall, cpu = statistics.median(self.wall), statistics.median(self.processor)
        seen = "" if cpu != cpu else f", {number(cpu)} processor s"  # not a number: not seen
        return f"{number(wall)} s{seen}, {self.wrong}"


def number(seconds: float) -> str:
    """Three digits are enough."""
    digits = 2 if seconds < 10 else 1 if seconds < 100 else 0
    return f"{seconds:.{digits}f}"


@contextlib.contextmanager
def standing(options: Options, library: bool = True) -> Iterator[tuple[list[Way], Path]]:
    """All ways that were asked for, this service first, and a folder for recordings."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folder, enter = Path(scratch), stack.enter_context
        weights = ways.weights(folder, options)
        found = [enter(ways.service(folder, options)), enter(ways.engine(folder, options))]
        if library:
            found.append(enter(ways.sequential(weights, options)))
            found.append(enter(ways.batched(weights, options)))
        found += ways.others(enter, weights, options)
        yield found, folder


def contest(all_ways: Sequence[Way], rounds: Sequence[Spoken]) -> dict[str, Result]:
    """Each way's turn with each recording, in turning order, so that a busy machine slows all."""
    results = {way.name: Result() for way in all_ways}
    for turn, spoken in enumerate(rounds):
        for way in all_ways if turn % 2 == 0 else reversed(all_ways):
            print(f"  {turn + 1} of {len(rounds)}: {way.name}", file=sys.stderr)
            results[way.name].add(way, spoken)
    return results


def against(
    what: str,
    results: dict[str, Result],
    note: Callable[[Result, Result], str] | None = None,
) -> list[Row]:
    """A row for each other way, with the ratio of its seconds to the first one's."""
    (_, own), *rest = results.items()
    found = []
    for name, other in rest:
        ratio = statistics.median(b / a for a, b in zip(own.wall, other.wall, strict=True))
        more = note(own, other) if note else ""
        notes = filter(None, [f"takes {ratio:.2f} of the service's time", more])
        found.append(Row(what, str(own), f"{name}: {other}", "; ".join(notes)))
    return found
