"""Runs of a step: an empty one is nothing, a failed one is seen, attempts and pauses add up."""

from __future__ import annotations

import pytest

from tests.acceptance.bench import TEXT, Bench, Lines, Scripted, Sender
from tests.acceptance.proxy import Proxy
from tests.acceptance.service import Service, tone, wait_until
from worker.errors import NoWork, RecogniserUnavailable, TranscriberError
from worker.jobs import Advanced, Milestone, Step
from worker.pocketbase.queue import Queue
from worker.recognisers.base import Finished, Running


def normalised(context, job, scratch):
    return Advanced(Milestone.NORMALIZED)


def failing(context, job, scratch):
    raise RecogniserUnavailable("scripted", "connection refused")


@pytest.mark.scenario("pipeline", "Работы в состоянии нет")
def test_an_empty_poll_is_neither_logged_nor_counted(bench: Bench, lines: Lines):
    bench.job("done")
    runner = bench.runner(Step.NORMALISE, failing)
    for _ in range(3):
        runner.poll()
    assert lines.owners == []
    assert bench.runs(Step.NORMALISE) == {}


@pytest.mark.scenario("pipeline", "Признак пустого прогона дошёл с пояснением")
def test_an_empty_poll_is_known_through_explanations(bench: Bench, lines: Lines):
    class Explaining(Queue):
        def claim(self, state, lease_seconds, count=1):
            try:
                return super().claim(state, lease_seconds, count)
            except NoWork as error:
                explained = TranscriberError("look for work")
                explained.__cause__ = error
                raise RuntimeError("poll the queue") from explained

    runner = bench.runner(Step.SUBMIT, failing, queue=Explaining(bench.client, "test"))
    for _ in range(3):
        runner.poll()
    assert lines.owners == []
    assert bench.runs(Step.SUBMIT) == {}


@pytest.mark.scenario("own", "A failure that will be tried again is one warning")
@pytest.mark.scenario("pipeline", "Шаг отказал")
def test_a_failed_step_is_logged_once_and_counted(bench: Bench, lines: Lines):
    job = bench.job("normalized")
    bench.runner(Step.SUBMIT, failing).poll()
    [line] = lines.owners
    assert line["level"].name == "WARNING"  # it will be tried again
    assert line["extra"]["job_id"] == job
    assert line["extra"]["step"] == "submit"
    assert line["extra"]["attempt"] == 1
    assert "connection refused" in line["extra"]["reason"]
    assert bench.runs(Step.SUBMIT) == {"retry": 1}
    assert "connection refused" in bench.row(job)["error_text"]


def test_a_failure_with_a_foreign_no_work_in_its_chain_is_a_failure(bench: Bench, lines: Lines):
    """The requirement's text: only the queue's answer to this very poll means "no work"."""
    job = bench.job("normalized")

    def step(context, job, scratch):
        raise RecogniserUnavailable("scripted", "its own queue is empty") from NoWork("normalized")

    bench.runner(Step.SUBMIT, step).poll()
    assert bench.runs(Step.SUBMIT) == {"retry": 1}
    assert [line["level"].name for line in lines.owners] == ["WARNING"]
    assert bench.row(job)["attempts"] == 1
    assert bench.pause(job) > 5


@pytest.mark.scenario("pipeline", "Шаг сделал работу")
def test_a_step_that_worked_is_counted_as_success(bench: Bench, lines: Lines):
    job = bench.job()
    bench.runner(Step.NORMALISE, normalised).poll()
    assert bench.runs(Step.NORMALISE) == {"ok": 1}
    assert lines.at("WARNING", "ERROR", "CRITICAL") == []
    assert bench.row(job)["state"] == bench.row(job)["milestone"] == "normalized"


@pytest.mark.scenario("pipeline", "Задача падает на каждой попытке")
def test_a_job_that_fails_each_time_ends_dead_and_its_sender_is_told(bench: Bench, lines: Lines):
    sender = Sender()
    job = bench.job("normalized", "telegram", chat_id="7", message_id="1")
    runner = bench.runner(Step.SUBMIT, failing, telegram=sender, max_attempts=3)
    for attempt in (1, 2, 3):
        runner.poll()
        assert bench.row(job)["state"] == "normalized"
        assert bench.row(job)["attempts"] == attempt
        assert sender.told == []
        bench.due(job)
    runner.poll()
    row = bench.row(job)
    assert row["state"] == "dead"
    assert row["milestone"] == "normalized"  # what the sender's status shows
    assert "3 attempts" in row["error_text"]
    assert "connection refused" in row["error_text"]
    assert sender.told == [(job, "failure")]
    assert bench.runs(Step.SUBMIT) == {"retry": 3, "dead": 1}
    assert [line["level"].name for line in lines.owners] == ["WARNING"] * 3 + ["ERROR"]
    bench.due(job)
    with pytest.raises(NoWork):
        bench.queue().claim(Milestone.NORMALIZED, 60)
    runner.poll()
    assert sender.told == [(job, "failure")]


