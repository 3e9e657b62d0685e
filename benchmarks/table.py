"""Rows of the benchmark table."""

from __future__ import annotations

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
