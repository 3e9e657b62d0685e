"""A three-hour lecture, one round. Not part of `make bench`: it takes some minutes a way."""

from __future__ import annotations

from benchmarks import options, spoken
from benchmarks.contest import against, contest, standing
from benchmarks.table import Row

SECONDS = 3 * 3600.0


def rows() -> list[Row]:
    """The lecture's part of the table. The library has its turn where `--rounds` is given."""
    given = options.given()
    clips = spoken.parts(given.speech)["ru"]
    with standing(given, library=bool(given.rounds)) as (ways, folder):
        lecture = spoken.make(folder / "lecture.m4a", clips, "ru", SECONDS, 0)
        warm = spoken.make(folder / "warm.m4a", clips, "ru", 10, 0)
        for way in ways:
            way.text(warm)
        results = contest(ways, [lecture])
    return against("lecture of 3 h, once", results)
