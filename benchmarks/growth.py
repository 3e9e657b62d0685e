"""The same at ten times the work: a slope of 1.00 is exactly ten times the time."""

from __future__ import annotations

import contextlib
import math
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from benchmarks import options, spoken, ways
from benchmarks.contest import number
from benchmarks.message import messages
from benchmarks.spoken import Spoken, Wrong
from benchmarks.table import Row
from benchmarks.talk import SECONDS
from benchmarks.ways import Way

TIMES = 10
ROUNDS = 5


def together(way: Way, recordings: list[Spoken]) -> tuple[float, str]:
    """Seconds until all are recognised, handed in at once, and how much was wrong."""
    wrong = Wrong()
    started = time.monotonic()
    with ThreadPoolExecutor(len(recordings)) as pool:
        texts = list(pool.map(way.text, recordings))
    took = time.monotonic() - started
    for each, text in zip(recordings, texts, strict=True):
        wrong.add(each, text)
    return took, str(wrong)


def row(what: str, small: tuple[float, str], large: tuple[float, str]) -> Row:
    """The slope: how many tens the time grows by for one ten of work."""
    slope = math.log(large[0] / small[0], TIMES)
    return Row(
        what,
        f"{number(large[0])} s, {large[1]}",
        f"a tenth: {number(small[0])} s, {small[1]}",
        f"slope {slope:.2f}, {large[0] / small[0]:.1f} times",
    )


def rows() -> list[Row]:
    """The growth's part of the table."""
    given = options.given()
    parts = spoken.parts(given.speech)
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folder = Path(scratch)
        way = stack.enter_context(ways.service(folder, given))
        some = messages(folder, parts, TIMES)
        ten = [replace(each, sender=n) for n, each in enumerate(some)]
        together(way, ten)  # loads everything, and makes the senders
        one, all_ten = [], []
        for _ in range(given.rounds or ROUNDS):
            one.append(statistics.mean(together(way, [each])[0] for each in some[:4]))
            all_ten.append(together(way, ten))
        wrong = all_ten[0][1]
        small = (statistics.median(one), wrong)
        large = (statistics.median(took for took, _ in all_ten), wrong)
        found = [row(f"{TIMES} messages of 10 s at once, {TIMES} senders", small, large)]
        talks = []
        for seconds in (SECONDS, TIMES * SECONDS):
            path = folder / f"{seconds:.0f}.mp3"
            talk = spoken.make(path, parts["ru"], "ru", seconds, 0)
            took, wrong = together(way, [talk])
            talks.append((took * seconds / talk.seconds, wrong))
        found.append(row(f"talk of {TIMES * SECONDS / 60:.0f} min", *talks))
    return found
