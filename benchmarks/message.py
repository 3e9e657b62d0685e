"""A ten-second message on an idle service, from its upload to its text, against other ways."""

from __future__ import annotations

import statistics
from pathlib import Path

from benchmarks import options, spoken
from benchmarks.contest import Result, against, contest, standing
from benchmarks.recognition import Part
from benchmarks.spoken import Spoken
from benchmarks.table import Row

ROUNDS = 10
SECONDS = 10.0


def messages(folder: Path, parts: dict[str, list[Part]], count: int) -> list[Spoken]:
    """Voice messages, in each language in turn."""
    languages = [language for language, own in parts.items() if own]
    return [
        spoken.make(folder / f"message{n}.ogg", parts[language], language, SECONDS, n)
        for n, language in enumerate((languages * count)[:count])
    ]


def rows() -> list[Row]:
    """The message's part of the table."""
    given = options.given()
    parts = spoken.parts(given.speech)
    with standing(given) as (ways, folder):
        rounds = messages(folder, parts, given.rounds or ROUNDS)
        for way in ways:
            way.text(rounds[0])  # loads everything
        results = contest(ways, rounds)

    def besides(own: Result, other: Result) -> str:
        if other is not results["bare engine"]:
            return ""
        rest = statistics.median(a - b for a, b in zip(own.wall, other.wall, strict=True))
        return f"everything but recognition: {rest * 1000:.0f} ms"

    return against(f"message of 10 s, median of {len(rounds)}", results, besides)
