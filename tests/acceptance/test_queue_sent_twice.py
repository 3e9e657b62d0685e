"""Calls whose answer was lost come again, or come late, and change nothing that came after them."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.bench import TEXT, Bench
from worker.errors import PocketBaseRefused
from worker.jobs import Advanced, Failed, Milestone, Normalised, Outcome

ANSWERS = "/api/queue/answers"


def test_a_result_that_comes_again_leaves_the_owners_edit_of_its_text(bench: Bench):
    """Until the next result of the job, and of a job that is done for ever."""
    job_id = bench.job("submitted")
    queue, owner = bench.queue(), bench.service.owner
    for state, outcome in (
        (Milestone.SUBMITTED, Advanced(Milestone.TRANSCRIBED, transcript=TEXT)),
        (Milestone.TRANSCRIBED, Advanced(Milestone.DONE, transcript=TEXT)),
    ):
        [job] = queue.claim(state, 60)
        queue.write(job, outcome)
        [row] = bench.service.rows("SELECT id FROM transcripts WHERE recording = ?", job_id)
        path = f"/api/collections/transcripts/records/{row['id']}"
        assert owner.patch(path, json={"text": "put right"}).status_code == 200
        queue.write(job, outcome)
        text = queue.transcript(job_id)
        assert text is not None
        assert text.text == "put right"


def test_normalised_audio_that_comes_again_leaves_the_file_in_use(bench: Bench, tmp_path: Path):
    job_id = bench.job("uploaded")
    file = tmp_path / "normalized.flac"
    file.write_bytes(b"sound")
    [job] = bench.queue().claim(Milestone.UPLOADED, 60)
    stored = []
    for duration in (2.0, 3.0):
        bench.queue().write(job, Normalised(file, duration, "wav"))
        stored += bench.service.rows("SELECT normalized, duration FROM recordings")
    assert stored[0] == stored[1]
    names = {path.name for path in bench.file(job_id, "a.wav").parent.iterdir()}
    assert {name for name in names if name.endswith(".flac")} == {stored[0]["normalized"]}


# Answers


def told(bench: Bench, chat: str = "7") -> str:
    """A job that has just failed, its sender to be told of it; the job's id."""
    bench.service.execute("DELETE FROM answers")
    job_id = bench.job("uploaded", "telegram", chat_id=chat, message_id="1")
    [job] = bench.queue().claim(Milestone.UPLOADED, 60)
    bench.queue().write(job, Failed("no audio"))
    return job_id


def claim(bench: Bench, worker: str = "teller") -> list[dict[str, Any]]:
    body = {"worker": worker, "lease_seconds": 300, "count": 5}
    answers: list[dict[str, Any]] = bench.client.request("POST", f"{ANSWERS}/claim", json=body)[
        "answers"
    ]
    return answers


def write(bench: Bench, answer: dict[str, Any], outcome: str, begun: int, sent: int, **more):
    body = {"lease_token": answer["lease_token"], "begun": begun, "sent": sent, "unsure": 0}
    path = f"{ANSWERS}/write/{answer['id']}"
    bench.client.request("POST", path, json=body | {"outcome": outcome} | more)


def test_what_became_of_an_answer_may_be_written_again(bench: Bench):
    """It was taken for a lost lease, and what was not delivered was neither logged nor counted."""
    told(bench)
    for outcome, more in (
        ("later", {"pause": 0, "failing": True}),
        ("ended", {"state": "undelivered", "reason": "blocked"}),
    ):
        [answer] = claim(bench)
        write(bench, answer, outcome, 0, 0, **more)
        before = bench.service.rows("SELECT * FROM answers")
        write(bench, answer, outcome, 0, 0, **more)
        assert bench.service.rows("SELECT * FROM answers") == before
    assert (before[0]["state"], before[0]["reason"]) == ("undelivered", "blocked")
    with pytest.raises(PocketBaseRefused, match="409"):
        write(bench, answer | {"lease_token": "another"}, "ended", 0, 0, state="sent", reason="")


def test_a_late_note_does_not_have_a_message_sent_twice(bench: Bench):
    """The first message is noted; the note comes once more when the second is on its way."""
    told(bench)
    [answer] = claim(bench)
    write(bench, answer, "begun", 1, 0)
    write(bench, answer, "begun", 2, 1)
    with pytest.raises(PocketBaseRefused, match="409"):
        write(bench, answer, "begun", 1, 0)
    [row] = bench.service.rows("SELECT begun, sent FROM answers")
    assert (row["begun"], row["sent"]) == (2, 1)


def test_an_answer_that_a_killed_process_held_is_closed_with_the_rest(bench: Bench):
    """Nobody gives it back where the input is off now: it stayed pending for ever."""
    job_id = told(bench)
    [answer] = claim(bench)
    closing = {"reason": "input_down"}
    one = bench.client.request("POST", f"{ANSWERS}/close", json=closing | {"recording": job_id})
    assert one["closed"] == [], "it is being sent"
    closed = bench.client.request("POST", f"{ANSWERS}/close", json=closing | {"all": True})
    assert closed["closed"] == [{"recording": job_id, "chat_id": "7"}]
    [row] = bench.service.rows("SELECT state, reason, lease_token FROM answers")
    assert (row["state"], row["reason"], row["lease_token"]) == ("undelivered", "input_down", "")
    with pytest.raises(PocketBaseRefused, match="409"):
        write(bench, answer, "begun", 1, 0)


# The owner


@pytest.mark.parametrize("outcome", [Failed("no audio"), Advanced(Milestone.NORMALIZED)])
def test_an_edit_that_waits_for_a_result_touches_nothing_of_it(bench: Bench, outcome: Outcome):
    """The request finds the job at work; when its turn to write comes, the job has moved on."""
    owner, queue = bench.service.owner, bench.queue()
    job_id = bench.job("uploaded")
    [job] = queue.claim(Milestone.UPLOADED, 60)
    answers: list[httpx.Response] = []
    path = f"/api/collections/jobs/records/{job_id}"
    edit = {"note": "mine", "priority": 3}
    threads = [
        threading.Thread(target=lambda: queue.write(job, outcome)),
        threading.Thread(target=lambda: answers.append(owner.patch(path, json=edit))),
    ]
    with bench.service.database() as database:
        database.execute("BEGIN IMMEDIATE")  # nobody else writes meanwhile
        for thread in threads:
            thread.start()
            time.sleep(0.3)  # if one comes later than that, the test proves less and still passes
        database.rollback()
    for thread in threads:
        thread.join()
    assert answers[0].status_code == 200, answers[0].text
    row = bench.row(job_id)
    assert {name: row[name] for name in edit} == edit
    assert (row["state"], row["attempts"]) in {("failed", 1), ("normalized", 0)}
