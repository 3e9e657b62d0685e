"""The metadata source: tells the intake, over loopback, how long a stored file is, and sees to it
that what is promised to be kept is on the disk.

    POST /probe   Authorization: Bearer <secret>   {"path": "<below the storage root>"}
    POST /keep    the same

    200 {"duration": seconds, "has_audio": bool}, or {} for /keep
    400 bad request      401 wrong secret      404 no such file
    422 {"error": diagnosis}: it cannot be read as media
    503 the process that looked into it died, or too many ask at once

Neither an answer nor a log line names a file.
"""

from __future__ import annotations

import hmac
import json
import stat
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path, PurePosixPath
from typing import Self

from loguru import logger

from worker.errors import ConfigurationError, DecoderDied, MediaError, Problem
from worker.media.keep import keep
from worker.media.pool import Pool
from worker.media.probe import probe
from worker.server import Server

TIMEOUT = 20.0
"""Seconds for one file."""
PROCESSES = 4
MAX_BODY = 16_384
"""Bytes: a path below the root and nothing else."""
MAX_CONNECTIONS = 64
"""That have shown the secret, and as many that have not yet."""
STRANGER_SECONDS = 5.0
"""How long a connection may be open without having shown the secret."""
READ_SECONDS = 5.0
"""How long a request may keep the server waiting for its next bytes, once it has begun."""
IDLE_SECONDS = 120.0
"""Longer than Go's client keeps an idle connection, so that it is never the server that hangs up
at the moment of a new request."""


class MetadataSource:
    """Serves from `start` to `stop`, or as a context manager."""

    def __init__(self, address: str, secret: str, root: Path) -> None:
        """`address`: HOST:PORT on loopback. `root`: the folder that paths are below of."""
        self._address = address
        self._secret = secret
        self._root = root
        self._server: _Server | None = None
        self._pool: Pool | None = None

    def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: the address cannot be listened on.
        """
        pool = Pool(PROCESSES, TIMEOUT)
        try:
            self._server = _Server(self._address, self._secret, self._root, pool)
        except OSError as error:
            problem = f"cannot listen on {self._address}: {(error.strerror or '').lower()}"
            raise ConfigurationError(Problem("MEDIA_HTTP", problem)) from error
        self._pool = pool
        threading.Thread(target=self._server.serve_forever, name="media", daemon=True).start()
        with suppress(DecoderDied):  # loads the libraries now, and not at a sender's cost
            pool.call(_nothing)

    def stop(self) -> None:
        """Stop listening, drop open connections and end the processes."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _nothing() -> None:
    """What a process does to show that it is up."""


class _Refused(Exception):
    """The request ends here, with this status."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(reason)


class _Server(Server):
    def __init__(self, address: str, secret: str, root: Path, pool: Pool) -> None:
        self.secret = f"Bearer {secret}".encode()
        self.root = root
        self.pool = pool
        super().__init__(address, _Handler, MAX_CONNECTIONS, STRANGER_SECONDS)

    def find(self, path: object) -> Path:
        """The regular file below the root that `path` names.

        Raises:
            _Refused: 400 for what is no path below the root, 404 where there is no such file.
        """
        if not isinstance(path, str) or not path or "\0" in path:
            raise _Refused(HTTPStatus.BAD_REQUEST, "path must be a string")
        relative = PurePosixPath(path)
        if relative.is_absolute() or ".." in relative.parts:
            raise _Refused(HTTPStatus.BAD_REQUEST, "path must be below the root")
        try:
            root = self.root.resolve(strict=True)
            found = (root / relative).resolve(strict=True)
            regular = stat.S_ISREG(found.stat().st_mode)
        except (OSError, RuntimeError, ValueError):  # RuntimeError: a circle of symbolic links
            raise _Refused(HTTPStatus.NOT_FOUND, "no such file") from None
        if not found.is_relative_to(root):
            raise _Refused(HTTPStatus.BAD_REQUEST, "path must be below the root")
        if not regular:
            raise _Refused(HTTPStatus.NOT_FOUND, "no such file")
        return found


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "transcriber"
    sys_version = ""
    wbufsize = MAX_BODY
    """An answer leaves in one piece: in two, the second waits 40 ms for the first's receipt."""

    def handle_one_request(self) -> None:
        try:
            self.connection.settimeout(IDLE_SECONDS)
            self.rfile.peek(1)  # type: ignore[attr-defined] # a buffered reader, which its type does not say
            self.connection.settimeout(READ_SECONDS)
        except OSError:
            self.close_connection = True
            return
        super().handle_one_request()

    def do_POST(self) -> None:
        try:
            body = self._body()
            found = self.server.find(body.get("path"))
            if self.path == "/keep":
                keep(found, self.server.root)
                self._answer(HTTPStatus.OK, {})
                return
            seen = self.server.pool.call(probe, found)
        except _Refused as refusal:
            self._answer(refusal.status, {"error": refusal.reason})
        except DecoderDied as error:
            logger.warning("metadata source: {}", error)
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)})
        except MediaError as error:
            self._answer(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": str(error)})
        except FileNotFoundError:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "no such file"})
        except OSError as error:
            logger.error("metadata source: open file: {}", error.strerror)
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the file cannot be opened"})
        else:
            self._answer(HTTPStatus.OK, {"duration": seen.duration, "has_audio": seen.has_audio})

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a request line is the sender's."""

    def _body(self) -> dict[str, object]:
        given = self.headers.get("Authorization", "").encode("latin-1", "replace")
        if not hmac.compare_digest(given, self.server.secret):
            self.close_connection = True
            raise _Refused(HTTPStatus.UNAUTHORIZED, "wrong secret")
        if not self.server.admit(self.connection):
            self.close_connection = True
            raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            self.close_connection = True
            raise _Refused(HTTPStatus.BAD_REQUEST, f"body must have a length up to {MAX_BODY}")
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise _Refused(HTTPStatus.BAD_REQUEST, "body must be a json object")
        if self.path not in ("/probe", "/keep"):
            raise _Refused(HTTPStatus.NOT_FOUND, "no such address")
        return body

    def _answer(self, status: HTTPStatus, body: dict[str, object]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
