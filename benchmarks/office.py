"""An hour of a busy office: messages, calls and meetings, handed in as they would arrive.

An hour of sound comes within a few minutes, at seeded moments, from several senders; nearly as
much as one engine can recognise in that time. How long until all is text, and how long do those
wait who sent a short message? Ways that recognise one file at a time get them in order of arrival.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks import options, spoken, ways
from benchmarks.contest import number
from benchmarks.recognition import Part
from benchmarks.spoken import Spoken, Wrong
from benchmarks.table import Row
from benchmarks.ways import Way

HOUR = 3600.0
OVER = 180.0
"""Seconds within which it all arrives."""
SENDERS = 5
SEED = 5
MEETINGS, CALLS = 2, 7
MEETING, CALL, MESSAGE = (600.0, 840.0), (120.0, 300.0), (5.0, 25.0)
"""Seconds of each, from and to."""
ENGLISH = 0.3
"""The part of the recordings that is in English."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A recording, and when it is handed in."""

    at: float
    kind: str
    spoken: Spoken


@dataclass(slots=True)
class Day:
    """What became of it all by one way."""

    total: float
    processor: float
    waits: list[float]
    """Of short messages."""
    wrong: Wrong

    def __str__(self) -> str:
        cpu = "" if self.processor != self.processor else f", {self.processor:.0f} processor s"
        late = statistics.quantiles(self.waits, n=20, method="inclusive")[-1]
        return (
            f"{number(self.total)} s{cpu}; messages {number(statistics.median(self.waits))} s "
            f"median, {number(late)} s at the 95th percentile; {self.wrong}"
        )


def arrivals(folder: Path, parts: dict[str, list[Part]]) -> list[Arrival]:
    """The same mix each time."""
    random = np.random.default_rng(SEED)
    planned = [("meeting", ".m4a", MEETING)] * MEETINGS + [("call", ".mp3", CALL)] * CALLS
    found: list[Arrival] = []
    total = 0.0
    while total < HOUR:
        n = len(found)
        kind, suffix, length = planned[n] if n < len(planned) else ("message", ".ogg", MESSAGE)
        language = "en" if parts["en"] and random.random() < ENGLISH else "ru"
        path, seconds = folder / f"{kind}{n}{suffix}", random.uniform(*length)
        recording = spoken.make(path, parts[language], language, seconds, n)
        recording = replace(recording, sender=int(random.integers(SENDERS)))
        found.append(Arrival(random.uniform(0, OVER), kind, recording))
        total += recording.seconds
    return sorted(found, key=lambda arrival: arrival.at)


def day(way: Way, all_day: list[Arrival]) -> Day:
    """Hand in each when its time has come."""
    before, started = way.spent(), time.monotonic()

    def one(arrival: Arrival) -> tuple[float, str]:
        time.sleep(max(0.0, started + arrival.at - time.monotonic()))
        text = way.text(arrival.spoken)
        return time.monotonic() - started, text

    with ThreadPoolExecutor(len(all_day) if way.at_once else 1) as pool:
        ends = list(pool.map(one, all_day))
    wrong = Wrong()
    for arrival, (_, text) in zip(all_day, ends, strict=True):
        wrong.add(arrival.spoken, text)
    waits = [
        end - arrival.at
        for arrival, (end, _) in zip(all_day, ends, strict=True)
        if arrival.kind == "message"
    ]
    return Day(max(end for end, _ in ends), way.spent() - before, waits, wrong)


def rows() -> list[Row]:
    """The office's part of the table."""
    given = options.given()
    parts = spoken.parts(given.speech)
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folder, enter = Path(scratch), stack.enter_context
        weights = ways.weights(folder, given)
        # People ask once in a while: fifty questions a second for each of thirty would be a load.
        all_ways = [enter(ways.service(folder, given, asking=(0.25, 1.0)))]
        all_ways.append(enter(ways.engine(folder, given)))
        if given.rounds:
            all_ways.append(enter(ways.batched(weights, given)))
        all_ways += ways.others(enter, weights, given)
        all_day = arrivals(folder, parts)
        senders = [replace(all_day[0].spoken, sender=n) for n in range(SENDERS)]
        short = min((each.spoken for each in all_day), key=lambda each: each.seconds)
        days: dict[str, Day] = {}
        for way in all_ways:
            print(f"  {way.name}", file=sys.stderr)
            for each in senders if way is all_ways[0] else senders[:1]:
                way.text(replace(short, sender=each.sender))
            days[way.name] = day(way, all_day)
    count = sum(arrival.kind == "message" for arrival in all_day)
    sound = sum(arrival.spoken.seconds for arrival in all_day) / 60
    what = (
        f"office: {sound:.0f} min of sound ({count} messages, {CALLS} calls, {MEETINGS} meetings) "
        f"within {OVER / 60:.0f} min"
    )
    (_, own), *rest = days.items()
    return [
        Row(what, str(own), f"{name}: {other}", f"takes {other.total / own.total:.2f} of the time")
        for name, other in rest
    ]
