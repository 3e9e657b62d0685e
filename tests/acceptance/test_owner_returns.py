"""The owner's `state` and `priority`: what returns a stopped job to work, and what does not."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.acceptance.service import Service, tone
from tests.acceptance.test_owner_edits import JOBS, UPLOADED, form
from tests.acceptance.test_status import claim, normalise
from worker.errors import LeaseLost, NoWork
from worker.jobs import Advanced, Dead, Failed, Milestone, Normalised, Retry


@pytest.mark.scenario("own", "A job at work refuses")
@pytest.mark.parametrize("wanted", ["dead", "failed", "normalized", "done", "nonsense", ""])
def test_a_running_jobs_state_is_not_the_owners(
    shelf: Service, owner: httpx.Client, job_id: str, wanted: str
):
    for held in (False, True):
        if held:
            claim(shelf.queue(), UPLOADED, job_id)
        before = shelf.job(job_id)
        answer = owner.patch(f"{JOBS}/{job_id}", json={"state": wanted})
        assert answer.status_code == 400
        assert "only when it is stopped" in answer.json()["message"]
        assert shelf.job(job_id) == before


@pytest.mark.scenario("pipeline", "Мёртвая задача возвращена в работу")
def test_a_dead_job_goes_back_to_work(shelf: Service, owner: httpx.Client, job_id: str):
    queue = shelf.queue()
    queue.write(claim(queue, UPLOADED, job_id), Dead("gave up after 10 attempts"))
    with pytest.raises((NoWork, ValueError)):
        claim(queue, UPLOADED, job_id)
    answer = owner.patch(f"{JOBS}/{job_id}", json=form(owner, JOBS, job_id) | {"state": "uploaded"})
    assert answer.status_code == 200
    job = claim(queue, UPLOADED, job_id)
    assert job.attempts == 1


@pytest.mark.scenario("own", "Everything that stopped it is cleared")
@pytest.mark.parametrize("stopped", ["failed", "dead"])
@pytest.mark.parametrize("milestone", list(Milestone))
def test_what_is_cleared_when_a_job_goes_back(
    shelf: Service, owner: httpx.Client, job_id: str, stopped: str, milestone: str
):
    shelf.execute(
        "UPDATE jobs SET state = ?, milestone = 'submitted', attempts = 11, sent_back = 4, "
        "not_before = '2100-01-01 00:00:00.000Z', lease_token = 'left', leased_by = 'left', "
        "leased_at = '2026-01-01 00:00:00.000Z', error_text = 'why', operation = 'theirs', "
        "submitted_at = '2026-01-01 00:00:00.000Z' WHERE id = ?",
        stopped,
        job_id,
    )
    if milestone == "done":  # only with a text
        shelf.execute(
            "INSERT INTO transcripts (recording, kind, text) VALUES (?, 'raw', 'said')", job_id
        )
    answer = owner.patch(f"{JOBS}/{job_id}", json={"state": milestone, "note": "again"})
    assert answer.status_code == 200
    job = shelf.job(job_id)
    assert (job["state"], job["milestone"], job["note"]) == (milestone, milestone, "again")
    assert (job["attempts"], job["sent_back"]) == (0, 0)
    cleared = ("not_before", "lease_token", "leased_by", "leased_at", "error_text")
    assert {job[name] for name in cleared} == {""}
    kept = milestone in {"submitted", "transcribed", "done"}
    assert (job["operation"], bool(job["submitted_at"])) == (
        ("theirs", True) if kept else ("", False)
    )


def test_what_the_recogniser_has_of_the_old_attempt_is_gone(
    shelf: Service, owner: httpx.Client, job_id: str, tmp_path: Path
):
    queue = shelf.queue()
    normalise(queue, job_id, tmp_path)
    submitted = claim(queue, Milestone.NORMALIZED, job_id)
    operation = shelf.operation(job_id)
    queue.write(submitted, Advanced(Milestone.SUBMITTED, operation=operation))
    queue.write(claim(queue, Milestone.SUBMITTED, job_id), Failed("the recogniser refused it"))
    assert shelf.rows("SELECT id FROM operations WHERE id = ?", operation)
    assert owner.patch(f"{JOBS}/{job_id}", json={"state": "normalized"}).status_code == 200
    assert not shelf.rows("SELECT id FROM operations WHERE id = ?", operation)
    assert claim(queue, Milestone.NORMALIZED, job_id).operation == ""


def test_a_step_that_lost_the_stopped_job_cannot_write_into_its_new_life(
    shelf: Service, owner: httpx.Client, job_id: str
):
    queue = shelf.queue()
    late = claim(queue, UPLOADED, job_id)
    shelf.execute("UPDATE jobs SET state = 'dead' WHERE id = ?", job_id)
    assert owner.patch(f"{JOBS}/{job_id}", json={"state": "uploaded"}).status_code == 200
    with pytest.raises(LeaseLost):
        queue.write(late, Advanced(Milestone.NORMALIZED))
    assert shelf.job(job_id)["state"] == "uploaded"


def test_a_pause_cannot_be_skipped_but_a_priority_can_be_given(own: Service, tmp_path: Path):
    own.start("pb", "media")
    user, owner, queue = own.user(), own.owner, own.queue()
    first, second, third = (user.upload(tone(tmp_path, seconds=0.1)) for _ in range(3))
    assert owner.patch(f"{JOBS}/{third}", json={"priority": 5}).status_code == 200
    assert owner.patch(f"{JOBS}/{first}", json={"priority": -1}).status_code == 200
    claimed = [queue.claim(UPLOADED, 60)[0] for _ in range(3)]
    assert [job.id for job in claimed] == [third, second, first]
    queue.write(claimed[0], Retry(3600, "not now"))
    assert owner.patch(f"{JOBS}/{third}", json={"not_before": ""}).status_code == 200
    with pytest.raises(NoWork):
        queue.claim(UPLOADED, 60)


def test_a_claim_survives_any_number_as_a_priority(own: Service, tmp_path: Path):
    """One with a fraction failed every claim of its state; the panel takes whole numbers only."""
    own.start("pb", "media")
    user, owner, queue = own.user(), own.owner, own.queue()
    priorities = {user.upload(tone(tmp_path)): each for each in (-1e30, 0.25, 0.5, 1e30)}
    for job, priority in priorities.items():
        assert owner.patch(f"{JOBS}/{job}", json={"priority": priority}).status_code == 400
        own.execute("UPDATE jobs SET priority = ? WHERE id = ?", priority, job)
    jobs = queue.claim(UPLOADED, 60, 8)
    assert [priorities[job.id] for job in jobs] == [1e30, 0.5, 0.25, -1e30]
    queue.write(jobs[1], Normalised(tone(tmp_path, "normalized.flac"), 1.0, "wav"))
    [job] = queue.claim(Milestone.NORMALIZED, 60)
    queue.write(job, Advanced(Milestone.SUBMITTED, own.operation(job.id)))
    assert user.status(job.id)["progress"] == 0
    claim = {"worker": "test", "lease_seconds": 60}
    claimed = own.client().request("POST", "/api/operations/claim", json=claim)
    assert [each["recording"] for each in claimed["operations"]] == [job.id]
