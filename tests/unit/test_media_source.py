"""The metadata source answers the intake, and gives nothing else away."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from loguru import logger

from tests.acceptance.service import free_port, wait_until
from tests.media_corpus import m4a, silent_video
from tests.media_inside import crashing_probe, hanging_probe
from tests.unit.strangers import connect, drip, hung_up, strangers
from worker.errors import ConfigurationError
from worker.media import source as module
from worker.media.source import MetadataSource

SECRET = "a secret of the service"


def free_address() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outside = tmp_path_factory.mktemp("media")
    root = outside / "storage"
    (root / "recordings" / "id").mkdir(parents=True)
    (root / "recordings" / "id" / "good.m4a").write_bytes(m4a())
    (root / "video.mp4").write_bytes(silent_video())
    (root / "empty.mp3").write_bytes(b"")
    (root / "text.mp3").write_bytes(b"text" * 100)
    (outside / "outside.m4a").write_bytes(m4a())
    (root / "leads-out.m4a").symlink_to(outside / "outside.m4a")
    (root / "leads-out").symlink_to(outside)
    (root / "leads-in.m4a").symlink_to(root / "recordings" / "id" / "good.m4a")
    (root / "circle").symlink_to(root / "circle")
    (root / "null").symlink_to("/dev/null")
    os.mkfifo(root / "fifo")
    return root


@pytest.fixture
def address() -> str:
    return free_address()


@pytest.fixture(scope="module")
def running(root: Path) -> Iterator[str]:
    """The address of a source that runs."""
    address = free_address()
    with MetadataSource(address, SECRET, root):
        yield address


@pytest.fixture
def client(running: str) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {SECRET}"}
    with httpx.Client(base_url=f"http://{running}", headers=headers, timeout=10) as client:
        yield client


@pytest.fixture
def log() -> Iterator[list[str]]:
    lines: list[str] = []
    handler = logger.add(lines.append, level="TRACE")
    yield lines
    logger.remove(handler)


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("recordings/id/good.m4a", 200, {"duration": 3.0, "has_audio": True}),
        ("leads-in.m4a", 200, {"duration": 3.0, "has_audio": True}),
        ("video.mp4", 200, {"duration": 2.0, "has_audio": False}),
        ("empty.mp3", 200, {"duration": 0.0, "has_audio": False}),
        ("text.mp3", 422, None),
        ("absent.mp3", 404, None),
        ("recordings", 404, None),
        (".", 404, None),
        ("fifo", 404, None),
        ("circle", 404, None),
        ("x" * 5000, 404, None),
        ("leads-out.m4a", 400, None),
        ("leads-out/outside.m4a", 400, None),
        ("../outside.m4a", 400, None),
        ("recordings/../empty.mp3", 400, None),
        ("/etc/hostname", 400, None),
        ("null", 400, None),
        ("", 400, None),
        ("a\0b", 400, None),
        (7, 400, None),
        (None, 400, None),
    ],
)
def test_an_answer(
    path: object, status: int, body: dict[str, object] | None, client: httpx.Client,
    log: list[str], root: Path,
) -> None:  # fmt: skip
    answer = client.post("/probe", json={"path": path})

    assert answer.status_code == status
    if body is None:
        assert list(answer.json()) == ["error"]
    else:
        assert answer.json() == pytest.approx(body, abs=0.05)
    told = answer.text + "".join(log)
    assert str(root.parent) not in told
    assert ".mp3" not in told
    assert ".m4a" not in told


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", f"Bearer {SECRET}x", SECRET, "Bearer секрет".encode()]
)
def test_without_the_secret_nothing_is_said(header: str | bytes | None, running: str) -> None:
    headers = {} if header is None else {"Authorization": header}

    answers = [
        httpx.post(f"http://{running}{path}", json={"path": "empty.mp3"}, headers=headers)
        for path in ("/probe", "/elsewhere")
    ]

    assert [each.status_code for each in answers] == [401, 401]
    assert all(each.json() == {"error": "wrong secret"} for each in answers)


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"\xff\xfe", b"", b"[" * 10_000, b'{"path": "empty.mp3"}' + b" " * 20_000],
)
def test_a_bad_request(content: bytes, client: httpx.Client) -> None:
    assert client.post("/probe", content=content).status_code == 400
    assert client.post("/probe", json={"path": "empty.mp3"}).status_code == 200


@pytest.mark.parametrize("length", ["-1", "many", "1e3", "99999999999999999999"])
def test_a_length_that_is_none(length: str, running: str) -> None:
    with connect(running) as connection:
        connection.sendall(
            f"POST /probe HTTP/1.1\r\nAuthorization: Bearer {SECRET}\r\n"
            f"Content-Length: {length}\r\n\r\n".encode()
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")


def test_a_body_of_unknown_length_is_refused(client: httpx.Client) -> None:
    assert client.post("/probe", content=iter([b"{}"])).status_code == 400


def test_another_address_or_method(client: httpx.Client) -> None:
    assert client.post("/elsewhere", json={}).status_code == 404
    assert client.get("/probe").status_code == 501


def test_what_is_kept_is_written_through(
    client: httpx.Client, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file, each folder above it, and the database's log with its folder."""
    log = root.parent / "data.db-wal"
    log.write_bytes(b"transactions")
    written: set[Path] = set()
    monkeypatch.setattr(os, "fsync", lambda fd: written.add(Path(f"/proc/self/fd/{fd}").readlink()))
    answer = client.post("/keep", json={"path": "recordings/id/good.m4a"})
    assert (answer.status_code, answer.json()) == (200, {})
    file = root / "recordings" / "id" / "good.m4a"
    assert written == {log, file, *list(file.parents)[:4]}
    assert list(file.parents)[3] == root.parent

    def full(fd: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "fsync", full)
    assert client.post("/keep", json={"path": "recordings/id/good.m4a"}).status_code == 503


