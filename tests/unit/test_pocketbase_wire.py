"""The many small requests to PocketBase: kept connections, and every way that a line can break."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.acceptance.service import free_port
from worker.pocketbase import wire
from worker.pocketbase.wire import Broken, Wire

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
Behaviour = Callable[[socket.socket, bytes], bool]
"""From a connection and a whole request to whether another is waited for."""


class Far:
    """The other side: what it got, and over how many connections."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.behaviour: Behaviour = lambda line, _: line.sendall(OK) is None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.hung_up = threading.Event()

    def close(self) -> None:
        self._listener.close()

    def run(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with line:
            while request := self._read(line):
                self.requests.append(request)
                if not self.behaviour(line, request):
                    break
        self.hung_up.set()

    def _read(self, line: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            more = line.recv(1 << 16)
            if not more:
                return b""
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = 0
        for field in head.split(b"\r\n"):
            if field.lower().startswith(b"content-length:"):
                length = int(field.split(b":")[1])
        while len(body) < length:
            body += line.recv(1 << 20)
        return head + b"\r\n\r\n" + body


@pytest.fixture
def far() -> Iterator[Far]:
    far = Far()
    threading.Thread(target=far.run, daemon=True).start()
    yield far
    far.close()


@contextmanager
def wired(far: Far, below: str = "") -> Iterator[Wire]:
    wire = Wire(f"http://127.0.0.1:{far.port}{below}")
    try:
        yield wire
    finally:
        wire.close()


def send(wire: Wire, path: str = "/api", timeout: float = 5, **named: object) -> wire.Reply:
    return wire.send("POST", path, headers={"Authorization": "t"}, timeout=timeout, **named)


def test_a_request_is_one_piece_and_reads_as_http(far: Far):
    with wired(far, "/below/") as wire:
        reply = send(wire, "/api/a b?n=1", json={"имя": "ё"})
    assert (reply.status_code, reply.json()) == (200, {})
    head, _, body = far.requests[0].partition(b"\r\n\r\n")
    first, *fields = head.decode().split("\r\n")
    assert first == "POST /below/api/a%20b?n=1 HTTP/1.1"
    assert f"Host: 127.0.0.1:{far.port}" in fields
    assert "Authorization: t" in fields
    assert json.loads(body) == {"имя": "ё"}


def test_no_path_can_add_a_line_to_a_request(far: Far):
    with wired(far) as wire:
        send(wire, "/api/x HTTP/1.1\r\nX-Forged: 1\r\n")
    assert b"\nX-Forged" not in far.requests[0]


def test_a_connection_is_kept_and_given_to_one_at_a_time(far: Far):
    with wired(far) as wire:
        for _ in range(3):
            send(wire)
        assert far.connections == 1
        both = threading.Barrier(2)

        def together(line: socket.socket, _: bytes) -> bool:
            both.wait(5)  # neither is answered before both are asked
            return line.sendall(OK) is None

        far.behaviour = together
        threads = [threading.Thread(target=send, args=(wire,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
        assert not both.broken
        assert far.connections == 2


def test_a_connection_that_the_other_side_ended_is_not_used_again(far: Far):
    """As after a restart of PocketBase: the next request goes through, over a new one."""
    far.behaviour = lambda line, _: line.sendall(OK) is not None
    with wired(far) as wire:
        for _ in range(3):
            far.hung_up.clear()
            send(wire)
            assert far.hung_up.wait(5)
        assert far.connections == 3


def test_an_answer_that_says_close_is_the_last_one(far: Far):
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    far.behaviour = lambda line, _: line.sendall(closing) is None
    with wired(far) as wire:
        send(wire)
        send(wire)
        assert far.connections == 2


def test_connections_that_nobody_uses_are_closed(far: Far, monkeypatch):
    monkeypatch.setattr(wire, "KEPT", 0.05)
    with wired(far) as line:
        send(line)
        time.sleep(0.06)
        send(line)
        assert far.connections == 2
        assert far.hung_up.wait(5)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="hangs up"),
        pytest.param(b"SSH-2.0-secret\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", id="cut off"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200 + b"\r\n", id="endless head"),
    ],
)
def test_whatever_is_no_answer_breaks_the_request(far: Far, answer: bytes):
    """And says nothing of what came."""
    far.behaviour = lambda line, _: line.sendall(answer) is not None
    with wired(far) as wire, pytest.raises(Broken) as broken:
        send(wire)
    assert "secret" not in str(broken.value)


def test_silence_breaks_the_request_in_time_and_its_connection_is_not_used_again(far: Far):
    far.behaviour = lambda *_: True
    with wired(far) as wire:
        with pytest.raises(Broken, match="timed out"):
            send(wire, timeout=0.1)
        far.behaviour = lambda line, _: line.sendall(OK) is None
        assert send(wire).status_code == 200
        assert far.connections == 2


def test_nobody_there_breaks_the_request():
    with pytest.raises(Broken, match="refused"):
        send(Wire(f"http://127.0.0.1:{free_port()}"))


def test_a_refusal_before_the_body_was_read_is_heard(monkeypatch):
    """As of a body over the limit: taken for an absence, it would be sent for ever."""
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            line, _ = listener.accept()
            with line:
                taken.wait(5)  # what came before would show that the connection is no good
                line.sendall(refusal)
                line.shutdown(socket.SHUT_RD)
                done.wait(5)

        taken, done = threading.Event(), threading.Event()
        threading.Thread(target=refuse, daemon=True).start()
        wire = Wire(f"http://127.0.0.1:{listener.getsockname()[1]}")
        line = wire._connect()
        line.shutdown(socket.SHUT_WR)  # what is sent from here fails

        def take() -> socket.socket:
            taken.set()
            return line

        monkeypatch.setattr(Wire, "_take", lambda _: take())
        try:
            assert send(wire, json={"a": "b" * 100}).status_code == 413
        finally:
            done.set()
