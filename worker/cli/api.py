"""The server as the commands see it: a session, and errors in words for the person who typed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import quote, urlsplit

import httpx

from worker.cli.error import CommandError

CONNECT = 10.0
ANSWER = 120.0
"""Seconds the server may take to answer once it has the whole request."""


class UnreachableError(CommandError):
    """The server is not reachable just now, or has a fault of its own: worth another try."""


class RefusalError(CommandError):
    """The server answered with a refusal."""

    def __init__(self, message: str, status: int, data: Mapping[str, Any]) -> None:
        self.status = status
        self.data = data
        """PocketBase's verdict field by field: `{"email": {"code", "message"}}`."""
        super().__init__(message)


def client(url: str, *, timeout: float = ANSWER) -> httpx.Client:
    """An HTTP client for this server. A proxy is none of this machine's own business."""
    try:
        loopback = urlsplit(url).hostname in {"127.0.0.1", "localhost", "::1"}
        return httpx.Client(
            base_url=url,
            timeout=httpx.Timeout(timeout, connect=CONNECT),
            trust_env=not loopback,
        )
    except (httpx.InvalidURL, ValueError) as error:
        raise CommandError(f"server {url}: {error}") from error


class Session:
    """Somebody logged in. Logs in again by itself when the session has run out."""

    def __init__(self, http: httpx.Client, collection: str, email: str, password: str) -> None:
        """Log in to `collection` (`users`, `_superusers`, `workers`).

        Raises:
            RefusalError: e-mail or password are not accepted (status 400).
            UnreachableError: the server is not reachable.
        """
        self._http = http
        self._collection = collection
        self._identity = {"identity": email, "password": password}
        self._token = ""
        self._log_in()

    def get(self, path: str) -> dict[str, Any]:
        """The JSON object at this path."""
        return self._again_when_expired("GET", path)

    def post(self, path: str, **request: Any) -> dict[str, Any]:
        """Send `json`, or `data` and `files`; the JSON object that is answered."""
        return self._call("POST", path, **request)

    def upload(self, name: str, file: IO[bytes], fields: Mapping[str, str]) -> str:
        """Send a recording, in constant memory; its job's id."""
        # A file name may hold bytes that are no text; the multipart form must not choke on them.
        name = name.encode(errors="replace").decode()
        answer = self.post("/api/audio", data=fields, files={"audio": (name, file)})
        return str(answer["job_id"])

    def status(self, job: str) -> dict[str, Any]:
        """`{"job_id", "status", "created_at"}` and, where they exist, `halted`, `progress` (0 to
        1) and `transcription_text`."""
        return self.get(f"/api/status/{quote(job, safe='')}")

    def _log_in(self) -> None:
        path = f"/api/collections/{self._collection}/auth-with-password"
        try:
            answer = call(self._http, "POST", path, json=self._identity)
        except RefusalError as error:
            if error.status != httpx.codes.BAD_REQUEST:
                raise
            message = f"{self._http.base_url} does not accept this e-mail and password"
            raise RefusalError(message, error.status, error.data) from None
        self._token = str(answer["token"])

    def _again_when_expired(self, method: str, path: str) -> dict[str, Any]:
        try:
            return self._call(method, path)
        except RefusalError as error:
            if error.status != httpx.codes.UNAUTHORIZED:
                raise
        self._log_in()
        return self._call(method, path)

    def _call(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        return call(self._http, method, path, headers={"Authorization": self._token}, **request)


def call(http: httpx.Client, method: str, path: str, **request: Any) -> dict[str, Any]:
    """One request; the JSON object that is answered.

    Raises:
        RefusalError: with the server's own message.
        UnreachableError: not reachable, a dropped connection, 429 or 5xx.
    """
    try:
        response = http.request(method, path, **request)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnreachableError(f"cannot reach {http.base_url}: {_reason(error)}") from None
    body = _object(response)
    if response.is_success and body:
        return body
    message = str(body.get("message") or f"{http.base_url} answered {response.status_code}")
    if response.is_server_error or response.status_code == httpx.codes.TOO_MANY_REQUESTS:
        raise UnreachableError(message)
    data = body.get("data")
    raise RefusalError(message, response.status_code, data if isinstance(data, dict) else {})


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        return {}
    return body if isinstance(body, dict) else {}


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return "no answer"
    if isinstance(error, httpx.TimeoutException):
        return "it takes too long"
    text = str(error)
    if "refused" in text:
        return "connection refused (is it running?)"
    if "resolution" in text or "not known" in text or "No address" in text:
        return "unknown host"
    return text or type(error).__name__


class Patience:
    """How long trouble on the way is put up with: counted from its beginning, not from ours."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None

    def well(self) -> None:
        """The server answered."""
        self._since = None

    def spent(self) -> bool:
        """Trouble again: whether it has now lasted too long."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since >= self._seconds
