"""A session of the `workers` account with PocketBase: requests, downloads, uploads.

Not PocketBase's SDK, which turns network faults into status 0, reads whole files into memory and
renews no session. Files and the realtime channel go over httpx, the many small requests over a
leaner `wire`. One client serves all threads of a process.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx

from worker.errors import (
    ConfigurationError,
    LeaseLost,
    PocketBaseRefused,
    PocketBaseUnavailable,
    Problem,
)
from worker.logs import register_secret
from worker.pocketbase.wire import CONNECT, Broken, Reply, Wire

WORKERS: Final = "workers@transcriber.local"
"""The account that `pb/pb_hooks/lib/accounts.js` creates."""

_CODE: Final = re.compile(r"[a-z_]{1,40}")

_TIMEOUT: Final = 30.0
_TRANSFER = httpx.Timeout(600.0, connect=CONNECT)
"""Limits of one read or write of a file, not of the whole transfer."""

R = TypeVar("R", httpx.Response, Reply)


@contextmanager
def held(recording: str) -> Iterator[None]:
    """Around a call under a lease: a lost one, or a deleted row, is told from a refusal."""
    try:
        yield
    except PocketBaseRefused as error:
        if error.status == 404 or error.error_code == "lease_lost":
            raise LeaseLost(recording) from error
        raise


@contextmanager
def reading(operation: str) -> Iterator[None]:
    """Around the reading of an answer: one of another form is none of PocketBase's.

    Something else listens there, or stands in between, and PocketBase is waited for as if it were
    away. Not `from` the error, which may show what came.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        raise PocketBaseUnavailable(operation, httpx.codes.OK) from None


class Client:
    """Calls PocketBase as `workers`. Logs in when first needed and again when the session ends.

    Every method raises `PocketBaseUnavailable` where PocketBase cannot be reached or answers 5xx,
    `PocketBaseRefused` where it says no, and `ConfigurationError` where it knows no such worker.
    """

    def __init__(self, url: str, password: Callable[[], str]) -> None:
        self._password = password
        self._token = ""
        self._login = threading.Lock()
        self._wire = Wire(url)
        self._http = httpx.Client(
            base_url=url,
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=32),
            trust_env=False,  # a proxy for the outside world is none of PocketBase's
        )

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(
        self, method: str, path: str, *, json: Any = None, timeout: float | None = None
    ) -> dict[str, Any]:
        """Send JSON, return the answer's JSON object."""
        operation = f"{method} {_shape(path)}"
        limit = _TIMEOUT if timeout is None else timeout
        response = self._send(
            operation,
            lambda headers: self._wire.send(
                method, path, json=json, headers=headers, timeout=limit
            ),
        )
        return _answer(operation, response)

    def download(self, path: str, destination: Path) -> int:
        """Stream a file to disk. Returns its size in bytes."""

        def fetch(headers: Mapping[str, str]) -> httpx.Response:
            with (
                self._http.stream("GET", path, headers=headers, timeout=_TRANSFER) as response,
                destination.open("wb") as file,
            ):
                if response.status_code != httpx.codes.OK:
                    response.read()
                    return response
                for chunk in response.iter_bytes(1 << 20):
                    file.write(chunk)
                return response

        self._send(f"GET {_shape(path)}", fetch)
        return destination.stat().st_size

    def upload(self, path: str, field: str, file: Path, data: Mapping[str, str]) -> dict[str, Any]:
        """Stream a file from disk as multipart, with form fields beside it."""

        def push(headers: Mapping[str, str]) -> httpx.Response:
            with file.open("rb") as body:
                return self._http.post(
                    path,
                    data=dict(data),
                    files={field: (f"{field}{file.suffix}", body)},
                    headers=headers,
                    timeout=_TRANSFER,
                )

        operation = f"POST {_shape(path)}"
        return _answer(operation, self._send(operation, push))

    @contextmanager
    def stream(self, path: str, idle: float) -> Iterator[httpx.Response]:
        """Read an endless answer; `idle` is how many seconds may pass without a byte."""
        operation = f"GET {_shape(path)}"
        try:
            with self._http.stream(
                "GET", path, timeout=httpx.Timeout(_TIMEOUT, connect=CONNECT, read=idle)
            ) as response:
                _judge(operation, response)
                yield response
        except httpx.RequestError as error:
            raise PocketBaseUnavailable(operation) from _harmless(error)

    def _send(self, operation: str, send: Callable[[Mapping[str, str]], R]) -> R:
        try:
            token = self._token or self._log_in("")
            response = send({"Authorization": token})
            if response.status_code == httpx.codes.UNAUTHORIZED:
                response = send({"Authorization": self._log_in(token)})
        except Broken as error:
            raise PocketBaseUnavailable(operation) from error
        except httpx.RequestError as error:
            raise PocketBaseUnavailable(operation) from _harmless(error)
        _judge(operation, response)
        return response

    def _log_in(self, stale: str) -> str:
        """A token other than `stale`: another thread's newer one, or a new one."""
        with self._login:
            if self._token != stale:
                return self._token
            response = self._wire.send(
                "POST",
                "/api/collections/workers/auth-with-password",
                json={"identity": WORKERS, "password": self._password()},
                headers={},
                timeout=_TIMEOUT,
            )
            if response.status_code == httpx.codes.BAD_REQUEST:
                raise ConfigurationError(
                    Problem("WORKER_PASSWORD", "pocketbase does not accept the workers' password")
                )
            _judge("log in", response)
            with reading("log in"):
                token = str(_answer("log in", response)["token"])
                token.encode("ascii")  # it goes into a header
            self._token = token
            register_secret(token)
            return token


def _judge(operation: str, response: httpx.Response | Reply) -> None:
    if response.status_code < 400:
        return
    if response.status_code >= 500:
        raise PocketBaseUnavailable(operation, response.status_code)
    raise PocketBaseRefused(operation, response.status_code, _error_code(response))


def _answer(operation: str, response: httpx.Response | Reply) -> dict[str, Any]:
    if response.status_code == httpx.codes.NO_CONTENT:
        return {}
    with reading(operation):
        answer: dict[str, Any] = response.json()
        if not isinstance(answer, dict):
            raise TypeError
        return answer


def _harmless(error: httpx.RequestError) -> httpx.RequestError | None:
    """The error, unless it may show what came."""
    return None if isinstance(error, httpx.ProtocolError | httpx.DecodingError) else error


def _error_code(response: httpx.Response | Reply) -> str:
    try:
        body = response.json()
    except (ValueError, RecursionError, httpx.ResponseNotRead):
        return ""
    code = body.get("error_code") if isinstance(body, dict) else None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else ""


def _shape(path: str) -> str:
    """The path without what identifies anything: enough to know which call it was."""
    return "/".join(part for part in path.split("?", maxsplit=1)[0].split("/") if not _is_id(part))


def _is_id(part: str) -> bool:
    return len(part) == 15 and part.isalnum()
