"""What fuzzing found of the routes: odd bodies are refused as such, before anything is done.

A worker takes a 5xx for an absence and waits: answered so, a body that can never be taken would be
sent for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.service import Service, User, tone
from worker.pocketbase.client import Client

LEASE = "1ea5e1ea5e1ea5e1ea5e1ea5e1ea5e1e"
ODD: tuple[Any, ...] = (None, {}, {"x": 1}, [None], [[]], -1, 1e308, True, "", "\0x")
RESULT = {"id": "a" * 15, "lease_token": LEASE, "outcome": "retry", "pause": 1.0, "error_text": ""}
CLAIM = {"state": "failed", "worker": "w", "count": 1, "lease_seconds": 9}
CUT = {"lease_token": LEASE, "units": [[0, 1]], "language": ""}
TAKE = {"recording": "a" * 15, "recogniser": "openai", "lease_token": LEASE}
GOOD: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("/api/queue/claim", CLAIM, "state"),
    ("/api/queue/claim", CLAIM, "lease_seconds"),
    ("/api/queue/restart", {"worker": "w"}, "worker"),
    ("/api/operations", {"recording": "a" * 15, "lease_token": LEASE}, "recording"),
    ("/api/operations", {"recording": "a" * 15, "lease_token": LEASE}, "lease_token"),
    ("/api/operations/claim", {"worker": "w", "lease_seconds": 9}, "worker"),
    ("/api/operations/take", TAKE, "recogniser"),
    ("/api/operations/take", TAKE, "lease_token"),
    ("/api/operations/restart", {"worker": "w"}, "worker"),
    ("/api/operations/x/cut", CUT, "units"),
    ("/api/operations/x/segments", {"lease_token": LEASE, "unit": 0, "segments": []}, "segments"),
    ("/api/operations/x/renew", {"lease_token": LEASE}, "lease_token"),
    ("/api/operations/x/finish", {"lease_token": LEASE, "outcome": "done"}, "outcome"),
    ("/api/queue/chats/5/moved", {"to": "6"}, "to"),
    ("/api/queue/rejections", {"error_code": "internal"}, "error_code"),
    ("/api/queue/answers/claim", {"worker": "w", "lease_seconds": 9, "count": 1}, "count"),
    ("/api/queue/answers/restart", {"worker": "w"}, "worker"),
    ("/api/queue/answers/close", {"reason": "x"}, "reason"),
    ("/api/queue/answers/again", {"job_id": "x", "chat_id": "5", "message_id": "1"}, "job_id"),
    ("/api/queue/answers/write/x",
     {"lease_token": LEASE, "outcome": "later", "begun": 0, "sent": 0, "unsure": 0, "pause": 1.0,
      "failing": False}, "pause"),
    ("/api/queue/finish", RESULT, "pause"),
    ("/api/queue/finish", RESULT, "error_text"),
    ("/api/queue/finish", RESULT, "id"),
)  # fmt: skip


@pytest.fixture(scope="module")
def worker(bare: tuple[Service, Client]) -> Iterator[httpx.Client]:
    service, client = bare
    client.request("GET", "/api/queue/stats")  # signs in
    headers = {"Authorization": client._token}
    with httpx.Client(base_url=service.url, headers=headers, trust_env=False) as worker:
        yield worker


def refused(answer: httpx.Response) -> bool:
    return (answer.status_code, answer.json()["error_code"]) == (400, "bad_request")


@pytest.mark.parametrize(
    ("path", "body", "field"), GOOD, ids=[f"{path} {field}" for path, _, field in GOOD]
)
def test_a_field_of_another_kind_is_a_bad_request(
    path: str, body: dict[str, Any], field: str, worker: httpx.Client
) -> None:
    def send(body: Any) -> httpx.Response:
        return worker.post(path, json={"results": [body]} if path.endswith("/finish")
                           and "queue" in path else body)  # fmt: skip

    assert send(body).status_code in {200, 404, 409}  # no such row, but a body that can be read
    texts = {"error_text", "job_id", "error_code", "to", "state"}
    for odd in ODD:
        if isinstance(odd, str) and (odd or field in texts):
            continue  # a text, as it should be
        if isinstance(odd, list) and field == "segments":
            continue  # whatever it is that was said
        answer = send({**body, field: odd})
        assert refused(answer), (odd, answer.text)


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"null", b'"x"', b"7", b"\xff\xfe", b"[" * 20_000]
)
@pytest.mark.parametrize("path", sorted({path for path, _, _ in GOOD}))
def test_what_is_no_object_is_a_bad_request(
    path: str, content: bytes, worker: httpx.Client
) -> None:
    answer = worker.post(path, content=content, headers={"Content-Type": "application/json"})

    assert refused(answer), answer.text


def test_normalised_audio_without_a_file_or_a_form_is_a_bad_request(worker: httpx.Client) -> None:
    fields = {"lease_token": LEASE, "duration": "1.0"}
    path = "/api/queue/normalized/aaaaaaaaaaaaaaa"

    for sent in ({"json": fields}, {"data": fields}, {"files": {"other": b"x"}, "data": fields}):
        answer = worker.post(path, **sent)  # type: ignore[arg-type]
        assert refused(answer), answer.text


@pytest.mark.parametrize("place", ["x" * 3000, "..%2f..%2fx", "%00", "aaaaaaaaaaaaaaa"])
def test_normalised_audio_of_no_recording_is_put_nowhere(
    place: str, bare: tuple[Service, Client], worker: httpx.Client
) -> None:
    before = set(bare[0].data.rglob("*.flac"))

    answer = worker.post(
        f"/api/queue/normalized/{place}",
        files={"normalized": ("x.flac", b"fLaC")},
        data={"lease_token": LEASE, "duration": "1.0"},
    )

    assert answer.status_code == 404
    assert set(bare[0].data.rglob("*.flac")) == before


def test_a_result_with_a_text_or_a_claim_that_is_none_leaves_its_job_as_it_was(
    bare: tuple[Service, Client], worker: httpx.Client, tmp_path: Path
) -> None:
    service, _ = bare
    job = "b" * 15
    service.execute("INSERT INTO recordings (id, source) VALUES (?, 'http')", job)
    service.execute(
        """INSERT INTO jobs (id, recording, state, milestone, lease_token, leased_at, leased_by)
           VALUES (?, ?, 'transcribed', 'transcribed', ?, '2050-01-01 00:00:00.000Z', 'w')""",
        job, job, LEASE,
    )  # fmt: skip
    before = service.job(job)
    try:
        for text in (None, {"a": 1}, 7, ["x"]):
            transcript = {"kind": "raw", "text": text, "segments": [], "language": "", "engine": ""}
            result = {"id": job, "lease_token": LEASE, "outcome": "advanced", "to": "done",
                      "transcript": transcript}  # fmt: skip
            assert refused(worker.post("/api/queue/finish", json={"results": [result]}))
        result = {"id": job, "lease_token": LEASE, "outcome": "waiting", "delay": 1}
        odd_claims = [{**CLAIM, field: odd} for field in CLAIM for odd in (None, [], -1, {}, "\0")]
        readable = [{**CLAIM, "state": "\0"}, {**CLAIM, "worker": "\0"}]
        for odd in (*odd_claims, {**CLAIM, "count": 0}, {**CLAIM, "count": 2000}, {}, [], 0, "x"):
            if odd not in readable:
                body = {"results": [result], "next": odd}
                assert refused(worker.post("/api/queue/finish", json=body)), odd
        assert service.job(job) == before
    finally:
        service.execute("DELETE FROM jobs WHERE id = ?", job)
        service.execute("DELETE FROM recordings WHERE id = ?", job)


@pytest.mark.parametrize("fields", ["((((", "job_id", ":excerpt(", "status:excerpt(1,"])
def test_pocketbases_choice_of_fields_is_not_for_our_answers(
    fields: str, user: User, tmp_path: Path
) -> None:
    """It failed with 500 when the recording had been taken, whose sender would send it again."""
    answer = user.http.post(
        "/api/audio",
        params={"fields": fields},
        files={"audio": ("x.wav", tone(tmp_path).read_bytes())},
    )

    assert answer.status_code == 201
    assert answer.json().keys() == {"job_id", "status"}
    status = user.http.get(f"/api/status/{answer.json()['job_id']}", params={"fields": fields})
    assert status.status_code == 200
    assert status.json().keys() == {"job_id", "status", "created_at"}
