"""Between a worker and PocketBase anything may get lost: nothing of a job does."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.acceptance.bench import TEXT, Bench, Lines, Scripted, Sender
from tests.acceptance.service import wait_until
from worker.errors import PocketBaseUnavailable
from worker.jobs import Advanced, Milestone, Normalised, Step
from worker.pipeline.runner import Runner
from worker.pocketbase.queue import Queue

LOG_IN = "/api/collections/workers/auth-with-password"


@contextmanager
def running(bench: Bench, runner: Runner) -> Iterator[None]:
    thread = threading.Thread(target=runner.run)
    thread.start()
    try:
        yield
    finally:
        bench.stop.set()
        thread.join(20)
        assert not thread.is_alive()


def test_a_result_whose_answer_was_lost_counts_once(bench: Bench, proxy, far, lines: Lines):
    """Written, the answer lost, written again: one state, one text, one answer to the sender."""
    sender = Sender()
    job = bench.job("submitted", "telegram", chat_id="7", message_id="1", operation="remote")
    proxy.drop_answers("/api/queue/finish")
    bench.runner(Step.CHECK, queue=far, telegram=sender).poll()
    assert proxy.drops_left == 0
    assert bench.row(job)["state"] == "transcribed"
    assert bench.queue().transcript(job) == TEXT

    proxy.drop_answers("/api/queue/finish", times=2)
    bench.runner(Step.FINISH, queue=far, telegram=sender).poll()
    assert proxy.drops_left == 0
    assert bench.row(job)["state"] == "done"
    assert sender.told == [(job, "text")]
    assert bench.runs(Step.CHECK) == {"ok": 1}
    assert bench.runs(Step.FINISH) == {"ok": 1}
    assert proxy.requests["/api/queue/finish"] == 5
    # Each absence is told once, and its end.
    texts = [line["message"] for line in lines.owners]
    away, back = "pocketbase is away, waiting for it", "pocketbase is back"
    assert texts == [away, back, "check ok", away, back, "finish ok"]


def test_audio_whose_answer_was_lost_is_stored_once(bench: Bench, proxy, far):
    job = bench.job()
    audio = bench.folder / "audio.flac"
    audio.write_bytes(b"normalised")
    proxy.drop_answers(f"/api/queue/normalized/{job}")
    bench.runner(Step.NORMALISE, lambda *_: Normalised(audio, 12.5, "wav"), queue=far).poll()
    assert proxy.drops_left == 0
    assert bench.row(job)["state"] == "normalized"
    [recording] = bench.service.rows("SELECT * FROM recordings WHERE id = ?", job)
    assert recording["duration"] == 12.5
    stored = [file for file in bench.service.stored_files() if file.parent.name == job]
    assert sorted(file.name for file in stored) == sorted(["a.wav", recording["normalized"]])
    assert (stored[0].parent / recording["normalized"]).read_bytes() == b"normalised"
    assert bench.runs(Step.NORMALISE) == {"ok": 1}


def test_a_claim_whose_answer_was_lost_is_given_back_soon(bench: Bench, proxy, far, lines: Lines):
    """Long before its lease ends: the same worker asks again and is handed it."""
    job = bench.job()
    far.transcript("nobody")  # the session comes first, so that it is the claim that loses
    proxy.drop_answers("/api/queue/claim")
    runner = bench.runner(Step.NORMALISE, lambda *_: Advanced(Milestone.NORMALIZED), queue=far)
    started = time.monotonic()
    with running(bench, runner):
        wait_until(lambda: bench.row(job)["state"] == "normalized", 10)
    assert time.monotonic() - started < 5
    assert proxy.drops_left == 0
    assert bench.row(job)["attempts"] == 0
    assert [line["level"].name for line in lines.owners] == ["WARNING", "INFO", "INFO"]


def test_a_claim_that_is_carried_out_late_is_given_back_as_well(bench: Bench, far, monkeypatch):
    """PocketBase was stopped with claims on their way, and does them after it was asked again."""
    monkeypatch.setattr("worker.pipeline.runner.GIVE_BACK_EVERY", 0.5)
    runner = bench.runner(Step.NORMALISE, lambda *_: Advanced(Milestone.NORMALIZED), queue=far)
    runner.poll()  # has given back what there was
    job = bench.job()
    [late] = Queue(bench.client, far.worker).claim(Milestone.UPLOADED, 3600)
    assert late.id == job
    with running(bench, runner):
        wait_until(lambda: bench.row(job)["state"] == "normalized", 10)
    assert bench.row(job)["attempts"] == 0


def test_what_a_worker_is_busy_with_is_not_given_back_by_its_neighbours(bench: Bench, far):
    """Threads hold under names of their own: one that lost an answer frees nothing of another's."""
    mine, other = bench.job(), bench.job()
    [held] = bench.queue("normalise-0@test").claim(Milestone.UPLOADED, 60)
    [kept] = bench.queue("normalise-1@test").claim(Milestone.UPLOADED, 60)
    assert {held.id, kept.id} == {mine, other}
    assert bench.queue("normalise-0@test").give_back() == 1
    assert bench.row(held.id)["lease_token"] == ""
    assert bench.row(kept.id)["lease_token"] == kept.lease_token
    assert bench.queue("normalise-1@test").give_back(keep=[kept.lease_token]) == 0
    assert bench.row(kept.id)["lease_token"] == kept.lease_token


