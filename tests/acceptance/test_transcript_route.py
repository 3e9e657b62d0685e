"""`GET /api/transcript/:id/:kind`: a recording's texts, for its owner alone."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.acceptance.service import Service, User
from tests.acceptance.test_status import UNKNOWN, claim, normalise, transcribe
from worker.jobs import Advanced, Milestone, Transcript

SAID = [{"start": 0.0, "end": 1.5, "text": "сказано", "words": [{"word": "сказано", "start": 0.0}]}]
RAW = Transcript("сказано", SAID, "ru", "faster-whisper/base")
PROOFREAD = Transcript(
    "Сказано.", [{"start": 0.0, "end": 1.5, "text": "Сказано."}], "ru", "chat/x", kind="proofread"
)
NOT_READY = {"error_code": "not_ready", "message": "действие недоступно в текущем состоянии"}


def finish(shelf: Service, job_id: str) -> None:
    job = claim(shelf.queue(), Milestone.TRANSCRIBED, job_id)
    shelf.queue().write(job, Advanced(Milestone.DONE, transcript=PROOFREAD))


def test_each_text_has_its_own_address(shelf: Service, user: User, job_id: str, tmp_path: Path):
    for kind in ("raw", "proofread"):
        answer = user.http.get(f"/api/transcript/{job_id}/{kind}")
        assert answer.status_code == 409
        assert answer.json() == NOT_READY
    transcribe(shelf.queue(), job_id, tmp_path, RAW)
    answer = user.http.get(f"/api/transcript/{job_id}/raw")
    assert answer.status_code == 200
    assert answer.json() == {
        "job_id": job_id,
        "kind": "raw",
        "text": "сказано",
        "segments": SAID,
        "language": "ru",
        "engine": "faster-whisper/base",
    }
    assert user.http.get(f"/api/transcript/{job_id}/proofread").json() == NOT_READY
    finish(shelf, job_id)
    answer = user.http.get(f"/api/transcript/{job_id}/proofread")
    assert answer.json() == {
        "job_id": job_id,
        "kind": "proofread",
        "text": "Сказано.",
        "segments": PROOFREAD.segments,
        "language": "ru",
        "engine": "chat/x",
    }
    assert user.http.get(f"/api/transcript/{job_id}/raw").json()["text"] == "сказано"
    assert user.status(job_id)["transcription_text"] == "сказано"


def test_a_text_without_words_is_a_text(shelf: Service, user: User, job_id: str, tmp_path: Path):
    transcribe(shelf.queue(), job_id, tmp_path, Transcript("", [], "", "test"))
    answer = user.http.get(f"/api/transcript/{job_id}/raw")
    assert answer.status_code == 200
    assert (answer.json()["text"], answer.json()["segments"]) == ("", [])


def test_nobody_elses_text_can_be_seen(shelf: Service, user: User, job_id: str, tmp_path: Path):
    transcribe(shelf.queue(), job_id, tmp_path, RAW)
    finish(shelf, job_id)
    other = shelf.user()
    for kind in ("raw", "proofread"):
        theirs = other.http.get(f"/api/transcript/{job_id}/{kind}")
        unknown = other.http.get(f"/api/transcript/{UNKNOWN}/{kind}")
        assert theirs.status_code == unknown.status_code == 404
        assert theirs.content == unknown.content
        assert theirs.json() == {"error_code": "not_found", "message": "запись не найдена"}
        path = f"{shelf.url}/api/transcript/{job_id}/{kind}"
        anonymous = httpx.get(path, trust_env=False)
        assert anonymous.status_code == 401
        assert anonymous.json() == {"error_code": "unauthorized", "message": "требуется вход"}
        token, _ = shelf.session("workers", "workers@transcriber.local", "worker-password")
        worker = httpx.get(path, headers={"Authorization": token}, trust_env=False)
        for answer in (worker, shelf.owner.get(path)):
            assert answer.status_code == 403
            assert answer.json()["error_code"] == "forbidden"


def test_a_recording_without_owner_is_nobodys(
    shelf: Service, user: User, job_id: str, tmp_path: Path
):
    transcribe(shelf.queue(), job_id, tmp_path, RAW)
    assert user.http.get(f"/api/transcript/{job_id}/raw").status_code == 200
    shelf.execute("UPDATE recordings SET owner = '', source = 'telegram' WHERE id = ?", job_id)
    assert user.http.get(f"/api/transcript/{job_id}/raw").status_code == 404


@pytest.mark.parametrize("kind", ["rough", "RAW", "raw' || true || '", "%00"])
def test_an_unknown_kind_is_a_bad_request(user: User, job_id: str, kind: str):
    """Whosever recording it is: the answer says nothing of it."""
    mine = user.http.get(f"/api/transcript/{job_id}/{kind}")
    unknown = user.http.get(f"/api/transcript/{UNKNOWN}/{kind}")
    assert mine.status_code == unknown.status_code == 400
    assert mine.content == unknown.content
    assert mine.json() == {
        "error_code": "bad_request",
        "message": "некорректный ввод: неизвестный вид текста",
    }


@pytest.mark.parametrize("unknown", ["x", "'; DROP TABLE jobs; --", "' || owner != '", "%00"])
def test_an_unknown_recording_is_not_found(user: User, unknown: str):
    answer = user.http.get(f"/api/transcript/{unknown}/raw")
    assert answer.status_code == 404
    assert answer.json() == {"error_code": "not_found", "message": "запись не найдена"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/transcript"),
        ("GET", f"/api/transcript/{UNKNOWN}"),
        ("GET", f"/api/transcript/{UNKNOWN}/raw/more"),
        ("DELETE", f"/api/transcript/{UNKNOWN}/raw"),
    ],
)
def test_whatever_else_is_under_this_root_has_our_form(user: User, method: str, path: str):
    answer = user.http.request(method, path)
    assert answer.status_code == 404
    assert answer.json()["error_code"] == "not_found"


def test_a_text_recognised_anew_has_no_old_correction(
    shelf: Service, user: User, job_id: str, tmp_path: Path
):
    """The correction is of the text that it was made from."""
    queue = shelf.queue()
    transcribe(queue, job_id, tmp_path, RAW)
    finish(shelf, job_id)
    shelf.execute("UPDATE jobs SET state = 'uploaded', milestone = 'uploaded' WHERE id = ?", job_id)
    normalise(queue, job_id, tmp_path)
    assert user.http.get(f"/api/transcript/{job_id}/proofread").status_code == 200
    shelf.execute("UPDATE jobs SET state = 'submitted' WHERE id = ?", job_id)
    anew = Transcript("сказано иначе", [], "ru", "test")
    queue.write(
        claim(queue, Milestone.SUBMITTED, job_id),
        Advanced(Milestone.TRANSCRIBED, transcript=anew),
    )
    assert user.http.get(f"/api/transcript/{job_id}/raw").json()["text"] == "сказано иначе"
    assert user.http.get(f"/api/transcript/{job_id}/proofread").json() == NOT_READY
