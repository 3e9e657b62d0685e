"""What the queue gives out and when: order, batches, delays, and the weight of finished rows."""

from __future__ import annotations

import re
import time

import pytest

from tests.acceptance.bench import TEXT, Bench, Scripted
from tests.acceptance.service import REPOSITORY
from worker.engine.operations import HttpOperations
from worker.errors import NoWork, PocketBaseRefused
from worker.jobs import Advanced, Milestone, Step, Waiting, Wanted
from worker.recognisers.base import Finished
from worker.recognisers.local import LocalRecogniser

CREATED = "2026-01-01 00:00:0{}.000Z"


def test_the_order_is_priority_then_age_then_id(bench: Bench):
    """Cases: nothing starves, and "the next one" is the same for everybody."""
    jobs = [
        (bench.job(priority=priority, created=CREATED.format(second)), priority, second)
        for priority in (-1, 0, 5)
        for second in (3, 1, 1, 2)
    ]
    expected = [job for job, *_ in sorted(jobs, key=lambda each: (-each[1], each[2], each[0]))]
    queue = bench.queue()
    one_by_one = [queue.claim(Milestone.UPLOADED, 60)[0].id for _ in range(5)]
    together = [job.id for job in queue.claim(Milestone.UPLOADED, 60, count=100)]
    assert one_by_one + together == expected


def test_a_claim_takes_no_more_than_it_asks_for_and_only_its_state(bench: Bench):
    for state in ("uploaded", "normalized", "submitted", "transcribed", "done", "failed", "dead"):
        for _ in range(3):
            bench.job(state)
    for state in list(Milestone)[:4]:
        claimed = bench.queue().claim(state, 60, count=2)
        assert [job.state for job in claimed] == [state] * 2
        assert len({job.lease_token for job in claimed}) == 2
        assert all(job.attempts == 1 for job in claimed)
        assert len(bench.queue().claim(state, 60, count=2)) == 1


def test_due_is_what_a_claim_would_find(bench: Bench):
    """One question about all steps finds neither more nor less than each one's claim."""
    now = "strftime('%Y-%m-%d %H:%M:%fZ', 'now', '{}')"
    cases: dict[str, dict[str, object]] = {
        "fresh": {},
        "pause over": {"not_before": now.format("-1 seconds")},
        "pausing": {"not_before": now.format("+60 seconds")},
        "held": {"lease_token": "x", "leased_at": now.format("-50 seconds")},
        "lease ran out": {"lease_token": "x", "leased_at": now.format("-61 seconds")},
        "both": {
            "lease_token": "x", "leased_at": now.format("-61 seconds"),
            "not_before": now.format("+60 seconds"),
        },
    }  # fmt: skip
    wanted = [Wanted(state, 60.0) for state in list(Milestone)[:4]]
    queue = bench.queue()
    assert queue.due(wanted) == set()
    found = set()
    for what, columns in cases.items():
        for state in ("submitted", "done"):
            job = bench.job(state, **columns)
            due = queue.due(wanted)
            sooner = queue.due([Wanted(Milestone.SUBMITTED, 40.0)])
            assert sooner == ({"submitted"} if (what, state) == ("held", "submitted") else due)
            try:
                [claimed] = queue.claim(Milestone.SUBMITTED, 60.0)
            except NoWork:
                assert due == set(), what
            else:
                assert (due, claimed.id) == ({"submitted"}, job), what
                found.add(what)
            bench.service.execute("DELETE FROM jobs WHERE id = ?", job)
    assert found == {"fresh", "pause over", "lease ran out"}
    bench.job("uploaded")
    bench.job("transcribed")
    assert queue.due(wanted) == {"uploaded", "transcribed"}
    assert queue.due(wanted[2:]) == {"transcribed"}
    assert queue.due([]) == set()
    with pytest.raises(PocketBaseRefused):
        queue.due([Wanted(Milestone.UPLOADED, 60.0)] * 101)
    rows = bench.service.rows("SELECT state, attempts, lease_token FROM jobs")
    assert {(row["attempts"], row["lease_token"]) for row in rows} == {(0, "")}, (
        "asking is no claim"
    )


def test_a_hundred_thousand_finished_rows_change_nothing(bench: Bench):
    """Cases: claims slow down as finished rows pile up.

    SQLite's statistics are taken while the tables are as good as empty, as PocketBase does it: by
    those a scan looks cheap.
    """

    def claims() -> float:
        for _ in range(20):
            bench.job()
        took = []
        for _ in range(20):
            started = time.perf_counter()
            bench.queue().claim(Milestone.UPLOADED, 60)
            took.append(time.perf_counter() - started)
        return min(took)  # the machine may be busy with others

    bench.job("done")
    bench.service.execute("ANALYZE")
    # PocketBase's SQLite counts empty partial indexes as well, and takes the last for the table.
    bench.service.execute(
        """INSERT INTO sqlite_stat1 (tbl, idx, stat)
           SELECT 'jobs', name, '0 0' FROM sqlite_schema
           WHERE tbl_name = 'jobs' AND sql LIKE '% WHERE %'
             AND name NOT IN (SELECT idx FROM sqlite_stat1)"""
    )
    before = claims()
    with bench.service.database() as database:
        for insert in (
            """INSERT INTO recordings (id, source)
               WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
               SELECT 'row' || i, 'http' FROM n""",
            """INSERT INTO jobs (id, recording, state, milestone, created, updated)
               SELECT id, id, CASE WHEN id LIKE '%0' THEN 'dead' ELSE 'done' END, 'done',
                 '2025-01-01 00:00:00.000Z', '2025-01-01 00:00:00.000Z'
               FROM recordings WHERE id LIKE 'row%'""",
        ):
            database.execute(insert)
        database.commit()
    try:
        after = claims()
        with bench.service.database() as database:
            bound = {"state": "uploaded", "worker": "x", "expired": -60, "count": 1}
            for among in ("=", "IN"):
                rows = database.execute(f"EXPLAIN QUERY PLAN {claim(among)}", bound).fetchall()
                plan = [row["detail"] for row in rows]
                assert not [line for line in plan if "SCAN" in line or "TEMP B-TREE" in line], plan
                assert any("USING INDEX idx_jobs_claim (state=?)" in line for line in plan)
        assert after < 3 * before + 0.005, (before, after)
    finally:
        for table in ("jobs", "recordings"):
            bench.service.execute(f"DELETE FROM {table} WHERE id LIKE 'row%'")


