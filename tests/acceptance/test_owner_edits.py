"""The owner's hand in the panel: what an edit may change, and what no edit can undo."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.service import Service, User, tone, wait_until
from tests.acceptance.test_status import claim, normalise, transcribe
from worker.errors import LeaseLost
from worker.jobs import (
    Advanced,
    Dead,
    Failed,
    Milestone,
    Normalised,
    Released,
    Retry,
    Transcript,
    Waiting,
)

QUEUE_COLUMNS = (
    "recording", "milestone", "attempts", "lease_token", "leased_at", "leased_by", "not_before",
    "operation", "submitted_at", "sent_back", "written_token", "error_text", "chat_id",
    "thread_id", "message_id", "created",
)  # fmt: skip
UPLOADED = Milestone.UPLOADED
JOBS = "/api/collections/jobs/records"
RECORDINGS = "/api/collections/recordings/records"


def form(owner: httpx.Client, path: str, job_id: str) -> dict[str, Any]:
    """The record as the panel's form has it, every field of it."""
    answer = owner.get(f"{path}/{job_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def queue_columns(service: Service, job_id: str) -> dict[str, Any]:
    job = service.job(job_id)
    return {name: job[name] for name in QUEUE_COLUMNS}


def multiply(service: Service, job_id: str, times: int) -> None:
    """More jobs like this one, under ids of their own."""
    for table in ("recordings", "jobs"):
        names = [
            row["name"] for row in service.rows(f"SELECT name FROM pragma_table_info('{table}')")
        ]
        values = [
            "format('racing%09d', n.value)" if name in {"id", "recording"} else f"t.{name}"
            for name in names
        ]
        service.execute(
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)} "
            f"FROM {table} t, (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL "
            "SELECT value + 1 FROM n WHERE value < ?) SELECT value FROM n) n WHERE t.id = ?",
            times,
            job_id,
        )


# While steps work


@pytest.mark.scenario("pipeline", "Правка владельца пережила сохранение шага")
def test_an_edit_survives_the_steps_save(
    shelf: Service, owner: httpx.Client, job_id: str, tmp_path: Path
):
    queue = shelf.queue()
    job = claim(queue, UPLOADED, job_id)
    edit = {"title": "a better title", "vocabulary": "PocketBase"}
    assert owner.patch(f"{RECORDINGS}/{job_id}", json=edit).status_code == 200
    assert owner.patch(f"{JOBS}/{job_id}", json={"note": "mine", "priority": 3}).status_code == 200
    queue.write(job, Normalised(tone(tmp_path, "normalized.flac"), 1.0, "wav"))
    after = shelf.job(job_id)
    assert (after["state"], after["attempts"], after["lease_token"]) == ("normalized", 0, "")
    assert (after["note"], after["priority"]) == ("mine", 3)
    [recording] = shelf.rows("SELECT * FROM recordings WHERE id = ?", job_id)
    assert recording["normalized"].endswith(".flac")
    assert {name: recording[name] for name in edit} == edit


def test_an_old_form_of_a_recording_undoes_no_step(
    shelf: Service, owner: httpx.Client, job_id: str, tmp_path: Path
):
    old = form(owner, RECORDINGS, job_id)
    normalise(shelf.queue(), job_id, tmp_path)
    [before] = shelf.rows("SELECT * FROM recordings WHERE id = ?", job_id)
    old |= {"title": "late", "normalized": "", "duration": 99, "owner": "", "source": "telegram"}
    assert owner.patch(f"{RECORDINGS}/{job_id}", json=old).status_code == 200
    [after] = shelf.rows("SELECT * FROM recordings WHERE id = ?", job_id)
    assert after["title"] == "late"
    assert before | {"title": "", "updated": ""} == after | {"title": "", "updated": ""}
    assert shelf.client().download(f"/api/queue/audio/{job_id}/normalized", tmp_path / "x") > 0


