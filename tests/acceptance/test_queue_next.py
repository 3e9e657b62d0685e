"""A result brings the next jobs along: in one request and one transaction, and never twice."""

from __future__ import annotations

import pytest

from tests.acceptance.bench import Bench
from tests.acceptance.proxy import Proxy
from worker.errors import LeaseLost
from worker.jobs import Advanced, Milestone, Retry, Step, Waiting, Wanted
from worker.pocketbase.queue import Queue

NORMALIZED = Advanced(Milestone.NORMALIZED)
WANTED = Wanted(Milestone.UPLOADED, 60)
CLAIM, FINISH, RESTART = (f"/api/queue/{name}" for name in ("claim", "finish", "restart"))


def in_order(bench: Bench, count: int) -> list[str]:
    """So many jobs, the oldest first."""
    jobs = [bench.job() for _ in range(count)]
    for number, job in enumerate(jobs):
        bench.set(job, created=f"2026-01-01 00:00:0{number}.000Z")
    return jobs


@pytest.mark.parametrize("batch", [1, 3])
def test_a_runner_that_has_work_claims_with_its_results(
    batch: int, bench: Bench, proxy: Proxy, far: Queue
):
    """One request a job, one by one or in batches; and the last one says that there are no more."""
    jobs = in_order(bench, 7)
    bench.set(jobs[4], priority=1)
    order = [jobs[4], *jobs[:4], *jobs[5:]]
    seen = []

    def step(context, job, scratch):
        seen.append(job.id)
        return NORMALIZED

    bench.runner(Step.NORMALISE, step, queue=far, batch=batch).poll()
    assert seen == order
    assert {bench.row(job)["state"] for job in jobs} == {"normalized"}
    assert (proxy.requests[CLAIM], proxy.requests[FINISH]) == (1, 7)


def test_a_result_brings_what_a_claim_would(bench: Bench):
    queue = bench.queue("w")
    first, second = in_order(bench, 2)
    bench.set(second, chat_id="7", priority=0.5)
    held = queue.claim(Milestone.UPLOADED, 60, 2)
    assert [job.id for job in held] == [second, first]
    # A job that is put back is as good as any other.
    [again] = queue.write(held[0], Retry(0, "no"), WANTED) or []
    assert (again.id, again.attempts, again.chat_id) == (second, 2, "7")
    assert again.lease_token != held[0].lease_token
    row = bench.row(second)
    assert (row["lease_token"], row["leased_by"]) == (again.lease_token, "w")
    assert queue.write(again, NORMALIZED, WANTED) == []  # the other one is held
    assert queue.write(held[1], Waiting(30), None) is None


def test_a_result_under_a_lost_lease_brings_nothing(bench: Bench):
    queue = bench.queue()
    job, other, third = in_order(bench, 3)
    [held] = queue.claim(Milestone.UPLOADED, 60)
    assert held.id == job
    bench.set(job, lease_token="somebody else's")
    with pytest.raises(LeaseLost):
        queue.write(held, NORMALIZED, WANTED)
    assert (bench.row(other)["lease_token"], bench.row(other)["attempts"]) == ("", 0)
    # Nor does it beside one that counts.
    [mine] = queue.claim(Milestone.UPLOADED, 60)
    assert queue.write_all([(mine, NORMALIZED), (held, NORMALIZED)], WANTED) == ({job}, None)
    assert bench.row(mine.id)["state"] == "normalized"
    assert bench.row(third)["lease_token"] == ""


def test_a_result_that_comes_again_brings_nothing(bench: Bench):
    """Whoever sends it again may hold what the first one brought."""
    queue = bench.queue()
    _, second, third = in_order(bench, 3)
    [held] = queue.claim(Milestone.UPLOADED, 60)
    [brought] = queue.write(held, NORMALIZED, WANTED) or []
    assert brought.id == second
    assert queue.write(held, NORMALIZED, WANTED) is None
    assert bench.row(second)["lease_token"] == brought.lease_token
    assert bench.row(third)["lease_token"] == ""


def test_what_a_lost_answer_brought_is_given_back_before_the_next_claim(
    bench: Bench, proxy: Proxy, far: Queue
):
    """Not an hour later, when its lease ends; and at the cost of no attempt."""
    first, second = in_order(bench, 2)
    runner = bench.runner(Step.NORMALISE, lambda *_: NORMALIZED, queue=far)
    proxy.drop_answers(FINISH)
    runner.poll()
    assert proxy.drops_left == 0
    assert bench.row(first)["state"] == "normalized"
    assert bench.row(second)["leased_by"] == far.worker, "claimed by one who does not know of it"
    assert (proxy.requests[FINISH], proxy.requests[RESTART]) == (2, 1)
    runner.poll()
    assert bench.row(second)["state"] == "normalized"
    assert bench.row(second)["attempts"] == 0
    assert (proxy.requests[CLAIM], proxy.requests[RESTART]) == (2, 2)
    assert bench.runs(Step.NORMALISE) == {"ok": 2}
