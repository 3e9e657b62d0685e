"""A session of the `workers` account with PocketBase: requests, downloads, uploads.

Plain httpx rather than PocketBase's SDK, which turns network faults into status 0, reads whole
files into memory and renews no session. One client serves all threads of a process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from worker.errors import (
    ConfigurationError,
    LeaseLost,
    PocketBaseRefused,
    PocketBaseUnavailable,
    Problem,
)
from worker.logs import register_secret

WORKERS: Final = "workers@transcriber.local"
"""The account that `pb/pb_hooks/lib/accounts.js` creates."""

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_TRANSFER = httpx.Timeout(600.0, connect=5.0)
"""Limits of one read or write of a file, not of the whole transfer."""


@contextmanager
def held(recording: str) -> Iterator[None]:
    """Around a call under a lease: a lost one, or a deleted row, is told from a refusal."""
    try:
        yield
    except PocketBaseRefused as error:
        if error.status == 404 or error.error_code == "lease_lost":
            raise LeaseLost(recording) from error
        raise


class Client:
    """Calls PocketBase as `workers`. Logs in when first needed and again when the session ends.

    Every method raises `PocketBaseUnavailable` where PocketBase cannot be reached or answers 5xx,
    `PocketBaseRefused` where it says no, and `ConfigurationError` where it knows no such worker.
    """

    def __init__(self, url: str, password: Callable[[], str]) -> None:
        self._password = password
        self._token = ""
        self._login = threading.Lock()
        self._http = httpx.Client(
            base_url=url,
            timeout=_TIMEOUT,
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=32),
            trust_env=False,  # a proxy for the outside world is none of PocketBase's
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(
        self, method: str, path: str, *, json: Any = None, timeout: float | None = None
    ) -> dict[str, Any]:
        """Send JSON, return the answer's JSON object."""
        limit = _TIMEOUT if timeout is None else httpx.Timeout(timeout, connect=5.0)
        response = self._send(
            f"{method} {_shape(path)}",
            lambda headers: self._http.request(
                method, path, json=json, headers=headers, timeout=limit
            ),
        )
        return _answer(f"{method} {_shape(path)}", response)

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
                "GET", path, timeout=httpx.Timeout(30.0, connect=5.0, read=idle)
            ) as response:
                _judge(operation, response)
                yield response
        except httpx.TransportError as error:
            raise PocketBaseUnavailable(operation) from error

    def _send(
        self, operation: str, send: Callable[[Mapping[str, str]], httpx.Response]
    ) -> httpx.Response:
        try:
            token = self._token or self._log_in("")
            response = send({"Authorization": token})
            if response.status_code == httpx.codes.UNAUTHORIZED:
                response = send({"Authorization": self._log_in(token)})
        except httpx.TransportError as error:
            raise PocketBaseUnavailable(operation) from error
        _judge(operation, response)
        return response

    def _log_in(self, stale: str) -> str:
        """A token other than `stale`: another thread's newer one, or a new one."""
        with self._login:
            if self._token != stale:
                return self._token
            response = self._http.post(
                "/api/collections/workers/auth-with-password",
                json={"identity": WORKERS, "password": self._password()},
            )
            if response.status_code == httpx.codes.BAD_REQUEST:
                raise ConfigurationError(
                    Problem("WORKER_PASSWORD", "pocketbase does not accept the workers' password")
                )
            _judge("log in", response)
            self._token = _answer("log in", response)["token"]
            register_secret(self._token)
            return self._token


def _judge(operation: str, response: httpx.Response) -> None:
    if response.status_code < 400:
        return
    if response.status_code >= 500:
        raise PocketBaseUnavailable(operation, response.status_code)
    raise PocketBaseRefused(operation, response.status_code, _error_code(response))


def _answer(operation: str, response: httpx.Response) -> dict[str, Any]:
    if response.status_code == httpx.codes.NO_CONTENT:
        return {}
    try:
        answer: dict[str, Any] = response.json()
    except ValueError as error:  # something else listens there, or stands in between
        raise PocketBaseUnavailable(operation, response.status_code) from error
    return answer


def _error_code(response: httpx.Response) -> str:
    try:
        body = response.json()
    except (ValueError, httpx.ResponseNotRead):
        return ""
    return str(body.get("error_code", "")) if isinstance(body, dict) else ""


def _shape(path: str) -> str:
    """The path without what identifies anything: enough to know which call it was."""
    return "/".join(part for part in path.split("?", maxsplit=1)[0].split("/") if not _is_id(part))


def _is_id(part: str) -> bool:
    return len(part) == 15 and part.isalnum()
