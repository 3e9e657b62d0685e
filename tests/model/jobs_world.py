"""Workers, an owner and a bad network around the queue's jobs, to be searched.

A call that fails is one whose answer is lost: it may have been carried out, or may be carried out
at any moment from now on, and whoever made it does not know. So each failed call leaves its request
on the wire. Beside the database stands what ought to be, kept by other means than the tokens in its
rows: who was given which job and when, what the owner saved, which results counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.model.jobs_state import (
    LEASE,
    PAUSE,
    Request,
    Saving,
    State,
    Truth,
    Worker,
    canonical,
)
from tests.model.rows import ENDED, STOPPED, Database, Job, Outcome
from tests.model.rules import Rules
from tests.model.search import Violation


class Jobs:
    """The world. `chain`: the states that jobs go through, the first to the last."""

    manners = ("every step succeeds", "every step fails")

    def __init__(
        self,
        rules: Rules | None = None,
        *,
        chain: tuple[str, ...] = ("submitted", "transcribed", "done"),
        jobs: int = 1,
        workers: int = 2,
        faults: int = 1,
        edits: int = 0,
        deletes: int = 0,
        attempts: int = 1,
        outcomes: tuple[str, ...] = ("advanced", "retry", "failed", "released"),
    ) -> None:
        self.rules = rules or Rules()
        self.chain = chain
        self.limit = attempts
        self.outcomes = outcomes
        rows = tuple(Job(f"j{n}", chain[0], chain[0], chat="c") for n in range(jobs))
        self.start = State(
            Database(jobs=rows),
            tuple(Worker(name) for name in "abc"[:workers]),
            truth=tuple((row.id, Truth()) for row in rows),
            faults=faults,
            edits=edits,
            deletes=deletes,
        )

    # What may happen

    def moves(self, state: State) -> Iterator[tuple[str, Callable[[], State]]]:
        def move(made: Callable[[], State]) -> Callable[[], State]:
            return lambda: self.checked(state, made())

        for n, worker in enumerate(state.workers):
            for label, call in self.calls(worker):
                yield f"{worker.name} {label}", move(lambda n=n, c=call: self.call(state, n, c))
                if state.faults:
                    yield (
                        f"{worker.name} {label}, and the answer is lost",
                        move(lambda n=n, c=call: self.lose(state, n, c)),
                    )
            if state.faults and worker.phase != "idle":
                yield f"{worker.name} crashes", move(lambda n=n: self.crash(state, n))
        for n, request in enumerate(state.wire):
            late = state._replace(wire=state.wire[:n] + state.wire[n + 1 :])
            yield f"late: {request}", move(lambda s=late, r=request: self.perform(s, r)[0])
        yield "time passes", move(lambda: state._replace(db=state.db._replace(now=1)))
        yield from ((label, move(made)) for label, made in self.owners(state))

    def calls(self, worker: Worker) -> Iterator[tuple[str, Request]]:
        match worker.phase:
            case "idle":
                for at in self.chain[:-1]:
                    yield f"claims {at}", Request("claim", worker.name, at)
            case "new":
                yield "gives back", Request("give_back", worker.name)
            case "held":
                for outcome in self.results(worker):
                    result = self.result(worker, outcome)
                    if outcome.name != "released":  # who stops takes no more
                        more = result._replace(worker=worker.name, state=worker.state)
                        yield f"writes {outcome.name} and claims", more
                    yield f"writes {outcome.name}", result
            case "sending":
                assert worker.outcome
                yield f"writes {worker.outcome.name} again", self.result(worker, worker.outcome)

    def results(self, worker: Worker) -> Iterator[Outcome]:
        """What a step may come to."""
        if max(worker.attempts, worker.sent_back) > self.limit:
            yield Outcome("dead")
            return
        if "advanced" in self.outcomes:
            yield self.success(worker)
        yield from (
            Outcome(name, pause=PAUSE)
            for name in self.outcomes
            if name in {"retry", "failed", "released"}
            or (name == "waiting" and worker.state == "submitted")
        )
        if "sent_back" in self.outcomes and worker.state != self.chain[0]:
            yield Outcome("sent_back", to=self.chain[0], pause=PAUSE)

    def success(self, worker: Worker) -> Outcome:
        to = self.chain[self.chain.index(worker.state) + 1]
        return Outcome("advanced", to=to, text=("raw", "said") if to == "transcribed" else None)

    def result(self, worker: Worker, outcome: Outcome) -> Request:
        return Request("write", job=worker.job, token=worker.token, outcome=outcome)

    def call(self, state: State, n: int, request: Request) -> State:
        """A call that is answered."""
        state, answer = self.perform(state, request)
        before = state.workers[n]
        worker = Worker(before.name, "new" if before.unsure else "idle")
        if answer:
            [job] = answer
            worker = worker._replace(
                phase="held", job=job.id, token=job.token, state=job.state,
                attempts=job.attempts, sent_back=job.sent_back,
            )  # fmt: skip
        return self.believe(state, n, worker)

    def lose(self, state: State, n: int, request: Request) -> State:
        """A call that is not: it hangs on the wire, and its caller knows nothing."""
        worker = state.workers[n]
        if request.call == "write":
            unsure = worker.unsure or bool(request.state)
            worker = worker._replace(phase="sending", outcome=request.outcome, unsure=unsure)
        else:
            worker = worker._replace(phase="new")
        wire = tuple(sorted([*state.wire, request], key=repr))
        return self.believe(state._replace(wire=wire, faults=state.faults - 1), n, worker)

    def crash(self, state: State, n: int) -> State:
        worker = Worker(state.workers[n].name, "new")
        return self.believe(state._replace(faults=state.faults - 1), n, worker)

    def believe(self, state: State, n: int, worker: Worker) -> State:
        workers = state.workers
        return state._replace(workers=(*workers[:n], worker, *workers[n + 1 :]))

    # What a call does, and what it ought to

    def perform(self, state: State, request: Request) -> tuple[State, Any]:
        match request.call:
            case "claim":
                return self.claim(state, request)
            case "give_back":
                return self.give_back(state, request.worker), None
            case _:
                return self.finish(state, request)

    def claim(self, state: State, request: Request) -> tuple[State, tuple[Job, ...]]:
        db = state.db
        truth = dict(state.truth)

        def claimable(job: Job) -> bool:
            known = truth[job.id]
            held = known.holder and known.since >= db.now - LEASE
            return job.state == request.state and job.not_before <= db.now and not held

        due = [job.id for job in db.jobs if claimable(job)]
        after, given = self.rules.claim(db, request.state, LEASE, 1, request.worker)
        if due and not given:
            raise Violation("no work is said only when there is none", due)
        for job in given:
            if job.id not in due:
                raise Violation("one job, one holder", job)
            known = truth[job.id]
            if job.attempts != known.claims + 1:
                raise Violation("attempts are counted", job)
            truth[job.id] = known._replace(
                holder=job.token, since=db.now, worker=request.worker, claims=job.attempts
            )
        return state._replace(db=after, truth=tuple(truth.items())), given

    def give_back(self, state: State, worker: str) -> State:
        db, _ = self.rules.give_back(state.db, worker)
        truth = dict(state.truth)
        for job_id, known in truth.items():
            if known.worker == worker:
                truth[job_id] = known._replace(holder=0, worker="", since=0)
        return state._replace(db=db, truth=tuple(truth.items()))

    def finish(self, state: State, request: Request) -> tuple[State, tuple[Job, ...]]:
        known = dict(state.truth).get(request.job, Truth(holder=-1))
        job = state.db.job(request.job)
        anew = job is not None and self.rules.holds(job, request.token)
        state, taken = self.write(state, request)
        if not request.state or not self.rules.leads_on(anew, taken):
            return state, ()
        if known.holder != request.token:
            raise Violation("more work comes only with a result that counts now", request)
        return self.claim(state, request)

    def write(self, state: State, request: Request) -> tuple[State, bool]:
        assert request.outcome
        truth = dict(state.truth)
        known = truth.get(request.job, Truth(holder=-1))
        db, taken = self.rules.write(state.db, request.job, request.token, request.outcome)
        if known.holder != request.token:
            if db != state.db:
                raise Violation("only the holder writes, and once", request)
            if taken and known.applied != request.token:
                raise Violation("nothing is called written that is not", request)
            if not taken and known.applied == request.token:
                raise Violation("nothing is called lost that was written", request)
            return state, taken
        if not taken:
            raise Violation("the holder's result is taken", request)
        outcome = request.outcome
        known = known._replace(holder=0, since=0, worker="", applied=request.token)
        if outcome.name in {"advanced", "waiting", "sent_back"}:
            known = known._replace(claims=0)
        elif outcome.name == "released":
            known = known._replace(claims=max(known.claims - 1, 0))
        if outcome.text:
            known = known._replace(text=outcome.text[1])
        if outcome.to == "done" or outcome.name in STOPPED:
            known = known._replace(told=known.told + 1)
        truth[request.job] = known
        return state._replace(db=db, truth=tuple(truth.items())), True

    # The owner

    def owners(self, state: State) -> Iterator[tuple[str, Callable[[], State]]]:
        """The panel's form is opened and saved whenever; a program's save has one column alone."""
        if state.deletes:
            for job in state.db.jobs:
                yield f"the owner deletes {job.id}", lambda j=job: self.delete(state, j)
        if state.saving:
            yield "the owner's save is carried out", lambda: self.save(state)
        if not state.edits or not state.db.jobs:
            return
        job = state.db.jobs[0]
        less = state._replace(edits=state.edits - 1)
        if state.db.text(job.id) is not None:
            yield "the owner edits the text", lambda: self.edit_text(less, job.id)
        if not state.form:
            yield "the owner opens the form", lambda: state._replace(form=job)
        if state.saving:
            return
        back = {"state": self.chain[0]}
        note = {"note": "mine"}
        yield "a program sends a note", lambda: self.send(less, job, note, None, False)
        yield "a program sends a state", lambda: self.send(less, job, back, None, True)
        if state.form:
            old = state.form
            whole = {"state": old.state, "note": old.note}  # and the queue's, which do not count
            for label, change in (("note", note), ("state", back)):
                yield (
                    f"the owner saves the form with a {label}",
                    lambda c=change: self.send(
                        less._replace(form=None), job, whole | c, old.updated, "state" in c
                    ),
                )

    def send(
        self, state: State, job: Job, form: dict[str, Any], seen: int | None, asks: bool
    ) -> State:
        return state._replace(saving=Saving(job, tuple(sorted(form.items())), seen, asks))

    def save(self, state: State) -> State:
        assert state.saving
        loaded, form, seen, asks = state.saving
        before = state.db.job(loaded.id)
        db, saved = self.rules.save(state.db, loaded, dict(form), seen)
        after = db.job(loaded.id)
        state = state._replace(db=db, saving=None)
        if before is None or after is None:
            return state
        truth = dict(state.truth)
        known = truth[loaded.id]
        if saved and dict(form).get("note"):
            known = known._replace(note=after.note)
        if saved and before.state in STOPPED and after.state not in STOPPED:
            if not asks:
                raise Violation("no job goes back to work unasked", (before.state, loaded, form))
            known = known._replace(holder=0, since=0, worker="", claims=0)
        elif after != before._replace(note=after.note, updated=after.updated):
            raise Violation("an edit leaves the queue's columns", (before, after))
        truth[loaded.id] = known
        return state._replace(truth=tuple(truth.items()))

    def edit_text(self, state: State, job_id: str) -> State:
        db = self.rules.edit_text(state.db, job_id, "raw", "edited")
        truth = dict(state.truth)
        truth[job_id] = truth[job_id]._replace(text="edited")
        return state._replace(db=db, truth=tuple(truth.items()))

    def delete(self, state: State, job: Job) -> State:
        return state._replace(
            db=self.rules.delete(state.db, job.id),
            truth=tuple(each for each in state.truth if each[0] != job.id),
            deletes=state.deletes - 1,
        )

    # What holds after every move

    def checked(self, before: State, state: State) -> State:
        for job in state.db.jobs:
            known = dict(state.truth)[job.id]
            was = before.db.job(job.id)
            if was and was.state == "done" and job.state != "done":
                raise Violation("done is final", job)
            if job.note != known.note:
                raise Violation("no edit of the owner's is undone", job)
            if state.db.text(job.id) != known.text:
                raise Violation(
                    "a text is written once, and the owner's edit stays", state.db.texts
                )
            if (job.token or 0) != known.holder:
                raise Violation("a lease is its holder's", job)
            told = sum(1 for answer in state.db.answers if answer.job == job.id)
            if told != known.told:
                raise Violation("each end is told once", state.db.answers)
        if any(state.db.job(text.job) is None for text in state.db.texts):
            raise Violation("nothing is left of what was deleted", state.db.texts)
        return canonical(state, self.limit + 1)

    # When nothing goes wrong any more

    def settle(self, state: State, manner: str) -> State | None:
        if all(job.state in ENDED for job in state.db.jobs):
            return None
        for n, worker in enumerate(state.workers):
            for _, request in self.calls(worker):
                after = self.call(state, n, self.fair(worker, request, manner))
                after = canonical(after, self.limit + 1)
                if after != state:
                    return after
        return canonical(state._replace(db=state.db._replace(now=1)), self.limit + 1)

    def fair(self, worker: Worker, request: Request, manner: str) -> Request:
        """The call, with the result that this manner has where a step may choose one."""
        dies = max(worker.attempts, worker.sent_back) > self.limit
        if worker.phase != "held" or dies:
            return request
        succeeds = manner == self.manners[0]
        outcome = self.success(worker) if succeeds else Outcome("retry", pause=PAUSE)
        return request._replace(outcome=outcome)
