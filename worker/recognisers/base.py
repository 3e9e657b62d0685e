"""What a recogniser is: *submit*, *check*, *cancel*."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from worker.jobs import Recording, Transcript


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a recogniser can do and what it asks for, as far as that is the same for every model."""

    word_times: bool
    """Whether it can say when each word was spoken."""
    vocabulary: bool
    """Whether the sender's names and terms reach it."""
    languages: frozenset[str] | None
    """ISO 639-1 codes; None: whatever its model knows."""
    longest: float | None
    """Seconds of the longest recording that it takes; None: any, in pieces where need be."""
    public_address: bool
    """Whether it has to fetch the audio from an address on the internet."""
    leaves_machine: bool
    """Whether the audio is sent to somebody else's machine."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Part of submitting is done and kept: let others have a turn, then submit again."""


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
    within: bool = True
    """Whether its times are known to lie within the recording."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The recogniser judged this recording for good."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The recogniser does not know this operation, or lost what it had of it."""

    reason: str = "the recogniser lost the operation"


Verdict = Running | Finished | Refused | Unknown


class Recogniser(Protocol):
    """Every method raises `RecogniserUnavailable` (or `PocketBaseError`, for what is kept there)
    where the other side cannot be reached; anything it raises is tried again."""

    def submit(self, recording: Recording, audio: Callable[[], Path]) -> str | Unfinished:
        """Hand a recording over and return the operation's id, which names the recogniser.

        `audio` fetches the normalised file, for recognisers that need it here; beside it is room
        for what is made of it. Submitting again what is under way already returns the same
        operation, where the recogniser can tell.

        Raises:
            RecogniserRefused: it will not take this recording.
            LeaseLost: its job was given to somebody else meanwhile, where that can be told.
        """
        ...

    def check(self, operation: str) -> Verdict:
        """How the operation stands."""
        ...

    def cancel(self, operation: str) -> bool:
        """Stop the operation, if it runs, and remove what it left. Unknown ones are fine.

        False: it runs on and will leave something, so that this has to be asked again.
        """
        ...


class Described(Recogniser, Protocol):
    """A recogniser with its name, by which the owner chooses it, and its description."""

    name: ClassVar[str]
    abilities: ClassVar[Abilities]