def test_claims_racing_with_edits_are_not_lost(own: Service, tmp_path: Path):
    """300 claims while the owner saves other columns of the same jobs without a pause."""
    own.start("pb", "media")
    first = own.user().upload(tone(tmp_path, seconds=0.1))
    multiply(own, first, 299)
    ids = [row["id"] for row in own.rows("SELECT id FROM jobs ORDER BY id")]
    assert len(ids) == 300
    stop, edits, faults = threading.Event(), Counter[str](), []
    tokens: dict[str, str] = {}

    def edit(ahead: int, owner: httpx.Client) -> None:
        """Save the jobs that are just about to be claimed, where the race is."""
        while not stop.is_set():
            job_id = ids[min(len(tokens) + ahead, 299)]
            for path, body in ((JOBS, {"note": "edited"}), (RECORDINGS, {"title": "edited"})):
                answer = owner.patch(f"{path}/{job_id}", json=body)
                edits[path] += 1
                if answer.status_code != 200:
                    faults.append(answer.text)

    editors = [threading.Thread(target=edit, args=(ahead, own.owner)) for ahead in range(4)]
    for each in editors:
        each.start()
    try:
        queue = own.queue()
        while len(tokens) < 300:
            for job in queue.claim(UPLOADED, 600):
                assert job.id not in tokens
                tokens[job.id] = job.lease_token
    finally:
        stop.set()
        for each in editors:
            each.join()
    assert not faults
    assert min(edits[JOBS], edits[RECORDINGS]) > 20, edits
    rows = own.rows("SELECT id, lease_token, attempts, leased_by FROM jobs")
    assert {row["id"]: row["lease_token"] for row in rows} == tokens
    assert {(row["attempts"], row["leased_by"]) for row in rows} == {(1, "test")}


# Old forms


@pytest.mark.scenario("own", "An old form is refused")
def test_an_old_form_of_a_job_is_refused(shelf: Service, owner: httpx.Client, job_id: str):
    old = form(owner, JOBS, job_id)
    shelf.queue().write(claim(shelf.queue(), UPLOADED, job_id), Advanced(Milestone.NORMALIZED))
    before = shelf.job(job_id)
    answer = owner.patch(f"{JOBS}/{job_id}", json=old | {"note": "late"})
    assert answer.status_code == 400
    assert "Reload it" in answer.json()["message"]
    assert shelf.job(job_id) == before
    fresh = form(owner, JOBS, job_id)
    assert owner.patch(f"{JOBS}/{job_id}", json=fresh | {"note": "now"}).status_code == 200
    assert shelf.job(job_id)["note"] == "now"

    # As the parts of a form, too.
    parts = {"note": (None, "parts"), "updated": (None, fresh["updated"])}
    assert owner.patch(f"{JOBS}/{job_id}", files=parts).status_code == 400
    parts["updated"] = (None, shelf.job(job_id)["updated"])
    assert owner.patch(f"{JOBS}/{job_id}", files=parts).status_code == 200
    assert shelf.job(job_id)["note"] == "parts"


def test_a_job_that_is_merely_polled_makes_no_form_old(
    shelf: Service, owner: httpx.Client, job_id: str
):
    """An owner needs longer for a form than there is between two checks of an operation."""
    open_form = form(owner, JOBS, job_id)
    queue = shelf.queue()
    for outcome in (Waiting(0), Retry(0, "not yet"), Released()):
        queue.write(claim(queue, UPLOADED, job_id), outcome)
    job = claim(queue, UPLOADED, job_id)
    before = queue_columns(shelf, job_id)
    answer = owner.patch(f"{JOBS}/{job_id}", json=open_form | {"note": "in time", "priority": 3})
    assert answer.status_code == 200, answer.text
    assert queue_columns(shelf, job_id) == before
    assert before["lease_token"] == job.lease_token
    assert (shelf.job(job_id)["note"], shelf.job(job_id)["priority"]) == ("in time", 3)


def test_a_stopped_job_is_not_done_without_a_text(shelf: Service, owner: httpx.Client, job_id: str):
    queue = shelf.queue()
    queue.write(claim(queue, UPLOADED, job_id), Failed("no audio"))
    before = shelf.job(job_id)
    answer = owner.patch(f"{JOBS}/{job_id}", json={"state": "done"})
    assert answer.status_code == 400
    assert "no text" in answer.json()["message"]
    assert shelf.job(job_id) == before


def test_an_old_form_cannot_revive_a_dead_job(shelf: Service, owner: httpx.Client, job_id: str):
    old = form(owner, JOBS, job_id)
    shelf.queue().write(claim(shelf.queue(), UPLOADED, job_id), Dead("gave up"))
    answer = owner.patch(f"{JOBS}/{job_id}", json=old | {"note": "late"})
    assert answer.status_code == 400
    assert shelf.job(job_id)["state"] == "dead"


