"""Remote recognisers on loopback, written from their public documentation, with faults to order.

They are as strict as the documentation is: what the real service would refuse, they refuse, so that
a client that gets through has sent what it should. Their error messages repeat the key and what was
sent, as some real ones do: nothing of that may show anywhere.
"""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import av
import numpy as np

KEY = "sk-a-key-nobody-may-see-42"
MODELS = {"whisper-1", "gpt-4o-transcribe"}


@dataclass
class Fault:
    """What the next call meets instead of an answer."""

    status: int = 0
    """0: the connection is dropped."""
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


class Server(ThreadingHTTPServer):
    """Calls go to `answer`; faults ordered before come first."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.faults: deque[Fault] = deque()
        self.always: Fault | None = None
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def fault(self, request: Request) -> Fault | None:
        with self.lock:
            return self.faults.popleft() if self.faults else self.always

    def answer(self, request: Request) -> tuple[int, Any]:
        raise NotImplementedError

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that was killed is no news


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: Any
    body: bytes

    @property
    def authorization(self) -> str:
        return self.headers.get("Authorization", "")


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        request = Request(
            self.command,
            parts.path,
            {name: values[0] for name, values in parse_qs(parts.query).items()},
            self.headers,
            self.rfile.read(int(self.headers.get("Content-Length", 0))),
        )
        headers: dict[str, str] = {}
        if fault := self.server.fault(request):
            if not fault.status:
                self.close_connection = True
                return
            status, answer, headers = fault.status, fault.body, fault.headers
        else:
            status, answer = self.server.answer(request)
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_DELETE = do_POST  # noqa: N815 - the handler's own form

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(server: Server) -> Iterator[Any]:
    with server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def sound(data: bytes) -> tuple[str, str, np.ndarray]:
    """Format, codec and samples of a sound file. Raises for anything else."""
    with av.open(io.BytesIO(data)) as container:
        track = container.streams.audio[0]
        frames = [frame.to_ndarray().reshape(-1) for frame in container.decode(track)]
        return container.format.name, track.codec_context.name, np.concatenate(frames)


# OpenAI-compatible


@dataclass
class Call:
    """One transcription that was asked for and answered."""

    fields: dict[str, list[str]]
    name: str
    seconds: float
    digest: str
    size: int
    samples: np.ndarray


class OpenAiServer(Server):
    """`POST /v1/audio/transcriptions`, as the reference describes it."""

    def __init__(self) -> None:
        super().__init__()
        self.key = KEY
        self.calls: list[Call] = []
        self.json_only = False
        self.max_bytes = 25 * 2**20
        self.max_seconds = 1500.0
        self.language: Any = "russian"
        self.text: Callable[[Call], str] = lambda call: f"piece {call.digest}."
        self.shape: Callable[[dict[str, Any]], Any] = lambda answer: answer
        self.gate = threading.Event()
        self.gate.set()
        """While it is clear, answers wait."""

    def order(self, status: int = 0, code: str = "", times: int = 1, **headers: str) -> None:
        """Order a fault for the next calls."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        body = {"error": {"message": f"no: {KEY}", "type": "error", "code": code or None}}
        self.faults.extend(Fault(status, body, names) for _ in range(times))

    def answer(self, request: Request) -> tuple[int, Any]:
        if (request.method, request.path) != ("POST", "/v1/audio/transcriptions"):
            return 404, {"error": {"message": "unknown url", "code": "unknown_url"}}
        if self.key and request.authorization != f"Bearer {self.key}":
            return 401, _refusal("invalid_api_key", f"Incorrect key {request.authorization}")
        fields, files = form(request)
        if [*files] != ["file"] or fields.get("model", [""])[0] not in MODELS:
            return 400, _refusal("missing", "file and model are required")
        name, data = files["file"]
        response = fields.get("response_format", ["json"])[0]
        if response not in {"json", "verbose_json"} or (self.json_only and response != "json"):
            message = f"response_format '{response}' is not compatible with this model"
            return 400, _refusal("unsupported_value", message, "response_format")
        if response == "json" and "timestamp_granularities[]" in fields:
            return 400, _refusal("invalid", "granularities go with verbose_json")
        if len(data) > self.max_bytes:
            return 413, _refusal("too_large", "Maximum content size limit exceeded")
        try:
            kind, _, samples = sound(data)
        except (av.FFmpegError, ValueError, IndexError):
            return 400, _refusal("invalid_file", f"cannot decode {name}")
        if name.rpartition(".")[2] != kind or not len(samples):
            return 400, _refusal("invalid_file", "the name lies about the format")
        seconds = len(samples) / 16000
        if seconds > self.max_seconds:
            return 400, _refusal("too_long", "audio duration is longer than this model takes")
        digest = hashlib.sha256(samples.astype(np.int16).tobytes()).hexdigest()[:10]
        call = Call(fields, name, seconds, digest, len(data), samples)
        with self.lock:
            self.calls.append(call)
        self.gate.wait(60)
        return 200, self.shape(self._verbose(call) if response != "json" else self._plain(call))

    def _plain(self, call: Call) -> dict[str, Any]:
        return {"text": self.text(call)}

    def _verbose(self, call: Call) -> dict[str, Any]:
        text = self.text(call)
        words = text.split()
        step = call.seconds / max(len(words), 1)
        return {
            "task": "transcribe",
            "language": self.language,
            "duration": call.seconds,
            "text": text,
            "segments": [
                {
                    "id": 0, "seek": 0, "start": 0.0, "end": call.seconds, "text": f" {text}",
                    "tokens": [50364], "temperature": 0.0, "avg_logprob": -0.3,
                    "compression_ratio": 1.1, "no_speech_prob": 0.01,
                }
            ]
            if text
            else [],
            "words": [
                {"word": word, "start": round(n * step, 3), "end": round((n + 1) * step, 3)}
                for n, word in enumerate(words)
            ],
        }  # fmt: skip


def _refusal(code: str, message: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param,
                      "code": code}}  # fmt: skip


def form(request: Request) -> tuple[dict[str, list[str]], dict[str, tuple[str, bytes]]]:
    """The fields and files of a multipart body."""
    head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + request.body)
    fields: dict[str, list[str]] = {}
    files: dict[str, tuple[str, bytes]] = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        data = part.get_payload(decode=True)
        if part.get_filename() is not None:
            files[name] = (part.get_filename(), data)
        else:
            fields.setdefault(name, []).append(data.decode())
    return fields, files