def test_a_connection_serves_many_requests_quickly(client: httpx.Client) -> None:
    client.post("/probe", json={"path": "leads-in.m4a"})
    times = []
    for _ in range(20):
        started = time.perf_counter()
        client.post("/probe", json={"path": "leads-in.m4a"})
        times.append(time.perf_counter() - started)

    # Not the 40 ms that an answer in two packets takes to be acknowledged.
    assert sorted(times)[5] < 0.03
    pool = client._transport._pool  # type: ignore[attr-defined]
    assert len(pool.connections) == 1


@pytest.mark.parametrize("probe", [crashing_probe, hanging_probe])
def test_a_file_that_kills_its_reader_costs_only_itself(
    probe: object, root: Path, address: str, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 1.0)
    monkeypatch.setattr(module, "probe", probe)
    headers = {"Authorization": f"Bearer {SECRET}"}

    def ask(path: str) -> int:
        return httpx.post(
            f"http://{address}/probe", json={"path": path}, headers=headers, timeout=10
        ).status_code

    with MetadataSource(address, SECRET, root), ThreadPoolExecutor(6) as threads:
        bad = [threads.submit(ask, "video.mp4") for _ in range(2)]
        good = [threads.submit(ask, "leads-in.m4a") for _ in range(8)]
        assert [each.result() for each in good] == [200] * 8
        assert [each.result() for each in bad] == [503] * 2

    assert any("decode media" in line for line in log)
    assert not any("video" in line for line in log)


def test_a_port_in_use_is_a_problem_of_the_settings(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConfigurationError) as caught:
            MetadataSource(address, SECRET, root).start()

    assert [each.key for each in caught.value.problems] == ["MEDIA_HTTP"]


def test_stopping_drops_open_connections_and_frees_the_port(root: Path, address: str) -> None:
    for _ in range(2):
        source = MetadataSource(address, SECRET, root)
        source.start()
        with connect(address) as idle:
            idle.sendall(
                f"POST /probe HTTP/1.1\r\nAuthorization: Bearer {SECRET}\r\n"
                "Content-Length: 2\r\n\r\n{}".encode()
            )
            assert idle.recv(4096).startswith(b"HTTP/1.1 400 ")
            started = time.monotonic()
            source.stop()
            assert idle.recv(1) == b""
        assert time.monotonic() - started < 2


def test_slow_senders_are_dropped(
    root: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_SECONDS", 0.2)
    with MetadataSource(address, SECRET, root), connect(address) as slow:
        slow.sendall(b"POST /probe HTTP/1.1\r\nHost: x\r\n")
        assert slow.recv(1) == b""


def test_a_slow_sender_without_the_secret_has_seconds_in_all(
    root: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STRANGER_SECONDS", 0.3)
    with MetadataSource(address, SECRET, root):
        with connect(address) as slow:
            assert 0.2 < drip(slow, limit=5) < 3
        with strangers(address, 2) as [begun, silent]:
            assert hung_up(begun)
            assert hung_up(silent)


def test_strangers_keep_out_nobody_with_the_secret(root: Path, address: str) -> None:
    headers = {"Authorization": f"Bearer {SECRET}"}
    with (
        MetadataSource(address, SECRET, root),
        strangers(address, module.MAX_CONNECTIONS + 6) as held,
    ):
        started = time.monotonic()
        for _ in range(3):  # each on a connection of its own
            answer = httpx.post(
                f"http://{address}/probe", json={"path": "empty.mp3"}, headers=headers
            )
            assert answer.status_code == 200
        assert time.monotonic() - started < module.STRANGER_SECONDS / 2, "waited for their end"
        assert all(hung_up(each) for each in held[:7]), "the oldest gave their places"
        held[-1].settimeout(0.1)
        assert not hung_up(held[-1])


def asked(connection: socket.socket) -> int:
    """The status of a request with the secret, after which the connection stays open."""
    body = b'{"path": "empty.mp3"}'
    connection.sendall(
        f"POST /probe HTTP/1.1\r\nAuthorization: Bearer {SECRET}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    return int(connection.recv(4096).split(b" ", 2)[1])


def test_those_with_the_secret_have_places_of_their_own(
    root: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr(module, "STRANGER_SECONDS", 0.3)

    def asked_anew() -> int:
        with connect(address) as connection:
            return asked(connection)

    with MetadataSource(address, SECRET, root):
        guests = [connect(address) for _ in range(3)]
        assert [asked(each) for each in guests] == [200] * 3
        assert asked_anew() == 503
        with strangers(address, 8) as others:
            assert all(hung_up(each) for each in others)
        assert [asked(each) for each in guests] == [200] * 3, "longer there than a stranger may be"
        for each in guests:
            each.close()
        wait_until(lambda: asked_anew() == 200, 5, "a place")
