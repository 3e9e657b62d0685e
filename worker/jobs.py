"""The queue's value objects: what a claim hands out, and the outcomes a step can end in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal


class Milestone(StrEnum):
    """What a job has reached. `state` is one of these, or `failed`, or `dead`."""

    UPLOADED = "uploaded"
    NORMALIZED = "normalized"
    SUBMITTED = "submitted"
    TRANSCRIBED = "transcribed"
    DONE = "done"


class Step(StrEnum):
    """The steps of the pipeline, each working on the jobs of one milestone."""

    NORMALISE = "normalise"
    SUBMIT = "submit"
    CHECK = "check"
    FINISH = "finish"

    @property
    def takes(self) -> Milestone:
        """The milestone whose jobs this step claims."""
        return _TAKES[self]


_TAKES = {
    Step.NORMALISE: Milestone.UPLOADED,
    Step.SUBMIT: Milestone.NORMALIZED,
    Step.CHECK: Milestone.SUBMITTED,
    Step.FINISH: Milestone.TRANSCRIBED,
}


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed job: a snapshot of its row at the moment of the claim."""

    id: str
    """Shared with the recording's id."""
    state: Milestone
    attempts: int
    """Claims of this state so far, this one included."""
    lease_token: str
    """Fencing token: every write of this claim's outcome carries it."""
    operation: str
    """The recogniser's operation, or empty."""
    error_text: str
    """The owner's diagnosis of the previous attempt, or empty."""
    waited: float
    """Seconds since the operation was submitted (PocketBase's clock); 0 before."""
    sent_back: int
    """How often the recogniser lost this recording's operation."""
    source: str
    """Which input took the recording: `http` or `telegram`."""
    chat_id: str
    thread_id: str
    message_id: str

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Job:
        """Build the job from a row of a claim's answer."""
        return cls(
            id=row["id"],
            state=Milestone(row["state"]),
            attempts=row["attempts"],
            lease_token=row["lease_token"],
            operation=row["operation"],
            error_text=row["error_text"],
            waited=row["waited"],
            sent_back=row["sent_back"],
            source=row["source"],
            chat_id=row["chat_id"],
            thread_id=row["thread_id"],
            message_id=row["message_id"],
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a claim asks for."""

    state: Milestone
    lease_seconds: float
    count: int = 1
    """Jobs at most."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """A text with where it came from. An empty text says that nobody spoke."""

    text: str
    segments: list[dict[str, Any]]
    """Each `{"start", "end", "text"}`, times in seconds, `words` where the model knows them."""
    language: str
    """ISO 639-1 code of the language found, or empty when there was no speech."""
    engine: str
    """Which engine and model made it, `faster-whisper/base`."""
    kind: str = "raw"


@dataclass(frozen=True, slots=True)
class Advanced:
    """The step did its work: the job reaches `to`, its attempts go back to 0."""

    to: Milestone
    operation: str = ""
    """The recogniser's operation id, from the step that submits."""
    delay: float = 0.0
    """Seconds until the next step need look; a local operation that ends makes it due at once."""
    transcript: Transcript | None = None
    """Written in the same transaction as the new state."""


@dataclass(frozen=True, slots=True)
class Normalised:
    """The audio in its one form: stored, and the job advanced, in one transaction."""

    file: Path
    duration: float
    """Seconds, by what was decoded."""
    extension: str
    """The sender's."""


@dataclass(frozen=True, slots=True)
class SentBack:
    """What an earlier step made is gone: the job goes back to `to` to have it made again."""

    to: Milestone
    pause: float
    """Seconds."""
    error_text: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The external operation still runs: look again after a fixed delay, at no attempt's cost."""

    delay: float
    """Seconds."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The step failed and may succeed later: a pause that grows with the attempts."""

    pause: float
    """Seconds."""
    error_text: str
    cap: int | None = None
    """The attempts grow no further than this: the failure was none of the job's."""
    shortage: bool = False
    """It was this machine's, of which the owner is told once and not by every job."""


Why = Literal["", "no_sound", "unreadable", "too_long"]


@dataclass(frozen=True, slots=True)
class Failed:
    """The step judged this recording for good."""

    error_text: str
    why: Why = ""
    """What its sender may be told of it; empty: nothing that would help."""


@dataclass(frozen=True, slots=True)
class Dead:
    """Tried to the limit and given up without a judgement. Only the claimer ends in this."""

    error_text: str


@dataclass(frozen=True, slots=True)
class Released:
    """Given back untouched, at a shutdown: costs no attempt."""


Outcome = Advanced | Normalised | SentBack | Waiting | Retry | Failed | Dead | Released


@dataclass(frozen=True, slots=True)
class Recording:
    """What was handed in, as far as the steps need it."""

    id: str
    audio: str
    normalized: str
    extension: str
    duration: float
    """Seconds, by the metadata source or, once normalised, by what was decoded."""
    language: str
    vocabulary: str
    recogniser: str = ""
    """The one that the owner chose for it, or empty."""
    channels: str = ""
    """The sender's hint, `mix` or `split`, or empty."""
    lease_token: str = ""
    """Of the claim under which it is submitted: what is made of it is made under this."""