def test_the_numbers_for_the_metrics_page_are_those_of_the_table(bench: Bench):
    """Every state is counted; the oldest is told of those alone that a step has yet to work on."""
    old = "strftime('%Y-%m-%d %H:%M:%fZ', 'now', '-1 hour')"
    for state, jobs in (("uploaded", 3), ("submitted", 1), ("done", 2), ("dead", 1)):
        ids = [bench.job(state, priority=n) for n in range(jobs)]
        bench.set(ids[0], created=old)  # the least urgent
    rows = bench.client.request("GET", "/api/queue/stats")["states"]
    assert {row["state"]: row["jobs"] for row in rows} == {
        "uploaded": 3, "normalized": 0, "submitted": 1, "transcribed": 0, "done": 2, "failed": 0,
        "dead": 1,
    }  # fmt: skip
    oldest = {row["state"]: row["oldest"] for row in rows if row["oldest"]}
    assert oldest == {state: pytest.approx(3600, abs=60) for state in ("uploaded", "submitted")}


def claim(among: str) -> str:
    """The claim's own statement, as it stands in the queue's file: of one job, or of several."""
    source = (REPOSITORY / "pb" / "pb_hooks" / "lib" / "queue.js").read_text()
    found = re.search(r"`(UPDATE jobs [^`]*RETURNING(?:[^`$]|\$\{)*)`", source)
    assert found
    due = "not_before <= ${NOW} AND (lease_token = '' OR leased_at < ${expired})"
    assert f"`{due}`" in source
    sql = found.group(1).replace("${among}", among).replace('${DUE(AFTER("expired"))}', due)
    assert "leased_at < " in sql
    sql = re.sub(r"\$\{[^}]*\}", "'2026-01-01 00:00:00.000Z'", sql)
    return re.sub(r"\{(:\w+)\}", r"\1", sql)  # bound, as the real ones: the planner guesses


def ended(bench: Bench, outcome: str = "done") -> None:
    """An engine takes the one operation there is and ends it."""
    engine = HttpOperations(bench.client, "engine@test")
    operation = engine.claim()
    assert operation is not None
    engine.cut(operation, [(0.0, 1.0)], "ru")
    engine.write(operation, 0, TEXT.segments)
    engine.finish(operation, outcome, engine="x")


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_an_operation_that_ends_makes_its_job_due_at_once(bench: Bench, outcome: str):
    job = bench.job("normalized")
    recogniser = LocalRecogniser(bench.client)
    bench.runner(Step.SUBMIT, recogniser=recogniser, check_seconds=500).poll()
    assert bench.row(job)["state"] == "submitted"
    assert bench.pause(job) > 490
    bench.due(job)
    bench.runner(Step.CHECK, recogniser=recogniser, check_seconds=500).poll()
    assert bench.pause(job) > 490
    ended(bench, outcome)
    assert bench.pause(job) == 0
    bench.runner(Step.CHECK, recogniser=recogniser).poll()
    assert bench.row(job)["state"] == ("transcribed" if outcome == "done" else "failed")


@pytest.mark.parametrize("step", [Step.SUBMIT, Step.CHECK])
def test_an_operation_that_ended_under_the_step_is_not_waited_for(bench: Bench, step: Step):
    """It ends between the step's look and the step's write: the delay must not stand."""
    job = bench.job(step.takes)
    recogniser = LocalRecogniser(bench.client)
    operation = bench.service.operation(job, bench.client)
    if step is Step.CHECK:
        bench.set(job, operation=operation)

    def late(context, job, scratch):
        bench.stop.set()  # due at once, it would be taken again at once
        ended(bench)
        if step is Step.CHECK:
            return Waiting(500)
        return Advanced(Milestone.SUBMITTED, operation, delay=500)

    bench.runner(step, late).poll()
    bench.stop.clear()
    assert bench.row(job)["state"] == "submitted"
    assert bench.pause(job) == 0
    bench.runner(Step.CHECK, recogniser=recogniser).poll()
    assert bench.queue().transcript(job).text == TEXT.text


def test_the_delay_of_a_remote_operation_stays_as_it_is(bench: Bench):
    job = bench.job("normalized")
    bench.runner(Step.SUBMIT, recogniser=Scripted(Finished(TEXT)), check_seconds=30).poll()
    assert 29 < bench.pause(job) <= 30
    with pytest.raises(NoWork):
        bench.queue().claim(Milestone.SUBMITTED, 60)
