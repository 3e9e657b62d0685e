"""Handing in a recording over HTTP: the Scenarios of `POST /api/audio`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.service import Service, User, tone

SECRET = "секретное-слово"
UNREADABLE = b"these bytes are no recording of anything at all\n" * 40


def state(service: Service) -> tuple[list[Path], int, int]:
    """Everything that an upload can leave behind: files, folders, recordings, jobs."""
    [recordings] = service.rows("SELECT count(*) AS n FROM recordings")
    [jobs] = service.rows("SELECT count(*) AS n FROM jobs")
    storage = service.data / "pocketbase" / "storage"
    return sorted(storage.glob("*/**/*")), recordings["n"], jobs["n"]


def files_of(service: Service, job_id: str) -> list[Path]:
    return [path for path in service.stored_files() if path.parent.name == job_id]


def accepted(answer: httpx.Response) -> str:
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job_id"])


def counted(service: Service, extension: str) -> float:
    label = f'transcriber_recordings_accepted_total{{extension="{extension}",input="http"}}'
    return service.metrics()[label]


# Приём записи по HTTP


@pytest.mark.scenario("intake", "Запись принята")
def test_a_recording_is_accepted(shelf: Service, user: User, tmp_path: Path):
    content = tone(tmp_path).read_bytes()
    answer = user.post(("talk.wav", content))
    assert answer.status_code == 201
    assert answer.json() == {"job_id": answer.json()["job_id"], "status": "uploaded"}
    job_id = answer.json()["job_id"]
    [stored] = files_of(shelf, job_id)
    assert stored.read_bytes() == content
    [recording] = shelf.rows("SELECT * FROM recordings WHERE id = ?", job_id)
    assert recording["owner"] == user.id
    assert recording["source"] == "http"
    assert recording["size"] == len(content)
    assert recording["duration"] == pytest.approx(1.0, abs=0.05)
    job = shelf.job(job_id)
    assert (job["recording"], job["state"], job["milestone"]) == (job_id, "uploaded", "uploaded")


@pytest.mark.scenario("intake", "Сессия не даёт учётной записи пользователя")
def test_the_owner_of_the_panel_is_no_sender(shelf: Service, tmp_path: Path):
    before = state(shelf)
    content = tone(tmp_path).read_bytes()
    answer = shelf.owner.post("/api/audio", files={"audio": ("talk.wav", content)})
    assert answer.status_code == 403
    assert answer.json()["error_code"] == "forbidden"
    assert state(shelf) == before


def test_a_worker_is_no_sender(shelf: Service, tmp_path: Path):
    before = state(shelf)
    token, _ = shelf.session("workers", "workers@transcriber.local", "worker-password")
    answer = httpx.post(
        f"{shelf.url}/api/audio",
        files={"audio": ("talk.wav", tone(tmp_path).read_bytes())},
        headers={"Authorization": token},
        trust_env=False,
    )
    assert answer.status_code == 403
    assert state(shelf) == before


@pytest.mark.scenario("intake", "Сессии нет")
def test_no_session_no_recording(shelf: Service, tmp_path: Path):
    before = state(shelf)
    content = tone(tmp_path).read_bytes()
    for headers in ({}, {"Authorization": "Bearer rubbish"}):
        answer = httpx.post(
            f"{shelf.url}/api/audio",
            files={"audio": (f"{SECRET}.wav", content)},
            data={"title": "my title"},
            headers=headers,
            trust_env=False,
        )
        assert answer.status_code == 401
        assert answer.json() == {"error_code": "unauthorized", "message": "требуется вход"}
    assert state(shelf) == before


@pytest.mark.scenario("intake", "Поля с записью нет")
def test_without_the_field_there_is_nothing_to_take(shelf: Service, user: User):
    before = state(shelf)
    empty_form = user.http.post("/api/audio", files={"title": (None, "no recording here")})
    assert empty_form.status_code == 400
    assert empty_form.json()["error_code"] == "bad_request"
    assert "нет записи в поле audio" in empty_form.json()["message"]
    for other in (
        user.http.post("/api/audio"),
        user.http.post("/api/audio", json={"audio": "text"}),
        user.http.post("/api/audio", data={"audio": "text"}),
        user.http.post("/api/audio", files={"audio": (None, "text, and no file")}),
    ):
        assert other.status_code == 400
        assert other.json()["error_code"] == "bad_request"
    assert state(shelf) == before


@pytest.mark.scenario("intake", "Размеру записи приём не судья")
def test_a_recording_of_no_length_is_accepted(shelf: Service, user: User):
    job_id = accepted(user.post(("empty.wav", b"")))
    [stored] = files_of(shelf, job_id)
    assert stored.stat().st_size == 0
    assert shelf.job(job_id)["state"] == "uploaded"


# Имя файла в хранилище


@pytest.mark.scenario("intake", "Расширение взято из имени отправителя")
def test_the_extension_is_the_senders(shelf: Service, user: User, tmp_path: Path):
    job_id = accepted(user.post(("test.mp3", tone(tmp_path).read_bytes())))
    [stored] = files_of(shelf, job_id)
    assert stored.name.endswith(".mp3")
    assert stored.name != "test.mp3"


@pytest.mark.scenario("intake", "Имени без расширения назначено своё")
def test_a_name_without_extension_gets_one(shelf: Service, user: User, tmp_path: Path):
    job_id = accepted(user.post(("test", tone(tmp_path).read_bytes())))
    [stored] = files_of(shelf, job_id)
    assert stored.name.endswith(".audio")


@pytest.mark.scenario("intake", "Имя отправителя в хранилище не попало")
def test_the_senders_name_is_not_stored(shelf: Service, user: User, tmp_path: Path):
    job_id = accepted(user.post((f"{SECRET}.mp3", tone(tmp_path).read_bytes())))
    [stored] = files_of(shelf, job_id)
    assert SECRET not in str(stored)
    # Beside the file PocketBase's storage keeps notes, where the name would be by default.
    for path in stored.parent.iterdir():
        assert SECRET not in path.name
        assert SECRET.encode() not in path.read_bytes()
        assert json.dumps(SECRET)[1:-1].encode() not in path.read_bytes()


# Отказ чтения метаданных


@pytest.mark.scenario("intake", "Источник метаданных вернул ошибку")
def test_what_cannot_be_read_is_refused(shelf: Service, user: User):
    before = state(shelf)
    answer = user.post(("talk.wav", UNREADABLE))
    assert answer.status_code == 500
    assert answer.json() == {"error_code": "internal", "message": "внутренняя ошибка"}
    assert state(shelf) == before


def test_a_metadata_source_that_is_gone(own: Service, tmp_path: Path):
    own.start("pb", "media")
    user, content = own.user(), tone(tmp_path).read_bytes()
    accepted(user.post(("before.wav", content)))
    before = state(own)
    own.kill("media")

    answer = user.post((f"{SECRET}.wav", content))
    assert answer.status_code == 500
    assert answer.json() == {"error_code": "internal", "message": "внутренняя ошибка"}
    assert state(own) == before
    [line] = [line for line in own.logged() if line["message"] == "request failed"]
    assert "metadata source: not reachable" in line["data"]
    assert SECRET not in line["data"]

    own.start("media")
    accepted(user.post(("after.wav", content)))


# Журнал приёма


@dataclass
class Story:
    """One recording accepted and one refused, and what PocketBase's log says of both."""

    job_id: str
    size: int
    stored: Path
    lines: list[dict[str, Any]]

    @property
    def intake(self) -> list[str]:
        """The intake's own lines and the request's, whole."""
        found = [line["message"] + line["data"] for line in self.lines]
        assert any(self.job_id in line for line in found)
        return found


