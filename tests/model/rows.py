"""The rows of the queue's tables, and the whole database as one immutable value.

Tokens are numbers in the order of their making, 0 is none; times are numbers on one clock.
"""

from __future__ import annotations

from typing import NamedTuple

MILESTONES = ("uploaded", "normalized", "submitted", "transcribed", "done")
STOPPED = ("failed", "dead")
ENDED = ("done", *STOPPED)


class Job(NamedTuple):
    """A row of `jobs`."""

    id: str
    state: str
    milestone: str = ""
    attempts: int = 0
    sent_back: int = 0
    token: int = 0
    leased_at: int = 0
    leased_by: str = ""
    not_before: int = 0
    operation: int = 0
    error: str = ""
    written: int = 0
    """The token of the last result written."""
    updated: int = 0
    """What a form is held against: moves with the state and with the owner's saves."""
    priority: int = 0
    note: str = ""
    chat: str = ""


class Text(NamedTuple):
    """A row of `transcripts`."""

    job: str
    kind: str
    value: str


class Answer(NamedTuple):
    """A row of `answers`."""

    job: str
    cause: int
    kind: str
    chat: str
    state: str = "pending"
    reason: str = ""
    begun: int = 0
    sent: int = 0
    unsure: int = 0
    token: int = 0
    leased_at: int = 0
    leased_by: str = ""
    not_before: int = 0
    written: int = 0


class Operation(NamedTuple):
    """A row of `operations`, with its slices."""

    id: int
    job: str
    state: str = "queued"
    attempts: int = 0
    crashes: int = 0
    """Deaths of its holders since something of it was written."""
    recogniser: str = ""
    """Empty: the local one, whose engines claim it."""
    units: int = -1
    """-1: not cut yet."""
    parts: tuple[tuple[int, str], ...] = ()
    token: int = 0
    leased_at: int = 0
    leased_by: str = ""


class Outcome(NamedTuple):
    """What a step's result writes."""

    name: str
    to: str = ""
    pause: int = 0
    error: str = ""
    cap: int = -1
    operation: int = 0
    text: tuple[str, str] | None = None
    """Kind and value."""


class Database(NamedTuple):
    """Everything there is."""

    now: int = 0
    jobs: tuple[Job, ...] = ()
    """In the order of their making."""
    texts: tuple[Text, ...] = ()
    answers: tuple[Answer, ...] = ()
    """In the order of their making."""
    operations: tuple[Operation, ...] = ()
    issued: int = 0
    """Tokens and operations so far, which are numbered together."""

    def job(self, job_id: str) -> Job | None:
        return next((job for job in self.jobs if job.id == job_id), None)

    def text(self, job_id: str, kind: str = "raw") -> str | None:
        return next((t.value for t in self.texts if (t.job, t.kind) == (job_id, kind)), None)

    def answer(self, job_id: str, cause: int) -> Answer | None:
        return next((a for a in self.answers if (a.job, a.cause) == (job_id, cause)), None)

    def operation(self, number: int) -> Operation | None:
        return next((each for each in self.operations if each.id == number), None)

    def put(self, row: Job | Answer | Operation) -> Database:
        """With this row in place of the one of its key."""
        if isinstance(row, Job):
            return self._replace(jobs=tuple(row if j.id == row.id else j for j in self.jobs))
        if isinstance(row, Answer):
            key = (row.job, row.cause)
            return self._replace(
                answers=tuple(row if (a.job, a.cause) == key else a for a in self.answers)
            )
        return self._replace(
            operations=tuple(row if o.id == row.id else o for o in self.operations)
        )
