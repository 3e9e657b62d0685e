"""Every interleaving of workers, owner and tellers within small bounds, and mutations found in it.

`MODEL=deep` searches further; `docs/queue-model.md` has the bounds and what they leave out.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.model.answers_world import Answers
from tests.model.jobs_world import Jobs
from tests.model.rows import MILESTONES, Database, Job, Outcome
from tests.model.rules import Rules
from tests.model.search import Violation, search

SHORT = ("submitted", "transcribed", "done")
LONG = ("uploaded", "submitted", "transcribed", "done")
DEEP = os.environ.get("MODEL") == "deep"

JOBS: dict[str, dict[str, Any]] = {
    "two workers and a fault": {},
    "a worker and two faults": {"workers": 1, "faults": 2},
    "two workers and the owner": {"faults": 0, "edits": 1},
    "a worker, a fault and the owner": {"workers": 1, "edits": 1},
    "two workers, a fault and a deletion": {"deletes": 1},
    "two jobs": {"jobs": 2, "faults": 0, "outcomes": ("advanced", "retry")},
    "operations that are lost or go on": {
        "chain": LONG,
        "workers": 1,
        "outcomes": ("advanced", "waiting", "sent_back"),
    },
}
FURTHER: dict[str, dict[str, Any]] = {
    "two workers and two faults": {"faults": 2},
    "three workers": {"workers": 3},
    "two workers, a fault and the owner": {"edits": 1},
    "two workers and the owner's two edits": {"edits": 2, "faults": 0},
    "three attempts": {"attempts": 3, "faults": 2, "outcomes": ("advanced", "retry")},
    "two jobs and a fault": {"jobs": 2, "outcomes": ("advanced", "retry")},
    "every outcome of every step": {
        "chain": MILESTONES,
        "outcomes": ("advanced", "retry", "failed", "released", "waiting", "sent_back"),
    },
}
ANSWERS: dict[str, dict[str, Any]] = {
    "two tellers and a fault": {},
    "a teller and two faults": {"tellers": 1, "faults": 2},
    "two answers to a chat": {"chats": "cc", "tellers": 1},
}
FURTHER_ANSWERS: dict[str, dict[str, Any]] = {
    "two tellers and two faults": {"faults": 2},
    "a teller and three faults": {"tellers": 1, "faults": 3},
    "two answers to a chat, two tellers": {"chats": "cc"},
}


@pytest.mark.parametrize("name", [*JOBS, *(FURTHER if DEEP else ())])
def test_nothing_wrong_can_happen_to_a_job(name: str):
    result = search(Jobs(**(JOBS | FURTHER)[name]))
    print(f"{name}: {result}")
    assert result.states > 100
    assert result.depth > 8


@pytest.mark.parametrize("name", [*ANSWERS, *(FURTHER_ANSWERS if DEEP else ())])
def test_nothing_wrong_can_happen_to_an_answer(name: str):
    result = search(Answers(**(ANSWERS | FURTHER_ANSWERS)[name]))
    print(f"{name}: {result}")
    assert result.states > 100
    assert result.depth > 8


# The search finds what is wrong


class NobodyLooksAtTheToken(Rules):
    def holds(self, row: Any, token: int) -> bool:
        return True


class LeasesAreNoHindrance(Rules):
    def free(self, row: Any, now: int, lease: int) -> bool:
        return True


class LeasesNeverEnd(Rules):
    def free(self, row: Any, now: int, lease: int) -> bool:
        return not row.token


class ASecondWriteWritesAgain(Rules):
    """As it was: the text came again with its result."""

    def written_before(self, db: Database, job: Job, token: int, outcome: Outcome) -> Database:
        return self.save_text(db, job.id, *outcome.text) if outcome.text else db


class ASecondWriteClaimsAgain(Rules):
    def leads_on(self, anew: bool, taken: bool) -> bool:
        return taken


class ARefusedWriteClaims(Rules):
    def leads_on(self, anew: bool, taken: bool) -> bool:
        return True


class ASecondWriteIsRefused(Rules):
    """As it was with answers."""

    def knows(self, row: Any, token: int) -> bool:
        return False


class ASaveWritesEveryColumn(Rules):
    """As PocketBase does by itself."""

    def save(self, db: Database, loaded: Job, form: Any, seen: int | None) -> tuple[Database, bool]:
        after, saved = super().save(db, loaded, form, seen)
        row = after.job(loaded.id)
        if saved and row:
            after = after.put(row._replace(token=loaded.token, attempts=loaded.attempts))
        return after, saved


class ASaveWantsWhatItFound(Rules):
    """As it was: what the request found counted as what the owner wanted."""

    def wanted(self, loaded: Job, stored: Job, form: Any) -> dict[str, Any]:
        found = {"state": loaded.state, "note": loaded.note} | form
        return {name: found[name] for name in found if found[name] != getattr(stored, name)}


class AnOldFormIsTaken(Rules):
    def save(self, db: Database, loaded: Job, form: Any, seen: int | None) -> tuple[Database, bool]:
        return super().save(db, loaded, form, None)


class NamesAreMixedUp(Rules):
    def is_of(self, row: Any, worker: str) -> bool:
        return True


class AClaimIsNotCounted(Rules):
    def take(self, job: Job, token: int, now: int, worker: str) -> Job:
        return super().take(job, token, now, worker)._replace(attempts=1)


class ARetryEndsTheJob(Rules):
    def columns(self, db: Database, job: Job, outcome: Outcome) -> dict[str, Any]:
        if job.state == "transcribed" and outcome.name == "retry":
            return super().columns(db, job, Outcome("advanced", to="done"))
        return super().columns(db, job, outcome)


class APauseIsForEver(Rules):
    def columns(self, db: Database, job: Job, outcome: Outcome) -> dict[str, Any]:
        return super().columns(db, job, outcome._replace(pause=1000 * outcome.pause))


class ADeletionLeavesTheText(Rules):
    def delete(self, db: Database, job_id: str) -> Database:
        return super().delete(db, job_id)._replace(texts=db.texts)


class ALateNoteCounts(Rules):
    """As it was: a note on a message that has arrived meanwhile."""

    def overtaken(self, answer: Any, sent: int) -> bool:
        return False


class AChatHearsInAnyOrder(Rules):
    def claim_answers(self, db: Database, lease: int, count: int, worker: str) -> Any:
        backwards, given = super().claim_answers(
            db._replace(answers=db.answers[::-1]), lease, count, worker
        )
        return backwards._replace(answers=backwards.answers[::-1]), given


@pytest.mark.parametrize(
    ("mutation", "bounds", "rules"),
    [
        (NobodyLooksAtTheToken, {}, {"only the holder writes, and once"}),
        (LeasesAreNoHindrance, {"faults": 0}, {"one job, one holder"}),
        (LeasesNeverEnd, {}, {"no work is said only when there is none", "everything ends"}),
        (ASecondWriteWritesAgain, JOBS["a worker, a fault and the owner"],
         {"only the holder writes, and once"}),
        (ASecondWriteClaimsAgain, {"jobs": 2, "workers": 1, "outcomes": ("advanced",)},
         {"more work comes only with a result that counts now"}),
        (ARefusedWriteClaims, {"jobs": 2, "outcomes": ("advanced",)},
         {"more work comes only with a result that counts now"}),
        (ASecondWriteIsRefused, {}, {"nothing is called lost that was written"}),
        (ASaveWritesEveryColumn, {"faults": 0, "edits": 1}, {"an edit leaves the queue's columns"}),
        (ASaveWantsWhatItFound, {"faults": 0, "edits": 1}, {"no job goes back to work unasked"}),
        (AnOldFormIsTaken, {"faults": 0, "edits": 1}, {"no job goes back to work unasked"}),
        (NamesAreMixedUp, {"faults": 2}, {"one job, one holder", "a lease is its holder's"}),
        (AClaimIsNotCounted, {}, {"attempts are counted"}),
        (ARetryEndsTheJob, {"faults": 0}, {"each end is told once"}),
        (APauseIsForEver, {"faults": 0}, {"everything ends"}),
        (ADeletionLeavesTheText, {"faults": 0, "deletes": 1},
         {"nothing is left of what was deleted"}),
    ],
)  # fmt: skip
def test_a_queue_that_is_worse_is_found_out(
    mutation: type[Rules], bounds: dict[str, Any], rules: set[str]
):
    with pytest.raises(Violation) as found:
        search(Jobs(mutation(), **bounds))
    assert found.value.rule in rules, found.value
    assert found.value.way, "the way there is told"


@pytest.mark.parametrize(
    ("mutation", "bounds", "rules"),
    [
        (NobodyLooksAtTheToken, {"faults": 0}, {"no message is sent twice"}),
        (LeasesNeverEnd, {}, {"everything ends"}),
        (ASecondWriteIsRefused, {}, {"nothing is called lost that was written"}),
        (ALateNoteCounts, {"tellers": 1, "faults": 2}, {"no message is sent twice"}),
        (AChatHearsInAnyOrder, {"chats": "cc", "faults": 0}, {"a chat hears in order"}),
    ],
)  # fmt: skip
def test_an_outbox_that_is_worse_is_found_out(
    mutation: type[Rules], bounds: dict[str, Any], rules: set[str]
):
    with pytest.raises(Violation) as found:
        search(Answers(mutation(), **bounds))
    assert found.value.rule in rules, found.value
    assert found.value.way
