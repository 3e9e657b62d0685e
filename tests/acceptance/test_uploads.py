"""Odd uploads, large ones, slow ones, broken ones: only a recording leaves anything behind."""

from __future__ import annotations

import io
import resource
import shutil
import socket
import struct
import time
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.acceptance import wire
from tests.acceptance.service import REPOSITORY, Service, User, tone, wait_until
from tests.acceptance.test_intake import accepted, files_of, state

MIB = 1 << 20
LARGE = 300 * MIB
SERVER_SECONDS = 2


@pytest.mark.parametrize(
    ("name", "extension"),
    [
        ("../../../etc/passwd.mp3", "mp3"),
        ("C:\\Users\\me\\Desktop\\talk.wav", "wav"),
        ("talk.mp3/../../x", "audio"),
        ("talk.wav\\..\\..", "audio"),
        ("talk.\x01\x02\t[31m", "audio"),
        ("talk\x00.mp3", "mp3"),
        ("talk." + "a" * 300, "audio"),
        ("\u202eexe.3pm.wav", "wav"),
        ("talk.\u202emp3", "audio"),
        ("....", "audio"),
        (".", "audio"),
        ("..", "audio"),
        (".mp3", "mp3"),
        ("TALK.MP3", "MP3"),
        ("talk.attrs", "audio"),  # PocketBase's own notes beside a file are named so
        ("разговор.звук", "audio"),
        ("разговор.ogg", "ogg"),
        ("talk.mp3 ", "audio"),
        ("talk.m p3", "audio"),
        ("a" * 5000 + ".opus", "opus"),
        ('quo"te.flac', "flac"),
    ],
)
def test_odd_names(shelf: Service, user: User, tmp_path: Path, name: str, extension: str):
    job_id = accepted(user.post((name, tone(tmp_path, seconds=0.1).read_bytes())))
    [stored] = files_of(shelf, job_id)
    assert stored.suffix == f".{extension}"
    assert stored.stem.isalnum()
    assert len(stored.stem) == 20
    [recording] = shelf.rows("SELECT * FROM recordings WHERE id = ?", job_id)
    assert recording["extension"] == extension
    assert recording["audio"] == stored.name


@pytest.mark.parametrize(
    ("files", "fields"),
    [
        (("audio", "audio"), {}),
        (("audio", "other"), {}),
        (("other",), {}),
        (("audio",), {"language": "russian!"}),
        (("audio",), {"language": "r"}),
        (("audio",), {"language": "ru; DROP TABLE"}),
        (("audio",), {"vocabulary": "s" * 2001}),
        (("audio",), {"title": "t" * 301}),
        (("audio",), {"channels": "left"}),
    ],
)
def test_what_is_no_single_recording_with_good_fields(
    shelf: Service, user: User, tmp_path: Path, files: tuple[str, ...], fields: dict[str, str]
):
    before, content = state(shelf), tone(tmp_path, seconds=0.1).read_bytes()
    answer = user.http.post(
        "/api/audio", files=[(field, ("talk.wav", content)) for field in files], data=fields
    )
    assert answer.status_code == 400
    assert answer.json()["error_code"] == "bad_request"
    for name in fields:
        assert name in answer.json()["message"]
    assert state(shelf) == before


def test_hints_are_kept_as_given(shelf: Service, user: User, tmp_path: Path):
    content = tone(tmp_path, seconds=0.1).read_bytes()
    long = {"title": "ж" * 300, "vocabulary": "щ" * 2000, "language": " ru-RU "}
    job_id = accepted(user.post(("talk.wav", content), **long))
    [recording] = shelf.rows("SELECT * FROM recordings WHERE id = ?", job_id)
    assert recording["title"] == long["title"]
    assert recording["vocabulary"] == long["vocabulary"]
    assert recording["language"] == "ru"
    job_id = accepted(user.post(("talk.wav", content), language="RU_ru"))
    [recording] = shelf.rows("SELECT * FROM recordings WHERE id = ?", job_id)
    assert recording["language"] == "ru"
    job_id = accepted(user.post(("talk.wav", content)))
    [recording] = shelf.rows("SELECT * FROM recordings WHERE id = ?", job_id)
    assert (recording["title"], recording["vocabulary"], recording["language"]) == ("", "", "")


