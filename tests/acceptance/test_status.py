"""Asking how far a recording has come, and seeing which inputs are up."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.acceptance.service import Service, User, tone
from worker.jobs import Advanced, Dead, Failed, Job, Milestone, Normalised, Released, Transcript
from worker.pocketbase.queue import Queue

NORMALIZED = Milestone.NORMALIZED
DIAGNOSIS = "decode media: a very particular diagnosis"
UNKNOWN = "abcdefghijklmno"


def claim(queue: Queue, state: Milestone, job_id: str) -> Job:
    """Claim this job of a shared shelf, whoever else waits in that state."""
    jobs = queue.claim(state, 60, 1000)
    queue.write_all([(job, Released()) for job in jobs if job.id != job_id])
    [job] = [job for job in jobs if job.id == job_id]
    return job


def normalise(queue: Queue, job_id: str, folder: Path) -> None:
    file = tone(folder, "normalized.flac")
    queue.write(claim(queue, Milestone.UPLOADED, job_id), Normalised(file, 1.0, "wav"))


def transcribe(queue: Queue, job_id: str, folder: Path, transcript: Transcript) -> None:
    """Bring a recording to its text, as the steps do."""
    normalise(queue, job_id, folder)
    queue.write(
        claim(queue, NORMALIZED, job_id), Advanced(Milestone.SUBMITTED, operation="elsewhere")
    )
    queue.write(
        claim(queue, Milestone.SUBMITTED, job_id),
        Advanced(Milestone.TRANSCRIBED, transcript=transcript),
    )


@pytest.mark.scenario("intake", "Запись найдена")
def test_the_owner_of_a_recording_sees_its_milestone(
    shelf: Service, user: User, job_id: str, tmp_path: Path
):
    queue = shelf.queue()
    answer = user.status(job_id)
    [recording] = shelf.rows("SELECT created FROM recordings WHERE id = ?", job_id)
    assert answer == {
        "job_id": job_id,
        "status": "uploaded",
        "created_at": recording["created"].replace(" ", "T"),
    }
    normalise(queue, job_id, tmp_path)
    assert user.status(job_id)["status"] == "normalized"
    queue.write(claim(queue, NORMALIZED, job_id), Advanced(Milestone.SUBMITTED, operation="x"))
    assert user.status(job_id)["status"] == "submitted"
    text = Advanced(Milestone.TRANSCRIBED, transcript=Transcript("сказано", [], "ru", "test"))
    queue.write(claim(queue, Milestone.SUBMITTED, job_id), text)
    assert user.status(job_id)["status"] == "transcribed"
    queue.write(claim(queue, Milestone.TRANSCRIBED, job_id), Advanced(Milestone.DONE))
    assert user.status(job_id)["status"] == "done"
    assert user.status(job_id)["transcription_text"] == "сказано"


@pytest.mark.scenario("intake", "Запись остановлена")
def test_a_halted_recording_names_where_it_stopped(
    shelf: Service, user: User, job_id: str, tmp_path: Path
):
    queue = shelf.queue()
    normalise(queue, job_id, tmp_path)
    queue.write(claim(queue, NORMALIZED, job_id), Failed(DIAGNOSIS))
    assert shelf.job(job_id)["state"] == "failed"
    assert shelf.job(job_id)["error_text"] == DIAGNOSIS
    answer = user.http.get(f"/api/status/{job_id}")
    assert answer.json()["status"] == "normalized"
    assert answer.json()["halted"] is True
    assert DIAGNOSIS not in answer.text
    assert set(answer.json()) == {"job_id", "status", "created_at", "halted"}


@pytest.mark.scenario("own", "A stopped job shows its milestone")
def test_a_dead_recording_is_halted_as_well(shelf: Service, user: User, job_id: str):
    queue = shelf.queue()
    queue.write(claim(queue, Milestone.UPLOADED, job_id), Dead(DIAGNOSIS))
    answer = user.http.get(f"/api/status/{job_id}")
    assert answer.json()["status"] == "uploaded"
    assert answer.json()["halted"] is True
    assert DIAGNOSIS not in answer.text


@pytest.mark.scenario("intake", "Сессии нет")
def test_without_a_session_nothing_is_told(shelf: Service, user: User, job_id: str, tmp_path: Path):
    transcribe(shelf.queue(), job_id, tmp_path, Transcript("сказанное", [], "ru", "test"))
    answer = httpx.get(f"{shelf.url}/api/status/{job_id}", trust_env=False)
    assert answer.status_code == 401
    assert answer.json() == {"error_code": "unauthorized", "message": "требуется вход"}
    assert "transcribed" in user.http.get(f"/api/status/{job_id}").text


@pytest.mark.scenario("intake", "Без сессии неизвестная запись неотличима от заведённой")
def test_without_a_session_known_and_unknown_look_alike(shelf: Service, job_id: str):
    known = httpx.get(f"{shelf.url}/api/status/{job_id}", trust_env=False)
    unknown = httpx.get(f"{shelf.url}/api/status/{UNKNOWN}", trust_env=False)
    assert known.status_code == unknown.status_code == 401
    assert known.content == unknown.content


@pytest.mark.scenario("intake", "Чужая запись неотличима от неизвестной")
def test_somebody_elses_recording_looks_unknown(shelf: Service, job_id: str, tmp_path: Path):
    transcribe(shelf.queue(), job_id, tmp_path, Transcript("сказанное", [], "ru", "test"))
    other = shelf.user()
    theirs = other.http.get(f"/api/status/{job_id}")
    unknown = other.http.get(f"/api/status/{UNKNOWN}")
    assert theirs.status_code == unknown.status_code == 404
    assert theirs.content == unknown.content
    assert theirs.json() == {"error_code": "not_found", "message": "запись не найдена"}


def test_a_recording_without_owner_is_nobodys(shelf: Service, user: User, job_id: str):
    """A recording from Telegram has no owner."""
    assert user.status(job_id)
    shelf.execute("UPDATE recordings SET owner = '', source = 'telegram' WHERE id = ?", job_id)
    found = user.http.get(f"/api/status/{job_id}")
    unknown = user.http.get(f"/api/status/{UNKNOWN}")
    assert found.status_code == 404
    assert found.content == unknown.content


def test_the_panels_owner_and_workers_ask_elsewhere(shelf: Service, job_id: str):
    token, _ = shelf.session("workers", "workers@transcriber.local", "worker-password")
    worker = httpx.get(
        f"{shelf.url}/api/status/{job_id}", headers={"Authorization": token}, trust_env=False
    )
    for answer in (worker, shelf.owner.get(f"/api/status/{job_id}")):
        assert answer.status_code == 403
        assert answer.json()["error_code"] == "forbidden"


@pytest.mark.scenario("intake", "Расшифровки ещё нет")
def test_before_there_is_a_text_there_is_no_field_for_it(
    shelf: Service, user: User, job_id: str, tmp_path: Path
):
    assert "transcription_text" not in user.status(job_id)
    normalise(shelf.queue(), job_id, tmp_path)
    assert "transcription_text" not in user.status(job_id)


def test_a_text_without_words_is_there_and_says_so(
    shelf: Service, user: User, job_id: str, tmp_path: Path
):
    transcribe(shelf.queue(), job_id, tmp_path, Transcript("", [], "", "test"))
    answer = user.status(job_id)
    assert answer["transcription_text"] == ""
    assert answer["no_speech"] is True


@pytest.mark.scenario("own", "A proofread text never stands in for the raw one")
def test_the_text_is_the_raw_transcript_whatever_was_written_last(
    shelf: Service, user: User, job_id: str, tmp_path: Path
):
    queue = shelf.queue()
    transcribe(queue, job_id, tmp_path, Transcript("сырой текст", [], "ru", "test"))
    proofread = Transcript("вычитанный текст", [], "ru", "test", kind="proofread")
    queue.write(
        claim(queue, Milestone.TRANSCRIBED, job_id),
        Advanced(Milestone.DONE, transcript=proofread),
    )
    assert len(shelf.rows("SELECT id FROM transcripts WHERE recording = ?", job_id)) == 2
    assert user.status(job_id)["transcription_text"] == "сырой текст"


@pytest.mark.scenario("intake", "Записи с таким идентификатором нет")
def test_an_unknown_recording_is_not_found(user: User):
    for unknown in (UNKNOWN, "x", "'; DROP TABLE jobs; --", "%00", "ё" * 400):
        answer = user.http.get(f"/api/status/{unknown}")
        assert answer.status_code == 404
        assert answer.json() == {"error_code": "not_found", "message": "запись не найдена"}


@pytest.mark.scenario("intake", "Вход Telegram не поднят")
def test_which_inputs_are_up_is_on_the_metrics_page(shelf: Service):
    up = {series: value for series, value in shelf.metrics().items() if "input_up" in series}
    assert up == {
        'transcriber_input_up{input="http"}': 1,
        'transcriber_input_up{input="telegram"}': 0,
    }


def test_an_http_input_that_is_gone_is_seen_as_down(own: Service):
    own.start("pb", "media")
    assert own.metrics()['transcriber_input_up{input="http"}'] == 1
    own.kill("pb")
    assert own.metrics()['transcriber_input_up{input="http"}'] == 0
    own.start("pb")
    assert own.metrics()['transcriber_input_up{input="http"}'] == 1
