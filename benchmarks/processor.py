"""Processor seconds of processes and their descendants."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def spent(pids: Iterable[int]) -> float:
    """Seconds that these, what lives below them, and what died below them took so far."""
    taken: dict[int, int] = {}
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
            taken[int(entry.name)] = sum(map(int, fields[11:15]))
    family = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(taken.get(pid, 0) for pid in family) / TICKS
