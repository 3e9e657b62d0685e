"""`send` and `status` against a server of our own on loopback."""

from __future__ import annotations

import json
import stat
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from worker import settings
from worker.cli import account, api, main, send
from worker.cli.account import Account
from worker.cli.progress import Bar

EMAIL, PASSWORD = "sender@example.com", "correct horse"
ACCEPTED = {"job_id": "job1", "status": "uploaded"}
DONE = {"job_id": "job1", "status": "done", "created_at": "2026-01-02 03:04:05.678Z"}

Answer = tuple[int, Any]


class Server(ThreadingHTTPServer):
    """Answers from lists: the next one each time, the last one for ever."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.uploads: list[Answer] = [(201, ACCEPTED)]
        self.statuses: list[Answer] = [(200, DONE | {"transcription_text": "Привет"})]
        self.logins = 0
        self.bodies: list[bytes] = []
        self.keep_bodies = True
        self.asked: list[str] = []
        self.on_status: Callable[[], None] = lambda: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = b""
        left = int(self.headers["Content-Length"])
        while left:
            part = self.rfile.read(min(left, 65536))
            left -= len(part)
            if self.server.keep_bodies or self.path != "/api/audio":
                body += part
        if self.path == "/api/collections/users/auth-with-password":
            self.server.logins += 1
            identity = json.loads(body)
            if identity == {"identity": EMAIL, "password": PASSWORD}:
                self._answer(200, {"token": f"token{self.server.logins}"})
            else:
                self._answer(400, {"status": 400, "message": "Failed to authenticate.", "data": {}})
        else:
            assert self.path == "/api/audio"
            assert self.headers["Authorization"].startswith("token")
            self.server.bodies.append(body)
            self._answer(*_next(self.server.uploads))

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.on_status()
        self._answer(*_next(self.server.statuses))

    def _answer(self, status: int, body: Any) -> None:
        if body is None:  # the line goes dead
            self.close_connection = True
            return
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def _next(answers: list[Answer]) -> Answer:
    return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.chdir(tmp_path)
    for key in settings.KEYS:
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(send, "FIRST_LOOK", 0.01)
    monkeypatch.setattr(send, "LONGEST_LOOK", 0.02)
    with Server() as server:
        monkeypatch.setenv("TRANSCRIBER_URL", server.url)
        monkeypatch.setenv("TRANSCRIBER_EMAIL", EMAIL)
        monkeypatch.setenv("TRANSCRIBER_PASSWORD", PASSWORD)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def recording(tmp_path: Path) -> str:
    path = tmp_path / "voice.ogg"
    path.write_bytes(b"OggS and so on")
    return str(path)


def test_the_text_is_all_there_is_on_standard_output(server, recording, capsys):
    server.statuses[:0] = [(200, DONE | {"status": "uploaded"}), (200, DONE | {"progress": 0.5})]
    server.statuses[1] = (200, DONE | {"status": "submitted", "progress": 0.5})
    assert main(["send", recording]) == 0
    output = capsys.readouterr()
    assert output.out == "Привет\n"
    assert "job1" in output.err
    assert server.asked == ["/api/status/job1"] * 3


def test_the_file_and_what_is_known_of_it_are_sent(server, recording):
    hints = {"language": "ru", "title": "Речь", "vocabulary": "a, b", "channels": "split"}
    main(["send", recording, *(word for name in hints for word in (f"--{name}", hints[name]))])
    body = server.bodies[0]
    assert b'name="audio"; filename="voice.ogg"' in body
    assert b"OggS and so on" in body
    for name, value in hints.items():
        assert f'name="{name}"\r\n\r\n{value}\r\n'.encode() in body


def test_what_is_not_known_is_not_sent(server, recording):
    main(["send", recording])
    assert server.bodies[0].count(b"Content-Disposition") == 1


def test_several_texts_each_have_a_header_in_the_order_asked(server, recording, tmp_path, capsys):
    second = tmp_path / "second.wav"
    second.write_bytes(b"RIFF")
    server.uploads = [(201, ACCEPTED), (201, ACCEPTED | {"job_id": "job2"})]
    assert main(["send", recording, str(second)]) == 0
    assert capsys.readouterr().out == "== voice.ogg ==\nПривет\n== second.wav ==\nПривет\n"
    assert server.asked == ["/api/status/job1", "/api/status/job2"]


def test_a_file_that_cannot_be_sent_does_not_stop_the_others(server, recording, tmp_path, capsys):
    assert main(["send", str(tmp_path / "nothing.wav"), str(tmp_path), recording]) == 1
    output = capsys.readouterr()
    assert "nothing.wav: no such file or directory" in output.err
    assert "is a directory" in output.err
    assert "Привет" in output.out


@pytest.mark.parametrize(
    "refusal",
    [
        (413, {"error_code": "too_large", "message": "запись больше размера: 10 МБ"}),
        (500, {"error_code": "internal", "message": "внутренняя ошибка"}),
    ],
)
def test_a_refusal_is_told_in_the_servers_words(server, recording, capsys, refusal):
    server.uploads = [refusal]
    assert main(["send", recording]) == 1
    output = capsys.readouterr()
    assert f"voice.ogg: {refusal[1]['message']}\n" in output.err
    assert output.out == ""
    assert len(server.bodies) == 1  # it may have arrived: never sent twice


def test_a_stopped_recording_is_a_failure(server, recording, capsys):
    server.statuses = [(200, DONE | {"status": "normalized", "halted": True})]
    assert main(["send", recording]) == 1
    output = capsys.readouterr()
    assert "could not be transcribed (stopped at normalized, job job1)" in output.err
    assert output.out == ""


def test_no_speech_is_said_and_is_no_failure(server, recording, capsys):
    server.statuses = [(200, DONE | {"transcription_text": ""})]
    assert main(["send", recording]) == 0
    output = capsys.readouterr()
    assert "no speech was found in it" in output.err
    assert output.out == ""


def test_trouble_on_the_way_is_waited_out(server, recording, capsys):
    trouble = [(502, b"<html>"), (0, None), (500, {"message": "x"}), (429, {"message": "slowly"})]
    server.statuses[:0] = trouble
    assert main(["send", recording]) == 0
    assert capsys.readouterr().out == "Привет\n"


def test_trouble_for_too_long_ends_in_how_to_ask(server, recording, capsys, monkeypatch):
    monkeypatch.setattr(send, "PATIENCE", 0.1)
    server.statuses = [(503, b"")]
    assert main(["send", recording]) == 1
    assert "the work goes on" in (error := capsys.readouterr().err)
    assert "status job1" in error


def test_an_answer_in_between_ends_the_trouble(server, recording, capsys, monkeypatch):
    monkeypatch.setattr(send, "PATIENCE", 0.1)
    quiet = [(200, DONE | {"status": "submitted"})] * 12
    server.statuses[:0] = [(503, b""), *quiet, (503, b"")]
    assert main(["send", recording]) == 0


def test_patience_begins_anew_with_each_answer():
    patience = api.Patience(0.1)
    assert not patience.spent()
    time.sleep(0.1)
    assert patience.spent()
    patience.well()
    assert not patience.spent()


def test_a_session_that_ran_out_is_renewed(server, recording, capsys):
    server.statuses.insert(0, (401, {"error_code": "unauthorized", "message": "требуется вход"}))
    assert main(["send", recording]) == 0
    assert server.logins == 2
    assert capsys.readouterr().out == "Привет\n"


def test_an_interrupt_says_that_the_work_goes_on(server, recording, capsys, monkeypatch):
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    server.statuses = [(200, DONE | {"status": "submitted"})]
    monkeypatch.setattr(send.time, "sleep", interrupt)
    assert main(["send", recording]) == 130
    assert "The work goes on. Ask with: " in (error := capsys.readouterr().err)
    assert "status job1" in error


def test_a_wrong_password_is_one_line(server, recording, capsys, monkeypatch):
    monkeypatch.setenv("TRANSCRIBER_PASSWORD", "wrong-wrong")
    assert main(["send", recording]) == 1
    assert capsys.readouterr().err == (
        f"transcriber: {server.url} does not accept this e-mail and password\n"
    )


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:9", "connection refused (is it running?)"),
        ("http://nowhere.invalid", "unknown host"),
        ("nowhere", "missing an 'http://' or 'https://' protocol"),
        ("http://[::1", "server http://[::1"),
    ],
)
def test_a_server_that_is_not_there_is_one_line(
    server, recording, capsys, monkeypatch, url, reason
):
    monkeypatch.setenv("TRANSCRIBER_URL", url)
    assert main(["send", recording]) == 1
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


def test_an_address_with_a_password_in_it_is_refused_and_not_shown(
    server, recording, capsys, monkeypatch
):
    monkeypatch.setenv("TRANSCRIBER_URL", server.url.replace("://", "://user:hush@"))
    assert main(["send", recording]) == 1
    error = capsys.readouterr().err
    assert "TRANSCRIBER_URL: must have no user and password" in error
    assert "hush" not in error
    assert server.logins == 0


def test_memory_does_not_grow_with_the_file(server, tmp_path):
    main(["status", "job1"])  # what is imported and opened once
    server.keep_bodies = False
    path = tmp_path / "long.wav"
    with path.open("wb") as file:
        file.truncate(64 << 20)
    with api.client(server.url) as http:
        session = api.Session(http, "users", EMAIL, PASSWORD)
        tracemalloc.start()
        try:
            with send.Reading(path, Bar("x")) as file:
                assert session.upload("long.wav", file, {}) == "job1"
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()


def test_a_name_that_is_no_text_is_sent_all_the_same(server, tmp_path):
    path = tmp_path / "\udcff.wav"
    path.write_bytes(b"RIFF")
    main(["send", str(path)])
    assert b'filename="?.wav"' in server.bodies[0]


def test_status_tells_state_progress_and_text(server, capsys):
    server.statuses = [(200, DONE | {"status": "submitted", "progress": 0.42})]
    assert main(["status", "job1"]) == 0
    assert capsys.readouterr().out == (
        "status: submitted\nsent: 2026-01-02 03:04:05.678Z\nprogress: 42%\n"
    )
    server.statuses = [(200, DONE | {"transcription_text": "Текст"})]
    main(["status", "job1"])
    assert capsys.readouterr().out.endswith("\n\nТекст\n")
    server.statuses = [(200, DONE | {"status": "normalized", "halted": True})]
    main(["status", "job1"])
    assert "status: normalized (stopped for good)" in capsys.readouterr().out


def test_an_unknown_id_is_told_in_the_servers_words(server, capsys):
    server.statuses = [(404, {"error_code": "not_found", "message": "запись не найдена"})]
    assert main(["status", "../jobs?x"]) == 1
    assert capsys.readouterr().err == "transcriber: запись не найдена\n"
    assert server.asked == ["/api/status/..%2Fjobs%3Fx"]


def test_the_account_kept_is_used_from_any_folder(server, recording, capsys, monkeypatch, tmp_path):
    (tmp_path / ".env").write_text("ANOTHER_PROJECTS=file\n")
    for name in ("URL", "EMAIL", "PASSWORD"):
        monkeypatch.delenv(f"TRANSCRIBER_{name}")
    path = account.keep(Account(server.url, EMAIL, PASSWORD))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert main(["send", recording]) == 0


@pytest.mark.parametrize("other", ["URL", "EMAIL"])
def test_a_password_kept_goes_to_its_own_server_and_account_only(
    server, recording, capsys, monkeypatch, other
):
    elsewhere = {"URL": "http://elsewhere.example", "EMAIL": "other@example.com"}[other]
    mine = {"URL": server.url, "EMAIL": EMAIL} | {other: elsewhere}
    account.keep(Account(mine["URL"], mine["EMAIL"], PASSWORD))
    monkeypatch.delenv("TRANSCRIBER_PASSWORD")
    assert main(["send", recording]) == 1
    assert "set TRANSCRIBER_PASSWORD" in capsys.readouterr().err
    assert server.logins == 0


@pytest.mark.parametrize("content", ["", "[]", "{}", "\x00"])
def test_a_broken_file_of_credentials_is_one_line(server, recording, capsys, content):
    path = account.keep(Account("http://x", "y", "z"))
    path.write_text(content)
    assert main(["send", recording]) == 1
    assert "remove it to begin anew" in (error := capsys.readouterr().err)
    assert error.count("\n") == 1


def test_without_any_account_it_says_how_to_make_one(server, recording, capsys, monkeypatch):
    monkeypatch.delenv("TRANSCRIBER_EMAIL")
    assert main(["send", recording]) == 1
    assert "transcriber user add EMAIL" in capsys.readouterr().err


def test_the_bar_is_for_terminals(capsys, monkeypatch):
    with Bar("a") as bar:
        bar.show(0.5, "sending")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Bar("a") as bar:
        bar.show(0.5, "sending")
        bar.show(0.5, "sending")
        bar.show(7, "sending")
    shown = capsys.readouterr().err
    assert shown.count(" 50%") == 1
    assert "[##############################] 100%" in shown
    assert shown.endswith("\r\x1b[K")
