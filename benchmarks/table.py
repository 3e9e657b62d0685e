"""Rows of the benchmark table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure beside what it is held against."""

    what: str
    figure: str
    against: str = ""
    note: str = ""


def markdown(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| what | measured | against | note |", "|---|---|---|---|"]
    lines += [f"| {row.what} | {row.figure} | {row.against} | {row.note} |" for row in rows]
    return "\n".join(lines)


def spread(values: Sequence[float], form: str = ",.0f") -> str:
    """The median, with the least and the most where they differ from it."""
    least, middle, most = (format(pick(values), form) for pick in (min, statistics.median, max))
    return middle if least == most else f"{middle} ({least} to {most})"


def ratio(ours: Sequence[float], theirs: Sequence[float], form: str = ".2f") -> str:
    """Ours to theirs, round by round."""
    return spread([a / b for a, b in zip(ours, theirs, strict=True)], form)