def test_ten_uploads_at_once(shelf: Service, user: User, tmp_path: Path):
    contents = [tone(tmp_path, seconds=0.1).read_bytes() + bytes([n]) * 1000 for n in range(10)]
    with ThreadPoolExecutor(10) as pool:
        jobs = list(pool.map(lambda body: accepted(user.post(("talk.wav", body))), contents))
    assert len(set(jobs)) == 10
    for job_id, content in zip(jobs, contents, strict=True):
        [stored] = files_of(shelf, job_id)
        assert stored.read_bytes() == content
        assert shelf.job(job_id)["state"] == "uploaded"


# Large


def process_status(service: Service, key: str) -> int:
    """A size of PocketBase's process, in bytes."""
    text = Path(f"/proc/{service.processes['pb'].pid}/status").read_text()
    [line] = [line for line in text.splitlines() if line.startswith(key)]
    return int(line.split()[1]) * 1024


def large() -> Iterator[bytes]:
    """A form with a large recording in it, in pieces: hours of silence."""
    header = io.BytesIO()
    with wave.open(header, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.setnframes(LARGE // 2)
        file.writeframes(b"\0\0")
    head = header.getvalue()[:40] + struct.pack("<I", LARGE)
    yield wire.part() + head
    for _ in range(LARGE // MIB):
        yield b"\0" * MIB
    yield wire.TAIL


def test_memory_does_not_grow_with_the_recording(own: Service, tmp_path: Path):
    own.start("pb", "media")
    user = own.user()
    user.upload(tone(tmp_path))  # what is loaded once is loaded
    Path(f"/proc/{own.processes['pb'].pid}/clear_refs").write_text("5")  # the peak starts anew
    before = process_status(own, "VmHWM")
    headers = {"Content-Type": f"multipart/form-data; boundary={wire.BOUNDARY}"}
    slowest = 0.0
    with ThreadPoolExecutor(1) as pool:
        uploading = pool.submit(user.http.post, "/api/audio", content=large(), headers=headers)
        calls = 0
        while not uploading.done():
            started = time.monotonic()
            assert user.http.get("/api/status/abcdefghijklmno").status_code == 404
            slowest = max(slowest, time.monotonic() - started)
            calls += 1
            time.sleep(0.05)
    job_id = accepted(uploading.result())
    assert calls > 5
    assert slowest < 2, "others wait for a large upload"
    [stored] = files_of(own, job_id)
    assert stored.stat().st_size > LARGE
    assert process_status(own, "VmHWM") - before < 40 * MIB  # PocketBase's own way takes twice that


# Slow


def test_a_slow_upload_outlives_the_servers_limit(tmp_path: Path):
    """PocketBase ends every request after five minutes. In a copy of the service a layer makes
    them two seconds; an upload that takes three arrives, and its answer with it."""
    copy = tmp_path / "copy"
    for name in ("pb", "pb_migrations", "worker"):
        shutil.copytree(REPOSITORY / name, copy / name)
    (copy / "pb" / "pb_hooks" / "hurry.pb.js").write_text(
        "routerUse(new Middleware((e) => {\n"
        f"  const soon = new DateTime().add({SERVER_SECONDS}e9).time()\n"
        "  e.response.unwrap().setReadDeadline(soon)\n"
        "  e.response.unwrap().setWriteDeadline(soon)\n"
        "  return e.next()\n"
        "}, -2000, 'hurry'))\n"
    )
    service = Service(tmp_path, PYTHONPATH=str(copy))
    try:
        service.start("pb", "media")
        user = service.user()
        body = wire.part() + tone(tmp_path).read_bytes() + wire.TAIL
        token = user.http.headers["Authorization"]

        # The layer works: another route, as slow, is ended.
        with socket.create_connection(("127.0.0.1", service.ports["POCKETBASE"])) as raw:
            raw.sendall(
                b"POST /api/collections/users/auth-with-password HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
            )
            raw.settimeout(SERVER_SECONDS + 3)
            assert b" 200 " not in raw.recv(4096)

        with wire.upload(service, token, Content_Length=len(body)) as request:
            pieces = 6 * (SERVER_SECONDS + 1)
            size = len(body) // pieces + 1
            for n in range(pieces):
                request.send(body[n * size : (n + 1) * size])
                time.sleep(1 / 6)
            answer = request.answer()
        assert answer.status == 201, answer
        assert service.job(answer.json()["job_id"])["state"] == "uploaded"
    finally:
        service.close()


# Broken


def temporary(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_a_sender_who_hangs_up_leaves_nothing(own: Service, tmp_path: Path):
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    own.start("pb", TMPDIR=str(scratch))
    own.start("media")
    token = own.user().http.headers["Authorization"]
    before = state(own)
    for how in ("orderly", "reset"):
        with wire.upload(own, token, Content_Length=200 * MIB) as request:
            request.send(wire.part())
            for _ in range(100):
                request.send(b"\0" * MIB)
            wait_until(lambda: temporary(scratch), 10, "the upload's temporary file")
            if how == "reset":
                request.socket.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
        wait_until(lambda: not temporary(scratch), 10, "the temporary file's end")
        assert state(own) == before
    assert own.user().post(("talk.wav", tone(tmp_path).read_bytes())).status_code == 201
    wait_until(lambda: not temporary(scratch), 10, "nothing beside an accepted recording")


def test_a_name_that_breaks_the_forms_own_rules(shelf: Service, user: User):
    """Raw control characters are no part of a header: the form cannot be read, and that is said."""
    before = state(shelf)
    token = user.http.headers["Authorization"]
    body = wire.part("ta\x1b[31m\x01lk.mp3") + b"content" + wire.TAIL
    with wire.upload(shelf, token, Content_Length=len(body)) as request:
        request.send(body)
        answer = request.answer()
    assert (answer.status, answer.json()["error_code"]) == (400, "bad_request")
    assert state(shelf) == before


def test_a_form_that_breaks_off_is_a_bad_request(shelf: Service, user: User, tmp_path: Path):
    before = state(shelf)
    content = wire.part() + tone(tmp_path).read_bytes()
    answer = user.http.post(
        "/api/audio",
        content=content,
        headers={"Content-Type": f"multipart/form-data; boundary={wire.BOUNDARY}"},
    )
    assert answer.status_code == 400
    assert answer.json()["error_code"] == "bad_request"
    assert state(shelf) == before


# No space


def test_a_full_disk_refuses_and_the_service_goes_on(own: Service, tmp_path: Path):
    """A limit of file size stands for the full disk: the write fails in the middle."""
    own.start("pb", "media")
    user = own.user()
    user.upload(tone(tmp_path))
    before = state(own)
    pid, limit = own.processes["pb"].pid, 8 * MIB
    previous = resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        answer = user.post(("talk.wav", tone(tmp_path).read_bytes() + b"\0" * 16 * MIB))
        assert answer.status_code == 500
        assert answer.json()["error_code"] == "internal"
        assert state(own) == before
        accepted(user.post(("talk.wav", tone(tmp_path).read_bytes())))
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, previous)
    content = tone(tmp_path).read_bytes() + b"\0" * 16 * MIB
    [stored] = files_of(own, accepted(user.post(("talk.wav", content))))
    assert stored.stat().st_size == len(content)
    [line] = [line for line in own.logged() if line["message"] == "request failed"]
    assert "file too large" in line["data"]
    assert httpx.get(f"{own.url}/api/health", trust_env=False).status_code == 200
