"""Small requests to PocketBase, each sent in one piece over a connection that is kept.

The queue's calls are many and small, and what httpx does for each cost five times of what is needed
here and two packets (docs/performance.md). Answers are read by the standard library's client.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from json import dumps, loads
from typing import Any, Final
from urllib.parse import quote

import httpx

CONNECT: Final = 5.0
"""Seconds to reach PocketBase."""
KEPT: Final = 5.0
"""Seconds that an unused connection is kept: less than anything between closes one after."""
_PIECE: Final = 1 << 20
"""Bytes that are sent at once, and may take the whole timeout."""
_PLAIN: Final = "!$%&'()*+,/:;=?@[]~"


class Broken(Exception):
    """The request got no answer. It may have been carried out all the same."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, read to its end."""

    status_code: int
    content: bytes

    def json(self) -> Any:
        """The body. Raises `ValueError` where it is no JSON."""
        return loads(self.content)


class Wire:
    """Sends requests to one address. Used by all threads of a process, a connection each."""

    def __init__(self, url: str) -> None:
        base = httpx.URL(url)
        self._tls = httpx.create_ssl_context(trust_env=False) if base.scheme == "https" else None
        self._address = (base.raw_host.decode(), base.port or (443 if self._tls else 80))
        self._below = base.raw_path.decode().rstrip("/")
        self._head = f" HTTP/1.1\r\nHost: {base.netloc.decode()}\r\nUser-Agent: transcriber\r\n"
        self._kept: list[tuple[float, socket.socket]] = []
        """Connections that nobody uses, and since when: the one used last comes last."""
        self._lock = threading.Lock()

    def send(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> Reply:
        """Send, and read the answer. `timeout` is for each wait in it.

        Raises:
            Broken: there was no answer.
        """
        request = self._request(method, path, json, headers)
        try:
            connection = self._take() or self._connect()
            try:
                connection.settimeout(timeout)
                # It may answer and hang up before it has read all.
                with suppress(BrokenPipeError, ConnectionResetError):
                    for start in range(0, len(request), _PIECE):
                        connection.sendall(request[start : start + _PIECE])
                with closing(HTTPResponse(connection, method=method)) as response:
                    response.begin()
                    reply = Reply(response.status, response.read())
            except BaseException:
                connection.close()
                raise
        except OSError as error:
            raise Broken(str(error) or type(error).__name__) from error
        except HTTPException as error:
            raise Broken(type(error).__name__) from None  # its words may show what came
        if response.will_close:
            connection.close()
        else:
            self._keep(connection)
        return reply

    def close(self) -> None:
        """Close the connections that nobody uses."""
        self._drop(float("inf"))

    def _request(
        self, method: str, path: str, content: Any, headers: Mapping[str, str]
    ) -> memoryview:
        lines = [f"{method} {self._below}{quote(path, safe=_PLAIN)}{self._head}"]
        lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
        body = b""
        if content is not None:
            compact = (",", ":")
            body = dumps(content, ensure_ascii=False, separators=compact, allow_nan=False).encode()
            lines.append("Content-Type: application/json\r\n")
        if body or method != "GET":
            lines.append(f"Content-Length: {len(body)}\r\n")
        return memoryview("".join(lines).encode("ascii") + b"\r\n" + body)

    def _take(self) -> socket.socket | None:
        """The connection that was used last, if it is still good."""
        self._drop(time.monotonic() - KEPT)
        while True:
            with self._lock:
                if not self._kept:
                    return None
                _, connection = self._kept.pop()
            watch = select.poll()
            watch.register(connection, select.POLLIN)
            if not watch.poll(0):
                return connection
            connection.close()  # what is there before anything was asked is its end

    def _keep(self, connection: socket.socket) -> None:
        with self._lock:
            self._kept.append((time.monotonic(), connection))

    def _drop(self, before: float) -> None:
        """Close what nobody has used since then."""
        with self._lock:
            while self._kept and self._kept[0][0] < before:
                self._kept.pop(0)[1].close()

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(self._address, CONNECT)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                return self._tls.wrap_socket(connection, server_hostname=self._address[0])
        except BaseException:
            connection.close()
            raise
        return connection
