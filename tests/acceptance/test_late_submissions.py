"""Who has lost a job submits nothing of it: no operation is made, dropped or taken by a late call.

Every other result of a step is written under its claim's token; so is what submitting makes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.bench import Bench
from tests.acceptance.recogniser_rigs import rig
from worker.engine.operations import HttpOperations
from worker.errors import LeaseLost, PocketBaseRefused
from worker.jobs import Advanced, Job, Milestone, Step, Waiting
from worker.pipeline.steps import run_submit
from worker.recognisers.local import LocalRecogniser

LEASE = 60.0
CALLS: dict[str, dict[str, str]] = {
    "/api/operations": {},
    "/api/operations/take": {"recogniser": "openai"},
}


def claim(bench: Bench, worker: str, state: Milestone = Milestone.NORMALIZED) -> Job:
    [job] = bench.queue(worker).claim(state, LEASE)
    return job


def pass_on(bench: Bench, job: Job) -> Job:
    """The lease runs out, and the job goes to another worker."""
    bench.set(job.id, leased_at="2026-01-01 00:00:00.000Z")
    later = claim(bench, "later")
    assert (later.id, later.lease_token == job.lease_token) == (job.id, False)
    return later


def submit(bench: Bench, path: str, job: Job) -> dict[str, Any]:
    body = {"recording": job.id, "lease_token": job.lease_token, **CALLS[path]}
    return bench.client.request("POST", path, json=body)


def refused(bench: Bench, path: str, job: Job) -> None:
    """It is, as every late write is, and nothing has changed."""
    before = rows(bench)
    with pytest.raises(PocketBaseRefused) as refusal:
        submit(bench, path, job)
    assert (refusal.value.status, refusal.value.error_code) == (409, "lease_lost")
    assert rows(bench) == before


def rows(bench: Bench) -> list[list[dict[str, Any]]]:
    tables = ("jobs", "operations", "segments")
    return [bench.service.rows(f"SELECT * FROM {table} ORDER BY id") for table in tables]


def nothing(bench: Bench, job: Job) -> None:
    pass


def taken(bench: Bench, job: Job) -> None:
    """A remote recogniser's, of which its holder has a piece."""
    row = submit(bench, "/api/operations/take", job)
    for action, body in (("cut", {"units": [[0, 1], [1, 2]]}), ("segments", {"unit": 0})):
        held = {"lease_token": row["lease_token"], "segments": [], **body}
        bench.client.request("POST", f"/api/operations/{row['id']}/{action}", json=held)


def under_way(bench: Bench, job: Job) -> None:
    """The engines'."""
    submit(bench, "/api/operations", job)
    engine = HttpOperations(bench.client, "engine")
    operation = engine.claim()
    assert operation
    engine.cut(operation, [(0.0, 1.0)], "ru")


def failed(bench: Bench, job: Job) -> None:
    under_way(bench, job)
    bench.service.execute("UPDATE operations SET state = 'failed'")


@pytest.mark.parametrize("path", CALLS)
@pytest.mark.parametrize("scene", [nothing, taken, under_way, failed])
def test_a_late_submission_is_refused_and_changes_nothing(
    bench: Bench, path: str, scene: Callable[[Bench, Job], None]
):
    bench.job("normalized")
    first = claim(bench, "first")
    later = pass_on(bench, first)
    scene(bench, later)
    refused(bench, path, first)
    submit(bench, path, later)


@pytest.mark.parametrize("path", CALLS)
def test_a_job_that_got_on_is_submitted_no_more(bench: Bench, path: str):
    """Neither under the claim that submitted it, nor under another one of whatever step."""
    bench.job("normalized")
    job = claim(bench, "first")
    operation = bench.client.request(
        "POST", "/api/operations", json={"recording": job.id, "lease_token": job.lease_token}
    )["operation"]
    bench.queue().write(job, Advanced(Milestone.SUBMITTED, operation))
    refused(bench, path, job)
    checking = claim(bench, "later", Milestone.SUBMITTED)
    refused(bench, path, checking)
    bench.queue().write(checking, Waiting(1.0))
    for token in (bench.row(job.id)["lease_token"] or " ", "x"):
        with pytest.raises(PocketBaseRefused, match="lease_lost"):
            bench.client.request("POST", path, json={
                "recording": job.id, "lease_token": token, **CALLS[path]})  # fmt: skip


