"""A ten-minute talk through the whole service, against other ways in the same run."""

from __future__ import annotations

from benchmarks import options, spoken
from benchmarks.contest import against, contest, standing
from benchmarks.table import Row

ROUNDS = 2
SECONDS = 600.0


def rows() -> list[Row]:
    """The talk's part of the table."""
    given = options.given()
    clips = spoken.parts(given.speech)["ru"]
    count = given.rounds or ROUNDS
    with standing(given) as (ways, folder):
        rounds = [
            spoken.make(folder / f"talk{n}.mp3", clips, "ru", SECONDS, n) for n in range(count)
        ]
        warm = spoken.make(folder / "warm.mp3", clips, "ru", 10, 0)
        for way in ways:
            way.text(warm)
        results = contest(ways, rounds)
    return against(f"talk of 10 min, median of {count}", results)
