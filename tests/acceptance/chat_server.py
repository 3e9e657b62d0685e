"""A chat-completions server on loopback that keeps to the published interface, faults included.

Its refusals repeat the key and the text that they were sent, as real ones do.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-test-9b1f7c3e5d2a4860"
MODEL = "careful-1"
PATH = "/v1/chat/completions"

Reply = Callable[["Call"], None]


class ChatServer(ThreadingHTTPServer):
    """Answers by `reply`; a test sets another to have it misbehave."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Call)
        self.calls: list[dict[str, Any]] = []
        """The body of each request that was understood."""
        self.open = 0
        """Requests that are being answered."""
        self.most = 0
        """The most of them at one time."""
        self.lock = threading.Lock()
        self.reply: Reply = corrects
        self.closing = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who hangs up in the middle is no news."""

    def asked(self, words: str) -> int:
        """How many requests were about a text with these words."""
        return sum(words in call["messages"][-1]["content"] for call in list(self.calls))


class Call(BaseHTTPRequestHandler):
    """One request."""

    server: ChatServer
    protocol_version = "HTTP/1.1"
    body: dict[str, Any]
    counted = False

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != PATH:
            return self.refuse(404, "not_found", f"no route {self.path}")
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            given = self.headers.get("Authorization", "")
            return self.refuse(401, "invalid_api_key", f"Incorrect API key provided: {given}")
        self.body = json.loads(data)
        messages = self.body.get("messages")
        roles = [message["role"] for message in messages or ()]
        if roles != ["system", "user"] or not self.body.get("model"):
            return self.refuse(400, "invalid_value", "messages and model must be given")
        if self.body["model"] != MODEL:
            return self.refuse(404, "model_not_found", f"no model {self.body['model']}")
        server = self.server
        with server.lock:
            server.calls.append(self.body)
            server.open += 1
            server.most = max(server.most, server.open)
        self.counted = True
        try:
            server.reply(self)
        finally:
            self.leave()
        return None

    def leave(self) -> None:
        """Count this request no longer: before its answer goes out, for the next may follow it."""
        with self.server.lock:
            self.server.open -= self.counted
            self.counted = False

    @property
    def text(self) -> str:
        """The piece that is to be corrected."""
        found = re.fullmatch(
            r"<transcript>\n(.*)\n</transcript>", self.body["messages"][-1]["content"], re.DOTALL
        )
        assert found
        return found[1]

    @property
    def tries(self) -> int:
        """How often this piece has been asked for, this time included."""
        return self.server.asked(self.text)

    def complete(self, content: str | None, finish_reason: str = "stop", **message: Any) -> None:
        self.send(
            200,
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": int(time.time()),
                "model": MODEL,
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": content, **message},
                        "logprobs": None,
                        "finish_reason": finish_reason,
                    }
                ],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            },
        )

    def refuse(
        self, status: int, code: str, words: str = "", param: str | None = None, **headers: str
    ) -> None:
        told = f"{words} {self.headers.get('Authorization')} {getattr(self, 'body', '')}"
        error = {"message": told, "type": "invalid_request_error", "param": param, "code": code}
        self.send(status, {"error": error}, **headers)

    def send(self, status: int, body: Any, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.leave()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def corrected(text: str) -> str:
    """What a careful model makes of the tests' texts."""
    return text[:1].upper() + text[1:].replace("кубер нетис", "Kubernetes").rstrip(".") + "."


def corrects(call: Call) -> None:
    call.complete(corrected(call.text))


def says(content: str | Callable[[str], str], finish_reason: str = "stop") -> Reply:
    """Answers with this, or with what this makes of the text."""
    return lambda call: call.complete(
        content(call.text) if callable(content) else content, finish_reason
    )


def refuses(status: int, code: str, **headers: str) -> Reply:
    return lambda call: call.refuse(status, code, **headers)


def sends(body: bytes, status: int = 200) -> Reply:
    """Answers with bytes that are no completion."""
    return lambda call: call.send(status, body)


def hangs(call: Call) -> None:
    """Takes the request and never answers it, until whoever made it gives up."""
    call.connection.settimeout(120)
    call.rfile.read(1)
    call.close_connection = True


def drips(call: Call) -> None:
    """An answer whose bytes come too slowly ever to end, each of them soon after the last."""
    call.send_response(200)
    call.send_header("Content-Length", "100000")
    call.end_headers()
    while not call.server.closing.wait(0.1):
        call.wfile.write(b" ")
        call.wfile.flush()


def hangs_up(call: Call) -> None:
    call.close_connection = True


def once(first: Reply, then: Reply = corrects) -> Reply:
    """Another answer to the first request about a piece."""
    return lambda call: (first if call.tries == 1 else then)(call)


def only_for(words: str, other: Reply, rest: Reply = corrects) -> Reply:
    """Another answer to the pieces with these words."""
    return lambda call: (other if words in call.text else rest)(call)
