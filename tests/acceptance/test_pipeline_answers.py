"""Answers to senders: after the state is saved, once, and a failure to deliver undoes nothing."""

from __future__ import annotations

import pytest

from tests.acceptance.bench import TEXT, Bench, Lines, Sender
from worker.jobs import Failed, Job, Milestone, Step
from worker.notify import Undelivered

SECRET = "секрет переписки"


def texted(bench: Bench, **columns) -> str:
    """A job from Telegram whose text is there, at the step that answers."""
    job = bench.job("transcribed", "telegram", **columns)
    bench.service.execute(
        """INSERT INTO transcripts (id, recording, kind, text, segments, language, created, updated)
           VALUES (?, ?, 'raw', ?, '[]', 'ru', '', '')""",
        job,
        job,
        SECRET,
    )
    return job


def settled(bench: Bench, job: str) -> None:
    row = bench.row(job)
    assert row["state"] == row["milestone"] == "done"
    assert row["not_before"] == row["error_text"] == row["lease_token"] == ""
    assert row["attempts"] == 0
    assert bench.runs(Step.FINISH) == {"ok": 1}


@pytest.mark.scenario("pipeline", "Вход отправителя не поднят")
def test_an_input_that_is_off_costs_the_answer_and_nothing_else(bench: Bench, lines: Lines):
    job = texted(bench, chat_id="77", message_id="1")
    bench.runner(Step.FINISH, telegram=None).poll()
    settled(bench, job)
    [line] = lines.at("WARNING", "ERROR")
    assert line["level"].name == "WARNING"
    assert line["extra"] == {"job_id": job, "reason": "input_down"}
    assert bench.undelivered == ["input_down"]
    assert SECRET not in lines.text()


@pytest.mark.scenario("pipeline", "Адресат у задачи не назван")
def test_a_telegram_job_without_a_chat_is_an_error_in_the_log(bench: Bench, lines: Lines):
    sender = Sender()
    job = texted(bench, chat_id="")
    bench.runner(Step.FINISH, telegram=sender).poll()
    settled(bench, job)
    [line] = lines.at("WARNING", "ERROR")
    assert line["level"].name == "ERROR"
    assert line["extra"] == {"job_id": job, "reason": "no_addressee"}
    assert bench.undelivered == ["no_addressee"]
    assert sender.told == []
    assert SECRET not in lines.text()


def test_no_chat_and_no_input_is_the_spoilt_record(bench: Bench, lines: Lines):
    """With both reasons at hand, the one that is a symptom must not drown in the declared one."""
    texted(bench, chat_id="")
    bench.runner(Step.FINISH, telegram=None).poll()
    assert bench.undelivered == ["no_addressee"]
    assert [line["level"].name for line in lines.at("WARNING", "ERROR")] == ["ERROR"]


@pytest.mark.scenario("pipeline", "Отвечать некуда, потому что запись пришла не из Telegram")
def test_who_came_by_http_is_sent_nothing_and_nothing_is_missed(bench: Bench, lines: Lines):
    sender = Sender()
    job = bench.job("submitted", operation="remote")
    bench.runner(Step.CHECK, telegram=sender).poll()
    bench.runner(Step.FINISH, telegram=sender).poll()
    settled(bench, job)
    assert bench.queue().transcript(job) == TEXT
    assert sender.told == []
    assert bench.undelivered == []
    assert lines.at("WARNING", "ERROR") == []


def test_the_answer_goes_out_after_the_state_is_saved(bench: Bench):
    states = []

    class Looking(Sender):
        def deliver(self, job: Job, kind):
            states.append(bench.row(job.id)["state"])
            super().deliver(job, kind)

    sender = Looking()
    done = texted(bench, chat_id="7", message_id="1")
    bench.runner(Step.FINISH, telegram=sender).poll()
    refused = bench.job("normalized", "telegram", chat_id="7", message_id="2")
    bench.runner(Step.SUBMIT, lambda *_: Failed("refused"), telegram=sender).poll()
    assert states == ["done", "failed"]
    assert sender.told == [(done, "text"), (refused, "failure")]


@pytest.mark.parametrize(
    ("error", "reason", "level"),
    [
        (Undelivered("x", "blocked"), "blocked", "WARNING"),
        (RuntimeError("connection reset"), "error", "ERROR"),
    ],
)
def test_a_delivery_that_fails_does_not_touch_the_job(bench: Bench, lines, error, reason, level):
    class Broken:
        def deliver(self, job, kind):
            raise error

    job = texted(bench, chat_id="7", message_id="1")
    runner = bench.runner(Step.FINISH, telegram=Broken())
    runner.poll()
    settled(bench, job)
    runner.poll()
    assert bench.undelivered == [reason], "told once, and not again later"
    assert [
        (line["level"].name, line["extra"]["job_id"]) for line in lines.at("WARNING", "ERROR")
    ] == [(level, job)]


def test_only_the_last_step_answers(bench: Bench):
    """A sender of a job under way hears nothing."""
    sender = Sender()
    job = bench.job("submitted", "telegram", chat_id="7", message_id="1", operation="remote")
    bench.runner(Step.CHECK, telegram=sender).poll()
    assert bench.row(job)["state"] == Milestone.TRANSCRIBED
    assert sender.told == []