def test_no_line_to_pocketbase_is_waited_out_with_one_word(bench: Bench, proxy, far, lines: Lines):
    """Refused connections, then back: said once, and the work goes on."""
    runner = bench.runner(Step.NORMALISE, lambda *_: Advanced(Milestone.NORMALIZED), queue=far)
    with running(bench, runner):
        wait_until(lambda: proxy.requests["/api/queue/claim"] >= 2)
        proxy.cut()
        wait_until(lambda: lines.at("WARNING"))
        job = bench.job()
        time.sleep(2.5)  # the absence itself: long enough for several tries
        proxy.heal()
        wait_until(lambda: bench.row(job)["state"] == "normalized", 15)
    assert [line["message"] for line in lines.owners] == [
        "pocketbase is away, waiting for it",
        "pocketbase is back",
        "normalise ok",
    ]
    assert bench.runs(Step.NORMALISE) == {"ok": 1}, "an absence is no run"


def test_a_worker_logs_in_again_when_its_session_ends(bench: Bench, proxy, far):
    """The secret of all sessions changes, as it does for an expired one: nothing to notice."""
    job = bench.job()
    runner = bench.runner(Step.NORMALISE, lambda *_: Advanced(Milestone.NORMALIZED), queue=far)
    runner.poll()
    assert bench.row(job)["state"] == "normalized"
    assert proxy.requests[LOG_IN] == 1
    answer = bench.service.owner.patch(
        "/api/collections/workers", json={"authToken": {"secret": "another secret of all " * 3}}
    )
    assert answer.status_code == 200, answer.text
    later = bench.job()
    runner.poll()
    assert bench.row(later)["state"] == "normalized"
    assert proxy.requests[LOG_IN] == 2
    for _ in range(3):
        bench.job()
        runner.poll()
    assert proxy.requests[LOG_IN] == 2, "not once a job"


def test_a_session_that_ends_while_a_step_works_costs_nothing(bench: Bench, far):
    job = bench.job()

    def step(context, job, scratch):
        bench.service.owner.patch(
            "/api/collections/workers", json={"authToken": {"secret": "a third secret of all " * 3}}
        )
        audio = scratch / "audio.flac"
        audio.write_bytes(b"normalised")
        return Normalised(audio, 5.0, "wav")

    bench.runner(Step.NORMALISE, step, queue=far).poll()
    assert bench.row(job)["state"] == "normalized"
    assert bench.runs(Step.NORMALISE) == {"ok": 1}


def test_a_worker_whose_clock_is_an_hour_off_changes_nothing(
    bench: Bench, proxy, far, monkeypatch: pytest.MonkeyPatch
):
    """Cases: no worker sends a time, so its clock cannot matter."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    recogniser = Scripted()
    job = bench.job("normalized")
    bench.runner(Step.SUBMIT, lambda *_: 1 / 0, queue=far, backoff_seconds=10).poll()
    assert 9 < bench.pause(job) <= 11
    bench.due(job)
    bench.runner(Step.SUBMIT, recogniser=recogniser, queue=far, check_seconds=20).poll()
    assert 19 < bench.pause(job) <= 20
    bench.due(job)
    bench.runner(Step.CHECK, recogniser=recogniser, queue=far).poll()
    bench.runner(Step.FINISH, queue=far).poll()
    assert bench.row(job)["state"] == "done"
    [leased] = bench.service.rows(
        "SELECT max(updated) < strftime('%Y-%m-%d %H:%M:%fZ') ok FROM jobs"
    )
    assert leased["ok"]

    sent = bytes(proxy.sent)
    assert b"lease_seconds" in sent
    assert b"pause" in sent
    assert not re.search(rb"20\d\d-\d\d-\d\d|\b1[789]\d{8}\b", sent)


@pytest.mark.parametrize("answer", [b"<html>Bad gateway, but 200</html>", b""])
def test_something_else_at_the_address_is_waited_out(bench: Bench, far, proxy, monkeypatch, answer):
    """A proxy's page with status 200 is an absence, not the end of the process."""
    far.transcript("nobody")
    real = far._client._wire.send
    monkeypatch.setattr(
        far._client._wire,
        "send",
        lambda *args, **named: replace(real(*args, **named), content=answer),
    )
    with pytest.raises(PocketBaseUnavailable):
        far.claim(Milestone.UPLOADED, 60)
