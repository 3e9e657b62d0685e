"""What a recogniser is: *submit*, *check*, *cancel*."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from worker.jobs import Recording, Transcript


@dataclass(frozen=True, slots=True)
class Running:
    """The operation is under way."""

    quiet: float | None = None
    """Seconds without a sign of progress, where the recogniser knows; None: count from the
    submission."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The operation ended in a text."""

    transcript: Transcript


@dataclass(frozen=True, slots=True)
class Refused:
    """The recogniser judged this recording for good."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The recogniser does not know this operation, or lost what it had of it."""


Verdict = Running | Finished | Refused | Unknown


class Recogniser(Protocol):
    """Every method raises `RecogniserUnavailable` (or `PocketBaseError`, for the local one) where
    the other side cannot be reached; anything it raises is tried again."""

    def submit(self, recording: Recording, audio: Callable[[], Path]) -> str:
        """Hand a recording over and return the operation's id.

        `audio` fetches the normalised file, for recognisers that need it here. Submitting again
        what is under way already returns the same operation, where the recogniser can tell.

        Raises:
            RecogniserRefused: it will not take this recording.
        """
        ...

    def check(self, operation: str) -> Verdict:
        """How the operation stands."""
        ...

    def cancel(self, operation: str) -> None:
        """Stop the operation, if it runs, and remove what it left. Unknown ones are fine."""
        ...
