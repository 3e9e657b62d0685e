"""What workers and the owner believe, what is on the wire, and what ought to be true of jobs."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.model.rows import Database, Job, Outcome

LEASE = 1
PAUSE = 1


class Worker(NamedTuple):
    """What one process believes."""

    name: str
    phase: str = "idle"
    """new: gives back first; held: works on a job; sending: its result may have been taken."""
    job: str = ""
    token: int = 0
    state: str = ""
    attempts: int = 0
    sent_back: int = 0
    outcome: Outcome | None = None
    unsure: bool = False
    """What it sends may have claimed another job: once it is answered, it gives back first."""


class Request(NamedTuple):
    """A call that nobody waits for any more. A write with a `state` claims a job of it, too."""

    call: str
    worker: str = ""
    state: str = ""
    job: str = ""
    token: int = 0
    outcome: Outcome | None = None


class Saving(NamedTuple):
    """A save of the owner's: the row as the request found it, before its turn came to write."""

    loaded: Job
    form: tuple[tuple[str, Any], ...]
    seen: int | None
    asks: bool
    """Whether the owner means to change the state."""


class Truth(NamedTuple):
    """What ought to be true of a job."""

    holder: int = 0
    """The token of the claim that was given last, until it is over."""
    since: int = 0
    worker: str = ""
    applied: int = 0
    """The token of the result that counted last."""
    claims: int = 0
    """Attempts since the job last got on."""
    note: str = ""
    text: str | None = None
    told: int = 0
    """Ends of this job that its sender is to hear of."""


class State(NamedTuple):
    """All of it."""

    db: Database
    workers: tuple[Worker, ...]
    wire: tuple[Request, ...] = ()
    form: Job | None = None
    saving: Saving | None = None
    truth: tuple[tuple[str, Truth], ...] = ()
    faults: int = 0
    edits: int = 0
    deletes: int = 0


def canonical(state: State, enough: int) -> State:
    """The same with its times counted from now, and tokens and versions numbered by appearance.

    `enough`: from here on it is all the same how many attempts there were.
    """
    numbers: dict[int, int] = {0: 0}

    def number(token: int) -> int:
        return numbers.setdefault(token, len(numbers))

    db = state.db
    now = db.now
    versions = {job.id: job.updated for job in db.jobs}

    def row(job: Job) -> Job:
        return job._replace(
            token=number(job.token),
            written=number(job.written),
            leased_at=max(job.leased_at - now, -LEASE - 1) if job.token else 0,
            not_before=max(job.not_before - now, 0),
            attempts=min(job.attempts, enough),
            sent_back=min(job.sent_back, enough),
            updated=2,
            error="",
        )

    def seen(job: Job) -> Job:
        """A row that was looked at: of it only the owner's columns count, and whether it is old."""
        fresh = versions.get(job.id) == job.updated
        return Job(job.id, job.state, note=job.note, updated=2 if fresh else 1)

    jobs = tuple(map(row, db.jobs))
    workers = tuple(
        each._replace(
            token=number(each.token),
            attempts=min(each.attempts, enough),
            sent_back=min(each.sent_back, enough),
        )
        for each in state.workers
    )
    wire = tuple(each._replace(token=number(each.token)) for each in state.wire)
    truth = tuple(
        (
            name,
            known._replace(
                holder=number(known.holder),
                since=max(known.since - now, -LEASE - 1) if known.holder else 0,
                applied=number(known.applied),
                claims=min(known.claims, enough),
            ),
        )
        for name, known in state.truth
    )
    saving = state.saving
    if saving:
        version = versions.get(saving.loaded.id)
        old = None if saving.seen is None else (2 if saving.seen == version else 1)
        saving = Saving(seen(saving.loaded), saving.form, old, saving.asks)
    answers = tuple(
        answer._replace(cause=number(answer.cause), token=0, leased_at=0) for answer in db.answers
    )
    return state._replace(
        db=db._replace(now=0, jobs=jobs, answers=answers, issued=len(numbers) - 1),
        workers=workers,
        wire=wire,
        truth=truth,
        form=seen(state.form) if state.form and state.edits else None,
        saving=saving,
    )
