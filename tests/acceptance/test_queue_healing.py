"""What a step finds missing is made again, and nothing goes round for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.acceptance.bench import TEXT, Bench, Lines, Scripted, Sender
from worker.engine.operations import HttpOperations
from worker.errors import LeaseLost
from worker.jobs import Advanced, Milestone, Normalised, Step
from worker.logs import register_secret
from worker.recognisers.base import Finished, Refused, Running, Unknown
from worker.recognisers.local import LocalRecogniser


def engine(bench: Bench, *, slices: int = 2, written: int = 2) -> None:
    """An engine takes the one operation there is and ends it, perhaps with a slice amiss."""
    operations = HttpOperations(bench.client, "engine@test")
    operation = operations.claim()
    assert operation is not None
    operations.cut(operation, [(float(n), n + 1.0) for n in range(slices)], "ru")
    for unit in range(written):
        operations.write(
            operation, unit, [{"start": unit, "end": unit + 1, "text": f"часть {unit}"}]
        )
    operations.finish(operation, "done", engine="x")


def run(bench: Bench, job: str, step: Step, recogniser, **how) -> str:
    bench.due(job)
    bench.runner(step, recogniser=recogniser, **how).poll()
    return str(bench.row(job)["state"])


def normalised(context, job, scratch):
    audio = scratch / "audio.flac"
    audio.write_bytes(b"made again")
    return Normalised(audio, 2.0, "wav")


@pytest.mark.scenario("own", "What an earlier step made is gone")
def test_normalised_audio_that_is_gone_is_made_again(bench: Bench):
    """Lost before the submission."""
    job = bench.job("normalized")
    recogniser = LocalRecogniser(bench.client)
    bench.file(job, "n.flac").unlink()
    assert run(bench, job, Step.SUBMIT, recogniser) == "uploaded"
    assert "normalised audio is missing" in bench.row(job)["error_text"]
    assert run(bench, job, Step.NORMALISE, recogniser, function=normalised) == "normalized"
    assert run(bench, job, Step.SUBMIT, recogniser) == "submitted"
    engine(bench)
    assert run(bench, job, Step.CHECK, recogniser) == "transcribed"
    assert run(bench, job, Step.FINISH, recogniser) == "done"
    assert bench.queue().transcript(job).text == "часть 0 часть 1"


def test_normalised_audio_that_is_gone_holds_no_engine(bench: Bench, tmp_path):
    """Lost after the submission: the engine is told at once, and the recording goes back."""
    job = bench.job("normalized")
    recogniser = LocalRecogniser(bench.client)
    assert run(bench, job, Step.SUBMIT, recogniser) == "submitted"
    bench.file(job, "n.flac").unlink()
    operations = HttpOperations(bench.client, "engine@test")
    operation = operations.claim()
    with pytest.raises(LeaseLost):
        operations.audio(operation, tmp_path / "audio")
    assert operations.claim() is None, "it comes to the engines no more"
    assert run(bench, job, Step.CHECK, recogniser) == "normalized"
    assert run(bench, job, Step.SUBMIT, recogniser) == "uploaded"
    assert run(bench, job, Step.NORMALISE, recogniser, function=normalised) == "normalized"
    assert run(bench, job, Step.SUBMIT, recogniser) == "submitted"
    engine(bench)
    assert run(bench, job, Step.CHECK, recogniser) == "transcribed"


def test_a_text_that_is_gone_is_recognised_again(bench: Bench):
    job = bench.job("transcribed", operation="over")
    recogniser = LocalRecogniser(bench.client)
    assert run(bench, job, Step.FINISH, recogniser) == "normalized"
    assert "text is missing" in bench.row(job)["error_text"]
    assert bench.row(job)["operation"] == ""
    assert run(bench, job, Step.SUBMIT, recogniser) == "submitted"
    engine(bench)
    assert run(bench, job, Step.CHECK, recogniser) == "transcribed"
    assert run(bench, job, Step.FINISH, recogniser) == "done"


def test_a_missing_slice_is_no_shorter_text(bench: Bench):
    """Recognised anew, and with a clean slate: what was half lost is forgotten first."""
    job = bench.job("normalized")
    recogniser = LocalRecogniser(bench.client)
    run(bench, job, Step.SUBMIT, recogniser)
    engine(bench, slices=3, written=2)
    assert run(bench, job, Step.CHECK, recogniser) == "normalized"
    assert bench.queue().transcript(job) is None
    assert bench.service.rows("SELECT * FROM operations") == []
    assert run(bench, job, Step.SUBMIT, recogniser) == "submitted"
    engine(bench, slices=3, written=3)
    assert run(bench, job, Step.CHECK, recogniser) == "transcribed"
    assert bench.queue().transcript(job).text == "часть 0 часть 1 часть 2"
    assert bench.service.rows("SELECT * FROM operations") == [], "nothing is left behind"
    assert bench.service.rows("SELECT * FROM segments") == []


@pytest.mark.scenario("own", "A recogniser that loses every operation")
def test_a_recogniser_that_always_loses_the_operation_ends_in_a_dead_job(
    bench: Bench, lines: Lines
):
    sender = Sender()
    recogniser = Scripted(Unknown())
    job = bench.job("normalized", "telegram", chat_id="7", message_id="1")
    rounds = 0
    pauses = []
    while bench.row(job)["state"] not in {"dead", "failed"}:
        rounds += 1
        assert rounds < 20
        run(bench, job, Step.SUBMIT, recogniser, telegram=sender, max_attempts=3)
        if run(bench, job, Step.CHECK, recogniser, telegram=sender) == "normalized":
            pauses.append(bench.pause(job))
    row = bench.row(job)
    assert row["state"] == "dead"
    assert "lost the operation" in row["error_text"]
    assert len(recogniser.submitted) == 4  # the first time, and three more
    assert sender.told == [(job, "failure")]
    assert pauses == sorted(pauses)
    assert pauses[0] > 9
    assert lines.at("ERROR")[0]["extra"]["job_id"] == job


@pytest.mark.scenario("own", "An operation that never ends")
def test_an_operation_that_never_ends_is_given_up(bench: Bench):
    """Cases: waiting costs no attempts, so it needs an end of its own."""
    sender = Sender()
    recogniser = Scripted(Running())
    job = bench.job("submitted", "telegram", chat_id="7", message_id="1", operation="remote")
    hours = "strftime('%Y-%m-%d %H:%M:%fZ', 'now', '-{} hours')"
    bench.set(job, submitted_at=hours.format(23))
    assert run(bench, job, Step.CHECK, recogniser, telegram=sender) == "submitted"
    assert sender.told == []
    bench.set(job, submitted_at=hours.format(25))
    assert run(bench, job, Step.CHECK, recogniser, telegram=sender) == "failed"
    assert "no end after" in bench.row(job)["error_text"]
    assert sender.told == [(job, "failure")]
    assert recogniser.cancelled == ["remote"]

    # Who says that it goes on is believed for longer than that.
    job = bench.job("submitted", operation="slow", submitted_at=hours.format(48))
    assert run(bench, job, Step.CHECK, Scripted(Running(quiet=60))) == "submitted"
    assert run(bench, job, Step.CHECK, Scripted(Running(quiet=25 * 3600))) == "failed"


@pytest.mark.scenario("own", "The operation cannot be removed")
def test_a_refusal_is_final_and_a_leftover_is_only_a_nuisance(bench: Bench, lines: Lines):
    class Stuck(Scripted):
        def cancel(self, operation):
            raise ConnectionError("cannot remove")

    refused = bench.job("submitted", operation="remote")
    assert run(bench, refused, Step.CHECK, Stuck(Refused("too noisy"))) == "failed"
    assert "too noisy" in bench.row(refused)["error_text"]
    done = bench.job("submitted", operation="remote")
    assert run(bench, done, Step.CHECK, Stuck(Finished(TEXT))) == "transcribed"
    assert bench.runs(Step.CHECK) == {"failed": 1, "ok": 1}
    assert [line["message"] for line in lines.at("WARNING")] == ["operation not removed"] * 2


def test_a_full_disk_is_one_jobs_failure(bench: Bench, monkeypatch):
    job = bench.job()
    runner = bench.runner(Step.NORMALISE, lambda *_: Advanced(Milestone.NORMALIZED))
    with monkeypatch.context() as patch:
        patch.setattr(runner, "_scratch", bench.file(job, "a.wav"))  # nothing can be made in a file
        runner.poll()
    row = bench.row(job)
    assert row["state"] == "uploaded"
    assert row["lease_token"] == ""
    assert row["attempts"] == 1
    assert row["error_text"]
    assert str(bench.folder) not in row["error_text"]
    bench.due(job)
    runner.poll()
    assert bench.row(job)["state"] == "normalized"


@pytest.mark.scenario("own", "A recording is deleted in the middle of a step")
def test_a_deleted_recording_ends_its_step_quietly(bench: Bench, lines: Lines):
    """Cases: deleting acts on the record, not on a process."""
    job = bench.job()

    def step(context, job, scratch):
        answer = bench.service.owner.delete(f"/api/collections/recordings/records/{job.id}")
        assert answer.status_code == 204, answer.text
        return normalised(context, job, scratch)

    bench.runner(Step.NORMALISE, step).poll()
    assert bench.service.rows("SELECT * FROM jobs") == []
    assert bench.runs(Step.NORMALISE) == {"lost": 1}
    assert lines.at("WARNING", "ERROR") == []
    folder = bench.file(job, "x").parent
    assert [file.name for file in folder.rglob("*") if file.is_file()] == []


@pytest.mark.scenario("own", "A long diagnosis is cut and its size named")
def test_what_an_error_says_is_cut_and_carries_no_secret(bench: Bench):
    register_secret("hush-hush-token")
    job = bench.job()

    def step(context, job, scratch):
        raise RuntimeError("hush-hush-token " + "x" * 5000)

    bench.runner(Step.NORMALISE, step).poll()
    text = bench.row(job)["error_text"]
    assert "hush" not in text
    assert len(text) <= 2000
    assert "characters in all" in text


def test_a_text_that_cannot_be_stored_is_a_failure_and_not_an_absence(bench: Bench, lines: Lines):
    """It was taken for one: the step waited for ever, and every other recording with it."""
    bad = bench.job("submitted", operation="remote")
    odd = Scripted(Finished(replace(TEXT, language="l" * 21)))
    assert run(bench, bad, Step.CHECK, odd) == "submitted"
    assert bench.row(bad)["attempts"] == 1
    assert "refused" in bench.row(bad)["error_text"]
    assert [line["message"] for line in lines.owners] == ["check retry"]
    good = bench.job("submitted", operation="remote")
    assert run(bench, good, Step.CHECK, Scripted()) == "transcribed"
