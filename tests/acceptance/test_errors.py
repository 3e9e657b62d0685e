"""The table of errors, row by row, through real requests: one form, whatever refused."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance import wire
from tests.acceptance.service import REPOSITORY, Service, tone, wait_until
from tests.acceptance.test_intake import UNREADABLE, state

HUGE = 1 << 40
MIB = 1 << 20
RUSSIAN = {
    "unauthorized": "требуется вход",
    "forbidden": "у вашей сессии нет учётной записи",
    "not_found": "запись не найдена",
    "bad_request": "некорректный ввод: нужен ровно один файл в поле audio",
    "too_large": "запись больше допустимого размера: не более 1 МБ",
    "too_many_requests": "слишком много запросов подряд, попробуйте позже",
    "not_ready": "действие недоступно в текущем состоянии",
    "internal": "внутренняя ошибка",
}
ENGLISH = {
    "unauthorized": "sign in first",
    "forbidden": "your session has no user account",
    "not_found": "recording not found",
    "bad_request": "bad input: exactly one file is needed, in the field audio",
    "too_large": "the recording is larger than allowed: at most 1 MB",
    "too_many_requests": "too many requests in a row, try again later",
    "not_ready": "not available in the current state",
    "internal": "internal error",
}
RULE = {"label": "/api/status/", "audience": "", "maxRequests": 2, "duration": 60}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that takes a megabyte and no more."""
    service = Service(tmp_path_factory.mktemp("strict"), MAX_UPLOAD_MB="1")
    try:
        service.start("pb", "media")
        yield service
    finally:
        service.close()


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("english"), MAX_UPLOAD_MB="1", LOCALE="en")
    try:
        service.start("pb", "media")
        yield service
    finally:
        service.close()


def limit_rate(service: Service, *rules: dict[str, object]) -> None:
    """PocketBase's rate limiter, switched as the owner does in the panel."""
    answer = service.owner.patch(
        "/api/settings", json={"rateLimits": {"enabled": bool(rules), "rules": list(rules)}}
    )
    assert answer.status_code == 200, answer.text


def walk(service: Service, content: bytes) -> dict[str, httpx.Response]:
    """Meet every refusal of the table that a sender can meet."""
    user, anonymous = service.user(), httpx.Client(base_url=service.url, trust_env=False)
    job_id = user.post(("a.wav", content)).json()["job_id"]
    with anonymous:
        met = {
            "unauthorized": anonymous.post("/api/audio", files={"audio": ("a.wav", content)}),
            "forbidden": service.owner.post("/api/audio", files={"audio": ("a.wav", content)}),
            "not_found": user.http.get("/api/status/abcdefghijklmno"),
            "bad_request": user.post(("a.wav", content), ("b.wav", content)),
            "too_large": user.post(("a.wav", content + b"\0" * MIB)),
            "internal": user.post(("a.wav", UNREADABLE)),
            "not_ready": user.http.get(f"/api/transcript/{job_id}/raw"),
        }
    limit_rate(service, RULE)
    try:
        for _ in range(3):
            met["too_many_requests"] = user.http.get("/api/status/abcdefghijklmno")
    finally:
        limit_rate(service)
    return met


STATUS = {
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "bad_request": 400,
    "too_large": 413,
    "too_many_requests": 429,
    "not_ready": 409,
    "internal": 500,
}


@pytest.mark.scenario("own", "Messages follow the locale and codes do not")
@pytest.mark.parametrize(("place", "messages"), [("strict", RUSSIAN), ("english", ENGLISH)])
def test_the_whole_table(
    place: str, messages: dict[str, str], request: pytest.FixtureRequest, tmp_path: Path
):
    met = walk(request.getfixturevalue(place), tone(tmp_path).read_bytes())
    assert {code: answer.status_code for code, answer in met.items()} == STATUS
    for code, answer in met.items():
        assert answer.json() == {"error_code": code, "message": messages[code]}
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("strict", "негодное поле language (нужен код языка по ISO 639-1, например ru или ru-RU)"),
        ("english", "bad field language (an ISO 639-1 code is expected, such as ru or ru-RU)"),
    ],
)
@pytest.mark.parametrize("language", ["русский", "russian", "ru-", "_ru"])
def test_a_bad_language_is_told_what_is_expected(
    place: str, told: str, language: str, request: pytest.FixtureRequest, tmp_path: Path
):
    user = request.getfixturevalue(place).user()
    answer = user.post(("a.wav", tone(tmp_path).read_bytes()), language=language)
    assert answer.json()["message"].endswith(told)
    assert language not in answer.json()["message"].split()


# The size


