"""A server on loopback whose every route a test decides."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Loopback(ThreadingHTTPServer):
    """`routes` gives (status, JSON or bytes) for "METHOD /path"; anything else is 404."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.routes: dict[str, tuple[int, Any]] = {}
        self.seen: list[tuple[str, Any, str]] = []
        """Each request: route, JSON body or None, Authorization."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Loopback

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        route = f"{self.command} {self.path}"
        given = None
        with suppress(ValueError):  # a form with a file
            given = json.loads(body or "null")
        self.server.seen.append((route, given, self.headers.get("Authorization", "")))
        status, answer = self.server.routes.get(route, (404, {"message": "no such route"}))
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET  # noqa: N815 - the handler's own form

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve() -> Iterator[Loopback]:
    with Loopback() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
