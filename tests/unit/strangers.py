"""Connections to a server that show it nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


def connect(address: str) -> socket.socket:
    host, _, port = address.partition(":")
    return socket.create_connection((host, int(port)), timeout=5)


@contextmanager
def strangers(address: str, count: int) -> Iterator[list[socket.socket]]:
    """So many connections, every other with a request begun."""
    with ExitStack() as held:
        connections = [held.enter_context(connect(address)) for _ in range(count)]
        for each in connections[::2]:
            each.sendall(b"POST /probe HTTP/1.1\r\n")
        yield connections


def hung_up(connection: socket.socket) -> bool:
    """Whether the server ends this connection without a word, within its timeout."""
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def drip(connection: socket.socket, limit: float) -> float:
    """Send a request byte after byte, without an end; the seconds until the server hangs up."""
    connection.settimeout(0.05)
    started = time.monotonic()
    while time.monotonic() - started < limit:
        try:
            connection.sendall(b"x")
        except ConnectionError:
            break
        if hung_up(connection):
            break
    return time.monotonic() - started