def test_a_body_announced_too_large(strict: Service):
    user = strict.user()
    token = user.http.headers["Authorization"]
    with wire.upload(strict, token, Content_Length=HUGE) as request:
        answer = request.answer(3)  # nothing of the body was sent
    assert answer.status == 413
    assert answer.json() == {"error_code": "too_large", "message": RUSSIAN["too_large"]}


def test_a_sender_in_the_middle_of_a_body_too_large_hears_the_limit(strict: Service):
    """The answer comes while the client still sends, and must not be lost with the connection."""
    user = strict.user()
    for content in (b"\0" * 64 * MIB, iter([wire.part(), *[b"\0" * MIB] * 64, wire.TAIL])):
        answer = user.http.post(
            "/api/audio",
            content=content,
            headers={"Content-Type": f"multipart/form-data; boundary={wire.BOUNDARY}"},
        )
        assert answer.status_code == 413
        assert answer.json()["message"] == RUSSIAN["too_large"]


def test_a_body_too_large_that_announced_nothing(strict: Service):
    before, user = state(strict), strict.user()
    token = user.http.headers["Authorization"]
    with wire.upload(strict, token, Transfer_Encoding="chunked") as request:
        request.send(wire.chunk(wire.part()))
        for _ in range(24):
            request.send(wire.chunk(b"\0" * 65536))
        request.send(wire.chunk(wire.TAIL) + wire.chunk(b""))
        answer = request.answer()
    assert answer.status == 413
    assert answer.json() == {"error_code": "too_large", "message": RUSSIAN["too_large"]}
    assert state(strict) == before


def test_a_recording_of_exactly_the_limit_is_taken_and_one_byte_more_is_not(
    strict: Service, tmp_path: Path
):
    user, content = strict.user(), tone(tmp_path).read_bytes()
    whole = content + b"\0" * (MIB - len(content))
    assert user.post(("a.wav", whole), title="t" * 300, vocabulary="в" * 2000).status_code == 201
    before = state(strict)
    assert user.post(("a.wav", whole + b"\0")).json()["error_code"] == "too_large"
    assert state(strict) == before


def test_a_recording_longer_than_admitted_is_too_large(own: Service, tmp_path: Path):
    own.start("pb", "media", MAX_DURATION_HOURS="0.001")
    user = own.user()
    before = state(own)
    answer = user.post(("a.wav", tone(tmp_path, seconds=5).read_bytes()))
    assert answer.status_code == 413
    assert answer.json()["message"] == "запись больше допустимого размера: не дольше 0.001 ч"
    assert state(own) == before
    assert user.post(("a.wav", tone(tmp_path).read_bytes())).status_code == 201


# The order


@pytest.mark.parametrize("announced", [{"Content_Length": HUGE}, {"Transfer_Encoding": "chunked"}])
def test_who_asks_is_judged_before_the_body_is_read(strict: Service, announced: dict[str, object]):
    owner = strict.owner.headers["Authorization"]
    worker, _ = strict.session("workers", "workers@transcriber.local", "worker-password")
    for token, status, code in (
        ("", 401, "unauthorized"),
        ("rubbish", 401, "unauthorized"),
        (owner, 403, "forbidden"),
        (worker, 403, "forbidden"),
    ):
        with wire.upload(strict, token, **announced) as request:
            answer = request.answer(3)  # nothing of the body was sent
        assert (answer.status, answer.json()["error_code"]) == (status, code)


def test_too_many_uploads_are_refused_before_their_bodies(strict: Service):
    token = strict.user().http.headers["Authorization"]
    limit_rate(strict, {**RULE, "label": "POST /api/audio", "maxRequests": 1})
    try:
        answers = []
        for _ in range(2):
            with wire.upload(strict, token, Content_Length=HUGE) as request:
                answers.append(request.answer(3))
    finally:
        limit_rate(strict)
    assert [answer.status for answer in answers] == [413, 429]
    assert answers[1].json() == {
        "error_code": "too_many_requests",
        "message": RUSSIAN["too_many_requests"],
    }


# What nobody serves


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/audio"),
        ("PUT", "/api/audio"),
        ("DELETE", "/api/audio"),
        ("POST", "/api/audio/"),
        ("POST", "/api/audio/more"),
        ("GET", "/api/audio/%2e%2e%2fstatus"),
        ("PATCH", "/api/audio"),
        ("GET", "/api/status"),
        ("GET", "/api/status/"),
        ("GET", "/api/status/a/b"),
        ("POST", "/api/status/abcdefghijklmno"),
        ("GET", "/api/queue/nothing"),
        ("GET", "/api/queue/claim"),
        ("PUT", "/api/operations"),
    ],
)
def test_unknown_paths_and_methods_below_our_roots(strict: Service, method: str, path: str):
    for client in (httpx.Client(base_url=strict.url, trust_env=False), strict.user().http):
        with client:
            answer = client.request(method, path)
        assert answer.status_code == 404
        assert answer.json() == {"error_code": "not_found", "message": RUSSIAN["not_found"]}


