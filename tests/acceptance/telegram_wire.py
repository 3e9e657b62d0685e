"""The HTTP of the tests' Bot API server: calls in, answers and faults out."""

from __future__ import annotations

import email.parser
import email.policy
import json
import re
import urllib.parse
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.acceptance.telegram_server import TelegramServer


@dataclass(eq=False)
class Fault:
    """What happens to a call instead of, or besides, what should."""

    status: int = 0
    """Answer with this error, without doing anything."""
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    done: bool = False
    """Do it first, and fail then: the caller cannot know."""
    silent: bool = False
    """Never answer (until the server closes or the fault is lifted)."""
    drop: bool = False
    """Hang up."""
    page: bytes = b""
    """The body, when it is no JSON of the Bot API."""
    chat: int | None = None
    """Only for calls about this chat."""
    times: int = -1
    """How many calls; -1: until lifted."""


def too_many(seconds: int, **more: Any) -> Fault:
    return Fault(429, f"Too Many Requests: retry after {seconds}", {"retry_after": seconds}, **more)


BLOCKED = "Forbidden: bot was blocked by the user"


class Refused(Exception):
    def __init__(self, status: int, description: str, **parameters: Any) -> None:
        self.fault = Fault(status, description, parameters)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hung up is its own business."""


def handler(telegram: TelegramServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            url = urllib.parse.urlsplit(self.path)
            path = urllib.parse.unquote(url.path)
            if found := re.fullmatch(r"/file/bot([^/]+)/(.+)", path):
                return self._download(*found.groups())
            found = re.fullmatch(r"/bot([^/]+)/(\w+)", path)
            if not found or not re.fullmatch(r"\d+:[\w-]+", found[1]):
                return self._refuse(Fault(404, "Not Found"))
            if found[1] != telegram.token or not telegram.known:
                telegram.calls.append((found[2], {}))
                return self._refuse(Fault(401, "Unauthorized"))
            return self._api(found[2], *self._parse(body, url.query))

        def _api(
            self, method: str, params: dict[str, Any], files: dict[str, tuple[str, bytes]]
        ) -> None:
            telegram.calls.append((method, params))
            fault = telegram.take_fault(method, params)
            if fault and not fault.done:
                return self._fail(method, fault)
            try:
                result = telegram.call(method, params, files)
            except Refused as refused:
                return self._refuse(refused.fault)
            if fault:
                return self._fail(method, fault)
            return self._json(200, {"ok": True, "result": result})

        def _fail(self, method: str, fault: Fault) -> None:
            if fault.silent:
                telegram.stay_silent(method, fault)
            if fault.silent or fault.drop:
                self.close_connection = True
                return
            self._refuse(fault)

        def _download(self, token: str, path: str) -> None:
            fault = telegram.take_fault("download", {})
            if fault and fault.drop:  # in the middle of it
                content = telegram.content(path) or b""
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2])
                self.close_connection = True
                return None
            if fault:
                return self._fail("download", fault)
            content = telegram.content(path)
            if token != telegram.token or content is None or telegram.local:
                return self._refuse(Fault(404, "Not Found"))
            return self._send(200, "application/octet-stream", content)

        def _parse(
            self, body: bytes, query: str
        ) -> tuple[dict[str, Any], dict[str, tuple[str, bytes]]]:
            kind = self.headers.get("Content-Type") or ""
            params: dict[str, Any] = dict(urllib.parse.parse_qsl(query))
            files = {}
            if kind.startswith("multipart/"):
                parser = email.parser.BytesParser(policy=email.policy.HTTP)
                form = parser.parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
                for part in form.iter_parts():
                    name = part.get_param("name", header="content-disposition")
                    content = part.get_payload(decode=True)
                    if part.get_filename():
                        files[name] = (part.get_filename(), content)
                    else:
                        params[name] = content.decode()
            elif kind.startswith("application/json"):
                params |= json.loads(body or b"{}")
            else:
                params |= urllib.parse.parse_qsl(body.decode(), keep_blank_values=True)
            return params, files

        def _refuse(self, fault: Fault) -> None:
            if fault.page:
                return self._send(fault.status, "text/html", fault.page)
            parameters = {"parameters": fault.parameters} if fault.parameters else {}
            return self._json(
                fault.status,
                {
                    "ok": False,
                    "error_code": fault.status,
                    "description": fault.description,
                    **parameters,
                },
            )

        def _json(self, status: int, body: dict[str, Any]) -> None:
            self._send(status, "application/json", json.dumps(body).encode())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    return Handler