@pytest.fixture(scope="module")
def story(shelf: Service, tmp_path_factory: pytest.TempPathFactory) -> Story:
    user, content = shelf.user(), tone(tmp_path_factory.mktemp("story")).read_bytes()
    job_id = accepted(user.post((f"{SECRET}.mp3", content)))
    assert user.post((f"{SECRET}.mp3", UNREADABLE)).status_code == 500
    [stored] = files_of(shelf, job_id)
    return Story(job_id, len(content), stored, shelf.logged())


@pytest.mark.scenario("intake", "Имя записи не видно в журнале принятой записи")
def test_the_log_of_an_accepted_recording_has_no_name(story: Story):
    assert any("recording accepted" in line for line in story.intake)
    for line in story.intake:
        assert SECRET not in line
        assert json.dumps(SECRET)[1:-1] not in line


@pytest.mark.scenario("intake", "Имя записи не видно в журнале при отказе приёма")
def test_the_log_of_a_refused_recording_has_no_name(story: Story):
    refused = [line for line in story.intake if "metadata source: answered 422" in line]
    assert refused, "the cause of the refusal is the log's"
    for line in story.intake:
        assert SECRET not in line
        assert json.dumps(SECRET)[1:-1] not in line


@pytest.mark.scenario("intake", "Идентификатор, расширение и размер на месте")
def test_the_log_traces_a_recording(story: Story):
    [line] = [
        json.loads(line["data"])
        for line in story.lines
        if line["message"] == "recording accepted" and story.job_id in line["data"]
    ]
    assert line["file_id"] == story.stored.stem
    assert line["extension"] == "mp3"
    assert line["size"] == story.size


@pytest.mark.scenario("intake", "Имени файла в хранилище в журнале нет")
def test_the_log_has_no_stored_name(story: Story):
    assert story.stored.suffix == ".mp3"
    for line in story.intake:
        assert story.stored.name not in line


# Метка метрики


@pytest.mark.scenario("intake", "Незнакомое расширение наружу не выходит")
def test_an_unknown_extension_is_counted_as_other(shelf: Service, user: User, tmp_path: Path):
    before = counted(shelf, "other")
    job_id = accepted(user.post(("talk.zzz9", tone(tmp_path).read_bytes())))
    assert counted(shelf, "other") == before + 1
    assert not any("zzz9" in series for series in shelf.metrics())
    [stored] = files_of(shelf, job_id)
    assert stored.name.endswith(".zzz9")


@pytest.mark.scenario("intake", "Известное расширение идёт как есть")
def test_a_known_extension_is_counted_in_lower_case(shelf: Service, user: User, tmp_path: Path):
    before = counted(shelf, "mp3")
    job_id = accepted(user.post(("sample.MP3", tone(tmp_path).read_bytes())))
    assert counted(shelf, "mp3") == before + 1
    [stored] = files_of(shelf, job_id)
    assert stored.name.endswith(".MP3")