def test_pocketbases_own_api_keeps_its_form(strict: Service):
    user = strict.user()
    for answer, status in (
        (user.http.get("/api/collections/recordings/records/abcdefghijklmno"), 404),
        (user.http.get("/api/nothing/of/ours"), 404),
        (user.http.get("/api/audios"), 404),
        (user.http.get("/api/collections/jobs/records"), 403),
        (user.http.post("/api/collections/users/auth-with-password", json={}), 400),
    ):
        assert answer.status_code == status
        assert set(answer.json()) == {"data", "message", "status"}


def test_a_worker_that_asks_badly_gets_our_form(strict: Service):
    token, _ = strict.session("workers", "workers@transcriber.local", "worker-password")
    worker = httpx.Client(
        base_url=strict.url, headers={"Authorization": token}, trust_env=False, timeout=20
    )
    with worker:
        for path in ("claim", "finish", "restart"):
            for body in ({}, {"results": "none", "count": "many"}):
                answer = worker.post(f"/api/queue/{path}", json=body)
                assert (answer.status_code, answer.json()["error_code"]) == (400, "bad_request")
        rubbish = worker.post(
            "/api/queue/claim", content=b"{", headers={"Content-Type": "application/json"}
        )
        assert (rubbish.status_code, rubbish.json()["error_code"]) == (400, "bad_request")
    for client, status in ((strict.user().http, 403), (strict.owner, 403)):
        assert client.post("/api/queue/claim", json={}).status_code == status
    assert httpx.post(f"{strict.url}/api/queue/claim", trust_env=False).status_code == 401


# Faults of our own


def test_a_fault_of_the_database_is_ours_and_not_the_senders(own: Service, tmp_path: Path):
    own.start("pb", "media")
    user = own.user()
    job_id = user.upload(tone(tmp_path))
    before = state(own)
    own.execute("ALTER TABLE transcripts RENAME TO transcripts_away")
    answer = user.http.get(f"/api/status/{job_id}")
    own.execute("ALTER TABLE transcripts_away RENAME TO transcripts")
    assert answer.status_code == 500
    assert answer.json() == {"error_code": "internal", "message": RUSSIAN["internal"]}
    assert user.status(job_id)["status"] == "uploaded"

    own.execute("CREATE TRIGGER full BEFORE INSERT ON jobs BEGIN SELECT RAISE(FAIL, 'no'); END")
    answer = user.post(("talk.wav", tone(tmp_path).read_bytes()))
    own.execute("DROP TRIGGER full")
    assert answer.status_code == 500
    assert answer.json() == {"error_code": "internal", "message": RUSSIAN["internal"]}
    assert state(own) == before
    assert user.post(("talk.wav", tone(tmp_path).read_bytes())).status_code == 201


def test_a_bug_in_a_handler_is_ours_and_not_the_senders(tmp_path: Path):
    """A copy of the service with a bug in it: the answer tells nothing, the log tells all."""
    copy = tmp_path / "copy"
    for name in ("pb", "pb_migrations", "worker"):
        shutil.copytree(REPOSITORY / name, copy / name)
    status = copy / "pb" / "pb_hooks" / "lib" / "status.js"
    broken = status.read_text().replace("function of(id, ownerId) {", "$&\n  null.nothing()", 1)
    broken = broken.replace("$&", "function of(id, ownerId) {")
    assert broken != status.read_text()
    status.write_text(broken)
    service = Service(tmp_path, PYTHONPATH=str(copy))
    try:
        service.start("pb")
        answer = service.user().http.get("/api/status/abcdefghijklmno")
        assert answer.status_code == 500
        assert answer.json() == {"error_code": "internal", "message": RUSSIAN["internal"]}
        [line] = [line for line in service.logged() if line["message"] == "request failed"]
        assert "TypeError" in line["data"]
        assert "/api/status/{id}" in line["data"]
    finally:
        service.close()


# Counted


def test_refusals_are_counted_by_their_code(strict: Service, tmp_path: Path):
    def refused(code: str) -> float:
        series = f'transcriber_rejected_total{{error_code="{code}",input="http"}}'
        return strict.metrics()[series]

    before = {code: refused(code) for code in STATUS}
    walk(strict, tone(tmp_path).read_bytes())
    # Asking for a status or a text is no handing in, and these were met there.
    asking = {"not_found", "too_many_requests", "not_ready"}
    expected = {code: n + (code not in asking) for code, n in before.items()}
    assert wait_until(lambda: {code: refused(code) for code in STATUS} == expected, 5)