@pytest.mark.scenario("pipeline", "Шаг уносит процесс, не объявив отказа")
def test_a_step_that_takes_its_process_along_each_time_ends_dead(own: Service):
    """A real process, killed as the kernel kills for want of memory, until the job is dead."""
    own.env["MAX_ATTEMPTS"] = "3"
    own.start("pb", "media")
    with Proxy(own.ports["POCKETBASE"]) as proxy:
        proxy.swallow("/api/queue/audio")  # so that the step is surely at work when it is killed
        job = own.user().upload(tone(own.folder))
        for attempt in (1, 2, 3):
            own.start("pipeline", POCKETBASE_URL=proxy.url)
            wait_until(lambda n=attempt: own.job(job)["attempts"] == n, what="the claim")
            path = f"/api/queue/audio/{job}/audio"
            wait_until(lambda n=attempt, path=path: proxy.requests[path] == n, what="the step")
            assert own.job(job)["state"] == "uploaded"
            own.kill("pipeline")
        own.start("pipeline", POCKETBASE_URL=proxy.url)
        wait_until(lambda: own.job(job)["state"] != "uploaded", what="the job's end")
        row = own.job(job)
        assert row["state"] == "dead"
        assert row["lease_token"] == ""
        assert proxy.requests[f"/api/queue/audio/{job}/audio"] == 3  # not given to the step again
        # What the owner reads says what happened.
        assert "normalise given up after 3 attempts" in row["error_text"]
        assert "stopped without a result" in row["error_text"]


@pytest.mark.scenario("pipeline", "Прошедшая задача попыток не копит")
def test_a_job_that_passes_keeps_no_attempts(bench: Bench):
    job = bench.job()
    recogniser = Scripted()
    steps = [
        bench.runner(Step.NORMALISE, normalised, max_attempts=1),
        bench.runner(Step.SUBMIT, recogniser=recogniser, max_attempts=1, check_seconds=0.05),
        bench.runner(Step.CHECK, recogniser=recogniser, max_attempts=1),
        bench.runner(Step.FINISH, max_attempts=1),
    ]
    for runner, reached in zip(steps, list(Milestone)[1:], strict=True):
        wait_until(lambda: bench.pause(job) <= 0)
        runner.poll()
        assert bench.row(job)["state"] == reached
        assert bench.row(job)["attempts"] == 0
    assert bench.queue().transcript(job) == TEXT


@pytest.mark.scenario("pipeline", "Отказавшая задача ждёт")
def test_a_failed_job_is_not_given_out_before_its_pause_is_over(bench: Bench):
    job = bench.job("normalized")
    bench.runner(Step.SUBMIT, failing, backoff_seconds=1).poll()
    with pytest.raises(NoWork):
        bench.queue().claim(Milestone.NORMALIZED, 60)
    assert bench.row(job)["attempts"] == 1
    wait_until(lambda: bench.pause(job) <= 0, 5)
    [claimed] = bench.queue().claim(Milestone.NORMALIZED, 60)
    assert claimed.id == job


@pytest.mark.scenario("pipeline", "Вторая пауза длиннее первой")
def test_the_second_pause_is_longer_than_the_first(bench: Bench):
    job = bench.job("normalized")
    runner = bench.runner(Step.SUBMIT, failing, backoff_seconds=10, backoff_max_seconds=25)
    pauses = []
    for _ in range(3):
        runner.poll()
        pauses.append(bench.pause(job))
        bench.due(job)
    first, second, third = pauses
    assert 9 < first <= 11
    assert 19 < second <= 22
    assert 24 < third <= 27.5  # the ceiling, with its jitter


@pytest.mark.scenario("pipeline", "Ожидание операции не учащается и не тратит попыток")
def test_waiting_for_an_operation_keeps_its_delay_and_costs_no_attempt(bench: Bench, lines: Lines):
    """Fifty polls: a limit of three attempts would have killed it long ago."""
    job = bench.job(
        "submitted", operation="remote-1", submitted_at="strftime('%Y-%m-%d %H:%M:%fZ')"
    )
    recogniser = Scripted(Running())
    runner = bench.runner(Step.CHECK, recogniser=recogniser, check_seconds=20)
    for _ in range(50):
        runner.poll()
        assert bench.row(job)["attempts"] == 0
        assert 19 < bench.pause(job) <= 20
        bench.due(job)
    assert bench.runs(Step.CHECK) == {"waiting": 50}
    assert lines.owners == []
    # And a failure after them rests as long as a first one does.
    recogniser.verdict = lambda: failing(None, None, None)
    runner.poll()
    assert bench.row(job)["attempts"] == 1
    assert 9 < bench.pause(job) <= 11
    bench.due(job)
    recogniser.verdict = Finished(TEXT)
    runner.poll()
    assert bench.row(job)["state"] == "transcribed"