def test_without_a_mark_of_time_no_column_of_the_queues_passes(
    shelf: Service, owner: httpx.Client, job_id: str
):
    claim(shelf.queue(), UPLOADED, job_id)
    before = queue_columns(shelf, job_id)
    for name in QUEUE_COLUMNS:
        value: Any = 77 if isinstance(before[name], int) else "forged"
        value = {"milestone": "done", "leased_at": "", "not_before": "2100-01-01"}.get(name, value)
        owner.patch(f"{JOBS}/{job_id}", json={name: value, "note": name})
        assert queue_columns(shelf, job_id) == before, name
    everything = dict.fromkeys(QUEUE_COLUMNS, "") | {
        "recording": job_id,
        "note": "all",
        "priority": 1,
    }
    assert owner.patch(f"{JOBS}/{job_id}", json=everything).status_code == 200
    assert queue_columns(shelf, job_id) == before
    assert (shelf.job(job_id)["note"], shelf.job(job_id)["priority"]) == ("all", 1)


# Making and removing


def test_jobs_and_recordings_are_made_by_the_intake_alone(
    shelf: Service, owner: httpx.Client, job_id: str
):
    row = {"recording": job_id, "state": "uploaded", "milestone": "uploaded"}
    made = owner.post(JOBS, json=row)
    assert (made.status_code, "handing in" in made.json()["message"]) == (400, True)
    made = owner.post(RECORDINGS, json={"source": "http"})
    assert (made.status_code, "handing them in" in made.json()["message"]) == (400, True)
    removed = owner.delete(f"{JOBS}/{job_id}")
    assert (removed.status_code, "delete the recording" in removed.json()["message"]) == (400, True)
    assert shelf.job(job_id)["state"] == "uploaded"


def test_other_ways_of_saving_are_guarded_as_well(own: Service, tmp_path: Path):
    """PocketBase's batch route, switched on, goes through the same guards."""
    own.start("pb", "media")
    owner, job_id = own.owner, own.user().upload(tone(tmp_path))
    switched = owner.patch(
        "/api/settings", json={"batch": {"enabled": True, "maxRequests": 10, "timeout": 3}}
    )
    assert switched.status_code == 200
    [job] = own.queue().claim(UPLOADED, 60)
    before = own.job(job_id)

    def batch(method: str, url: str, body: dict[str, Any]) -> httpx.Response:
        return owner.post(
            "/api/batch", json={"requests": [{"method": method, "url": url, "body": body}]}
        )

    row = {"recording": job_id, "state": "uploaded", "milestone": "uploaded"}
    for method, url, body in (
        ("PATCH", f"{JOBS}/{job_id}", {"state": "done"}),
        ("PATCH", f"{JOBS}/{job_id}", {"updated": "2026-01-01 00:00:00.000Z"}),
        ("PUT", JOBS, {"id": job_id, "state": "dead"}),
        ("DELETE", f"{JOBS}/{job_id}", {}),
        ("POST", JOBS, row),
        ("PUT", JOBS, row | {"id": "abcdefghijklmno"}),
        ("POST", RECORDINGS, {"source": "http"}),
    ):
        assert batch(method, url, body).status_code == 400, (method, url, body)
        assert own.job(job_id) == before
    assert batch("PATCH", f"{JOBS}/{job_id}", {"lease_token": "", "note": "x"}).status_code == 200
    assert own.job(job_id)["lease_token"] == job.lease_token
    assert own.job(job_id)["note"] == "x"


def test_a_deleted_recording_takes_everything_of_it_along(
    shelf: Service, owner: httpx.Client, user: User, tmp_path: Path
):
    kept, job_id = (user.upload(tone(tmp_path)) for _ in range(2))
    queue = shelf.queue()
    transcribe(queue, job_id, tmp_path, Transcript("text", [], "ru", "test"))
    operation = shelf.operation(job_id)
    shelf.execute(
        "INSERT INTO segments (operation, unit, segments) VALUES (?, 0, '[]')",
        operation,
    )
    held = claim(queue, Milestone.TRANSCRIBED, job_id)
    assert owner.delete(f"{RECORDINGS}/{job_id}").status_code == 204
    for table, column in (
        ("recordings", "id"),
        ("jobs", "recording"),
        ("transcripts", "recording"),
        ("operations", "recording"),
    ):
        assert not shelf.rows(f"SELECT id FROM {table} WHERE {column} = ?", job_id), table
    assert not shelf.rows("SELECT id FROM segments WHERE operation = ?", operation)
    storage = shelf.data / "pocketbase" / "storage"
    wait_until(lambda: not list(storage.glob(f"*/{job_id}")), 10, "the files' end")
    assert list(storage.glob(f"*/{kept}/*"))
    with pytest.raises(LeaseLost):
        queue.write(held, Advanced(Milestone.DONE))
    assert user.http.get(f"/api/status/{job_id}").status_code == 404
