"""The queue as PocketBase keeps it, in plain Python: what each call changes and what it answers.

One method is one call of the real routes, which is one transaction there. What a worker, a sender
or the owner believes stands in none of this.

`tests/unit/test_queue_model.py` searches every interleaving of these calls, and
`tests/acceptance/test_queue_stateful.py` holds the real routes against them.
"""

from __future__ import annotations

from typing import Any

from tests.model.rows import (
    ENDED,
    MILESTONES,
    STOPPED,
    Answer,
    Database,
    Job,
    Operation,
    Outcome,
    Text,
)

FREE: dict[str, Any] = {"token": 0, "leased_at": 0, "leased_by": ""}


class Rules:
    """What the routes do. A subclass that does one thing worse is a mutation to be caught."""

    # Jobs

    def claim(
        self, db: Database, state: str, lease: int, count: int, worker: str
    ) -> tuple[Database, tuple[Job, ...]]:
        """`POST /api/queue/claim`."""
        found = [
            job
            for job in db.jobs
            if job.state == state and job.not_before <= db.now and self.free(job, db.now, lease)
        ]
        found.sort(key=lambda job: -job.priority)  # of equals the first made, as they stand
        claimed = []
        for job in found[:count]:
            taken = self.take(job, db.issued + 1, db.now, worker)
            db = db._replace(issued=db.issued + 1).put(taken)
            claimed.append(taken)
        return db, tuple(claimed)

    def free(self, row: Job | Answer | Operation, now: int, lease: int) -> bool:
        return not row.token or row.leased_at < now - lease

    def take(self, job: Job, token: int, now: int, worker: str) -> Job:
        left = f"abandoned: {job.leased_by} stopped without a result"
        return job._replace(
            token=token,
            leased_at=now,
            leased_by=worker,
            attempts=job.attempts + 1,
            error=left if job.token else job.error,
        )

    def holds(self, row: Job | Answer | Operation, token: int) -> bool:
        """Whether what this token writes is taken."""
        return bool(token) and row.token == token

    def knows(self, row: Job | Answer, token: int) -> bool:
        """Whether this token's result was written before."""
        return bool(token) and row.written == token

    def write(
        self, db: Database, job_id: str, token: int, outcome: Outcome
    ) -> tuple[Database, bool]:
        """One result of `POST /api/queue/finish`. Whether the lease was the writer's."""
        job = db.job(job_id)
        if job is None:
            return db, False
        if self.holds(job, token):
            return self.apply(db, job, token, outcome), True
        if self.knows(job, token):
            return self.written_before(db, job, token, outcome), True
        return db, False

    def finish(
        self,
        db: Database,
        job_id: str,
        token: int,
        outcome: Outcome,
        wanted: tuple[str, int, int, str] | None = None,
    ) -> tuple[Database, bool, tuple[Job, ...] | None]:
        """`POST /api/queue/finish` with one result and what a claim takes. Whether the lease was
        the writer's, and what was claimed with it; None where nothing was."""
        job = db.job(job_id)
        anew = job is not None and self.holds(job, token)
        db, taken = self.write(db, job_id, token, outcome)
        if wanted is None or not self.leads_on(anew, taken):
            return db, taken, None
        db, claimed = self.claim(db, *wanted)
        return db, taken, claimed

    def leads_on(self, anew: bool, taken: bool) -> bool:
        """Whether jobs may be claimed with a result: taken, and written just now."""
        return anew

    def written_before(self, db: Database, job: Job, token: int, outcome: Outcome) -> Database:
        """The very same result once more: its answer was lost on the way."""
        return db

    def apply(self, db: Database, job: Job, token: int, outcome: Outcome) -> Database:
        after = job._replace(written=token, **FREE, **self.columns(db, job, outcome))
        db = db.put(after)
        if outcome.text:
            db = self.save_text(db, job.id, *outcome.text)
        if outcome.to == "submitted" and outcome.operation:
            other = [o for o in db.operations if o.job == job.id and o.id != outcome.operation]
            db = db._replace(operations=tuple(o for o in db.operations if o not in other))
        return self.tell(db, after, token)

    def columns(self, db: Database, job: Job, outcome: Outcome) -> dict[str, Any]:
        """What each outcome writes, its own columns and no others."""
        after = db.now + outcome.pause
        moved = {"updated": job.updated + 1}
        match outcome.name:
            case "advanced":
                reached = {"state": outcome.to, "milestone": outcome.to, "attempts": 0, "error": ""}
                operation = outcome.operation or job.operation
                due = self.due(db, outcome.operation, outcome.pause)
                return moved | reached | {"operation": operation, "not_before": due}
            case "sent_back":
                back = {"state": outcome.to, "milestone": outcome.to, "attempts": 0, "operation": 0}
                times = {"sent_back": job.sent_back + 1, "not_before": after}
                return moved | back | times | {"error": outcome.error}
            case "waiting":
                due = self.due(db, job.operation, outcome.pause)
                return {"attempts": 0, "error": "", "not_before": due}
            case "retry":
                attempts = job.attempts if outcome.cap < 0 else min(job.attempts, outcome.cap)
                return {"not_before": after, "error": outcome.error, "attempts": attempts}
            case "failed" | "dead":
                return moved | {"state": outcome.name, "not_before": 0, "error": outcome.error}
            case "released":
                return {"attempts": max(job.attempts - 1, 0)}
        raise AssertionError(outcome)

    def due(self, db: Database, operation: int, delay: int) -> int:
        """A job whose operation of ours has ended is due at once."""
        row = db.operation(operation)
        over = row is not None and row.state != "queued"
        return 0 if delay <= 0 or over else db.now + delay

    def save_text(self, db: Database, job_id: str, kind: str, value: str) -> Database:
        stale = {(job_id, kind)} | ({(job_id, "proofread")} if kind == "raw" else set())
        kept = [text for text in db.texts if (text.job, text.kind) not in stale]
        return db._replace(texts=tuple(sorted([*kept, Text(job_id, kind, value)])))

    def tell(self, db: Database, job: Job, token: int) -> Database:
        """Note down that the sender is to be told, where there is one that waits."""
        if job.state not in ENDED or not job.chat or db.answer(job.id, token):
            return db
        kind = "text" if job.state == "done" else "failure"
        return db._replace(answers=(*db.answers, Answer(job.id, token, kind, job.chat)))

    def give_back(
        self, db: Database, worker: str, keep: tuple[int, ...] = ()
    ) -> tuple[Database, int]:
        """`POST /api/queue/restart`: what this name holds, and no other."""
        returned = 0
        for job in db.jobs:
            if job.token and job.token not in keep and self.is_of(job, worker):
                left = f"abandoned: {job.leased_by} stopped without a result"
                db = db.put(job._replace(error=left, **FREE))
                returned += 1
        return db, returned

    def is_of(self, row: Job | Answer | Operation, worker: str) -> bool:
        return row.leased_by == worker

    # The owner

    def save(
        self, db: Database, loaded: Job, form: dict[str, Any], seen: int | None
    ) -> tuple[Database, bool]:
        """A save of a job in the panel: `loaded` is the row as the request found it.

        `seen`: the `updated` that the form was opened at; None where the form does not say.
        """
        stored = db.job(loaded.id)
        if stored is None or (seen is not None and seen != stored.updated):
            return db, False
        wanted = self.wanted(loaded, stored, form)
        state = wanted.pop("state", stored.state)
        changed = stored._replace(updated=stored.updated + 1, **wanted)
        if state != stored.state:
            if stored.state not in STOPPED or state not in MILESTONES:
                return db, False
            if state == "done" and db.text(stored.id) is None:
                return db, False
            changed = changed._replace(
                state=state, milestone=state, attempts=0, sent_back=0, not_before=0, error="",
                **FREE,
            )  # fmt: skip
            if MILESTONES.index(state) < MILESTONES.index("submitted"):
                changed = changed._replace(operation=0)
                db = self.cancel_of(db, stored.id)
        return db.put(changed), True

    def wanted(self, loaded: Job, stored: Job, form: dict[str, Any]) -> dict[str, Any]:
        """What the owner means to change: what the form has otherwise than the request found it."""
        return {
            name: value
            for name, value in form.items()
            if name in {"state", "note", "priority"} and value != getattr(loaded, name)
        }

    def edit_text(self, db: Database, job_id: str, kind: str, value: str) -> Database:
        """The owner's edit of a text."""
        return db._replace(
            texts=tuple(
                Text(job_id, kind, value) if (text.job, text.kind) == (job_id, kind) else text
                for text in db.texts
            )
        )

    def delete(self, db: Database, job_id: str) -> Database:
        """A recording is deleted, and everything of it."""
        return db._replace(
            jobs=tuple(job for job in db.jobs if job.id != job_id),
            texts=tuple(text for text in db.texts if text.job != job_id),
            answers=tuple(answer for answer in db.answers if answer.job != job_id),
            operations=tuple(each for each in db.operations if each.job != job_id),
        )

    # Answers

    def claim_answers(
        self, db: Database, lease: int, count: int, worker: str
    ) -> tuple[Database, tuple[Answer, ...]]:
        """`POST /api/queue/answers/claim`: of each chat its oldest alone."""
        pending = [answer for answer in db.answers if answer.state == "pending"]
        first = {answer.chat: answer for answer in reversed(pending)}
        due = [
            answer
            for answer in pending
            if answer is first[answer.chat]
            and answer.not_before <= db.now
            and self.free(answer, db.now, lease)
        ]
        claimed = []
        for answer in due[:count]:
            db = db._replace(issued=db.issued + 1)
            taken = answer._replace(token=db.issued, leased_at=db.now, leased_by=worker)
            db = db.put(taken)
            claimed.append(taken)
        return db, tuple(claimed)

    def write_answer(
        self,
        db: Database,
        key: tuple[str, int],
        token: int,
        name: str,
        at: tuple[int, int, int],
        pause: int = 0,
        state: str = "",
        reason: str = "",
    ) -> tuple[Database, bool]:
        """`POST /api/queue/answers/write/ID`. `at`: messages begun, sent, unsure."""
        answer = db.answer(*key)
        if answer is None:
            return db, False
        begun, sent, unsure = at
        if not self.holds(answer, token) or self.overtaken(answer, sent):
            return db, name != "begun" and self.knows(answer, token)
        changed = answer._replace(begun=begun, sent=sent, unsure=unsure)
        if name == "begun":
            return db.put(changed._replace(leased_at=db.now)), True
        changed = changed._replace(written=token, **FREE)
        if name == "later":
            return db.put(changed._replace(not_before=db.now + pause)), True
        return db.put(changed._replace(state=state, reason=reason)), True

    def overtaken(self, answer: Answer, sent: int) -> bool:
        """Whether this note is late: another message has arrived since."""
        return sent < answer.sent

    def give_back_answers(self, db: Database, worker: str) -> tuple[Database, int]:
        """`POST /api/queue/answers/restart`."""
        held = [each for each in db.answers if each.token and self.is_of(each, worker)]
        for answer in held:
            db = db.put(answer._replace(**FREE))
        return db, len(held)

    # Operations

    def submit(
        self, db: Database, job_id: str, token: int, recogniser: str = ""
    ) -> tuple[Database, str, int]:
        """`POST /api/operations`: ok and the operation under way if there is one, or a new one;
        else lease_lost or not_found."""
        job = db.job(job_id)
        if job is None:
            return db, "not_found", 0
        if not self.holds(job, token) or job.state != "normalized":
            return db, "lease_lost", 0

        def stays(each: Operation) -> bool:
            mine = each.state != "failed" and each.recogniser == recogniser
            return each.job != job_id or mine

        db = db._replace(operations=tuple(filter(stays, db.operations)))
        for each in db.operations:
            if each.job == job_id:
                return db, "ok", each.id
        made = Operation(db.issued + 1, job_id, recogniser=recogniser)
        return db._replace(issued=made.id, operations=(*db.operations, made)), "ok", made.id

    def take_operation(
        self, db: Database, job_id: str, token: int, recogniser: str
    ) -> tuple[Database, str, Operation | None]:
        """`POST /api/operations/take`: the same for a remote one, held from now on by the taker."""
        db, answer, number = self.submit(db, job_id, token, recogniser)
        row = db.operation(number)
        if row is None:
            return db, answer, None
        row = row._replace(token=db.issued + 1, leased_at=db.now, leased_by=recogniser)
        return db._replace(issued=row.token).put(row), answer, row

    def claimable(self, db: Database, lease: int) -> list[Operation]:
        """Which operations a claim may give; whose turn it is among them is another matter."""
        queued = [o for o in db.operations if o.state == "queued" and not o.recogniser]
        return [each for each in queued if self.free(each, db.now, lease)]

    def claim_operation(self, db: Database, number: int, worker: str) -> tuple[Database, Operation]:
        """`POST /api/operations/claim`, once it is known which it gave."""
        row = db.operation(number)
        assert row is not None
        taken = row._replace(
            token=db.issued + 1, leased_at=db.now, leased_by=worker, attempts=row.attempts + 1
        )
        return db._replace(issued=taken.token).put(taken), taken

    def act(
        self, db: Database, number: int, token: int, action: str, *values: Any
    ) -> tuple[Database, str]:
        """`POST /api/operations/ID/ACTION` and what it answers: ok, lease_lost or not_found."""
        row = db.operation(number)
        if row is None:
            return db, "not_found"
        if not self.holds(row, token) or row.state != "queued":
            return db, "lease_lost"
        match action, values:
            case "renew", ():
                row = row._replace(leased_at=db.now)
            case "cut", (units,):
                row = row._replace(units=units, attempts=0, crashes=0, leased_at=db.now)
            case "segments", (unit, words):
                parts = tuple(sorted({**dict(row.parts), unit: words}.items()))
                row = row._replace(parts=parts, attempts=0, crashes=0, leased_at=db.now)
            case "released", ():
                row = row._replace(attempts=max(row.attempts - 1, 0), **FREE)
            case "lost", ():
                db = self.make_due(db, number)
                return db._replace(operations=tuple(o for o in db.operations if o is not row)), "ok"
            case (("done" | "failed"), ()):
                row = row._replace(state=action, **FREE)
                db = self.make_due(db, number)
            case _:
                raise AssertionError(action)
        return db.put(row), "ok"

    def make_due(self, db: Database, number: int) -> Database:
        for job in db.jobs:
            if job.operation == number and job.state == "submitted":
                db = db.put(job._replace(not_before=0))
        return db

    def give_back_operations(self, db: Database, worker: str) -> tuple[Database, int]:
        """`POST /api/operations/restart`."""
        held = [each for each in db.operations if each.token and self.is_of(each, worker)]
        for each in held:
            db = db.put(each._replace(crashes=each.crashes + 1, **FREE))
        return db, len(held)

    def cancel(self, db: Database, number: int) -> Database:
        """`DELETE /api/operations/ID`, unless its job waits for it."""
        if any(job.operation == number and job.state == "submitted" for job in db.jobs):
            return db
        return db._replace(operations=tuple(o for o in db.operations if o.id != number))

    def cancel_of(self, db: Database, job_id: str) -> Database:
        return db._replace(operations=tuple(o for o in db.operations if o.job != job_id))