@pytest.mark.parametrize("path", CALLS)
def test_what_is_deleted_is_not_found(bench: Bench, path: str):
    bench.job("normalized")
    job = claim(bench, "first")
    for table in ("jobs", "recordings"):
        bench.service.execute(f"DELETE FROM {table}")
    with pytest.raises(PocketBaseRefused) as refusal:
        submit(bench, path, job)
    assert (refusal.value.status, refusal.value.error_code) == (404, "not_found")


def test_the_step_of_who_lost_its_job_ends_as_lost(bench: Bench):
    """The step itself: what it claimed is given out again before it submits."""
    job_id = bench.job("normalized")

    def slow(context, job, scratch):
        pass_on(bench, job)
        return run_submit(context, job, scratch)

    bench.runner(Step.SUBMIT, slow, recogniser=LocalRecogniser(bench.client)).poll()
    assert bench.runs(Step.SUBMIT) == {"lost": 1}
    assert bench.service.rows("SELECT id FROM operations") == []
    row = bench.row(job_id)
    assert (row["state"], row["leased_by"]) == ("normalized", "later")


@pytest.mark.parametrize("name", ["local", "openai"])
def test_a_recogniser_says_that_the_lease_is_lost(name: str, bench: Bench, tmp_path):
    with rig(name, bench, tmp_path) as made:
        bench.hold(made.recording.id)
        with pytest.raises(LeaseLost):
            made.submit()
    assert bench.service.rows("SELECT id FROM operations") == []


@pytest.mark.parametrize("kept", [True, False], ids=["late", "in time"])
def test_what_another_recogniser_began_goes_with_the_submission_and_not_before(
    bench: Bench, kept: bool
):
    """SpeechKit's operations lie with SpeechKit: here they are known by the job's row alone."""
    bench.job("normalized")
    first = claim(bench, "first")
    later = pass_on(bench, first)
    under_way(bench, later)
    elsewhere = Advanced(Milestone.SUBMITTED, "speechkit:x")
    if kept:
        with pytest.raises(LeaseLost):
            bench.queue().write(first, elsewhere)
    else:
        bench.queue().write(later, elsewhere)
        with pytest.raises(LeaseLost):
            bench.queue().write(first, Advanced(Milestone.SUBMITTED, "other"))
    assert len(bench.service.rows("SELECT id FROM operations")) == kept


def test_a_late_removal_leaves_what_a_returned_job_waits_for(bench: Bench):
    """Its end was written; meanwhile the owner had the job wait for it again."""
    job_id = bench.job("submitted")
    operation = bench.service.operation(job_id, bench.client)
    recogniser = LocalRecogniser(bench.client)
    for kept in (operation, f"openai:{operation}"):
        bench.set(job_id, operation=kept)
        recogniser.cancel(operation)
        assert bench.service.rows("SELECT id FROM operations") == [{"id": operation}]
    bench.set(job_id, state="transcribed")
    recogniser.cancel(operation)
    assert bench.service.rows("SELECT id FROM operations") == []


def test_pieces_that_are_too_long_by_now_are_cut_anew(bench: Bench, tmp_path):
    """What was cut is dropped by its holder, under its own lease."""
    with rig("openai", bench, tmp_path) as made:
        body = {"recording": made.recording.id, "lease_token": made.recording.lease_token}
        old = bench.client.request(
            "POST", "/api/operations/take", json=body | {"recogniser": "openai"}
        )
        cut = {"lease_token": old["lease_token"], "units": [[0, 1000, 5]]}
        bench.client.request("POST", f"/api/operations/{old['id']}/cut", json=cut)
        assert made.hand_in() != f"openai:{old['id']}"
    [row] = bench.service.rows("SELECT state, units FROM operations")
    assert row["state"] == "done"
    assert all(end - start <= 11 for start, end, *_ in json.loads(row["units"]))
