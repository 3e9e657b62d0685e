"""What `transcriber doctor` finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How a check came out."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAULT = "FAULT"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: what was looked at, how it is, and what to do about it."""

    level: Level
    subject: str
    text: str
