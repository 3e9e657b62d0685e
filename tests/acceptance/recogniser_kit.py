"""Yandex SpeechKit, version 3, on loopback, from its public documentation and interfaces."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import av
import numpy as np

from tests.acceptance.recogniser_servers import KEY, Fault, Request, Server, sound

CODES = {400: 3, 401: 16, 403: 7, 404: 5, 429: 8, 500: 13, 503: 14, 504: 4}


@dataclass
class Operation:
    """One asynchronous recognition."""

    id: str
    model: dict[str, Any]
    seconds: float
    digest: str
    size: int
    samples: np.ndarray
    done: bool = False
    error: dict[str, Any] | None = None
    stream: list[dict[str, Any]] | None = None


class SpeechKitServer(Server):
    """Recognition and operations behind one address."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: dict[str, Operation] = {}
        self.deleted: list[str] = []
        self.asked: list[float] = []
        """When operations were asked for, by the monotonic clock."""
        self.spelling = "operation_id"
        self.phrases: Callable[[Operation], list[str]] = lambda operation: [operation.digest]
        self.deletes_early = True
        """Whether an operation can be removed before it has a result: the pages do not say."""
        self.at_once = False
        """Whether operations are done as soon as they are there."""

    def order(self, status: int = 0, times: int = 1, **headers: str) -> None:
        """Order a fault for the next calls."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        body = {"code": CODES.get(status, 2), "message": f"no: {KEY}", "details": []}
        self.faults.extend(Fault(status, body, names) for _ in range(times))

    def finish(self, identifier: str, stream: list[dict[str, Any]] | None = None) -> None:
        operation = self.operations[identifier]
        operation.stream = events(self.phrases(operation)) if stream is None else stream
        operation.done = True

    def fail(self, identifier: str, code: int) -> None:
        operation = self.operations[identifier]
        operation.error = {"code": code, "message": f"words that change {KEY}", "details": []}
        operation.done = True

    def answer(self, request: Request) -> tuple[int, Any]:
        if request.authorization.startswith("Bearer ") and not request.headers.get("x-folder-id"):
            return 400, self._status(400, "folder is required")
        if request.authorization not in {f"Api-Key {KEY}", f"Bearer {KEY}"}:
            return 401, self._status(401, f"The token is invalid: {request.authorization}")
        match request.method, request.path:
            case "POST", "/stt/v3/recognizeFileAsync":
                return self._recognise(request)
            case "GET", path if path.startswith("/operations/"):
                return self._operation(path.removeprefix("/operations/"))
            case "GET", "/stt/v3/getRecognition":
                return self._result(request)
            case "DELETE", "/stt/v3/deleteRecognition":
                return self._delete(request)
        return 404, self._status(404, "no such method")

    def _status(self, status: int, message: str) -> dict[str, Any]:
        return {"code": CODES[status], "message": message, "details": []}

    def _recognise(self, request: Request) -> tuple[int, Any]:
        if len(request.body) > 60_000_000:
            return 400, self._status(400, "the body is too large")
        asked = json.loads(request.body)
        model = asked.get("recognition_model", {})
        if ("content" in asked) == ("uri" in asked):
            return 400, self._status(400, "one audio source is required")
        if model.get("model") not in {"general", "general:rc", "deferred-general"}:
            return 400, self._status(400, "model is not known")
        container = model.get("audio_format", {}).get("container_audio", {})
        data = base64.b64decode(asked["content"], validate=True)
        try:
            kind, codec, samples = sound(data)
        except (av.FFmpegError, ValueError, IndexError):
            return 400, self._status(400, "audio is broken")
        # FFmpeg decodes Opus by a decoder of its own, at 48 kHz.
        if (container.get("container_audio_type"), kind) != (
            "OGG_OPUS",
            "ogg",
        ) or "opus" not in codec:
            return 400, self._status(400, "audio is not in the container that was announced")
        languages = model.get("language_restriction", {})
        if languages.get("restriction_type") != "WHITELIST" or not languages.get("language_code"):
            return 400, self._status(400, "languages are not understood")
        identifier = f"op{len(self.operations)}{hashlib.md5(data).hexdigest()[:12]}"
        digest = hashlib.sha256(data).hexdigest()[:10]
        seconds = len(samples) / 48000
        self.operations[identifier] = Operation(
            identifier, model, seconds, digest, len(data), samples
        )
        if self.at_once:
            self.finish(identifier)
        return 200, {"id": identifier, "description": "STT v3 async recognition", "done": False,
                     "createdAt": "2026-01-01T00:00:00Z", "createdBy": "x"}  # fmt: skip

    def _operation(self, identifier: str) -> tuple[int, Any]:
        now = time.monotonic()
        with self.lock:
            self.asked.append(now)
            busy = sum(now - each < 1 for each in self.asked) > 5
        if busy:
            return 429, self._status(429, "5 requests a second")
        found = self.operations.get(identifier)
        if found is None:
            return 404, self._status(404, f"operation {identifier} not found")
        error = {"error": found.error} if found.error else {}
        return 200, {"id": identifier, "done": found.done, **error}

    def _asked_for(self, request: Request) -> Operation | int:
        if set(request.query) != {self.spelling}:
            return 400
        return self.operations.get(request.query[self.spelling]) or 404

    def _result(self, request: Request) -> tuple[int, Any]:
        found = self._asked_for(request)
        if isinstance(found, int):
            return found, self._status(found, "no such operation")
        if found.stream is None:
            return 404, self._status(404, "no result")
        return 200, "\n".join(json.dumps(each, indent=1) for each in found.stream).encode()

    def _delete(self, request: Request) -> tuple[int, Any]:
        found = self._asked_for(request)
        if isinstance(found, int):
            return found, self._status(found, "no such operation")
        if not found.done and not self.deletes_early:
            return 404, self._status(404, "no result")
        self.deleted.append(found.id)
        del self.operations[found.id]
        return 200, {}


def event(index: int, channel: str = "0", **what: Any) -> dict[str, Any]:
    """One message of a result, in the form that the reference shows."""
    cursors = {"receivedDataMs": "9000", "resetTimeMs": "0", "partialTimeMs": "9000",
               "finalTimeMs": "9000", "finalIndex": str(index), "eouTimeMs": "0"}  # fmt: skip
    return {"result": {"sessionUuid": {"uuid": "u", "userRequestId": "r"}, "audioCursors": cursors,
                       "responseWallTimeMs": "189", "channelTag": channel, **what}}  # fmt: skip


def said(text: str, start: int, end: int) -> dict[str, Any]:
    """An alternative; times in milliseconds, as strings."""
    words = text.split()
    step = (end - start) // max(len(words), 1)
    return {
        "words": [
            {"text": word, "startTimeMs": str(start + n * step),
             "endTimeMs": str(start + (n + 1) * step)}
            for n, word in enumerate(words)
        ],
        "text": text, "startTimeMs": str(start), "endTimeMs": str(end), "confidence": 0,
        "languages": [{"languageCode": "ru-RU", "probability": 0.9}],
    }  # fmt: skip


def events(phrases: list[str]) -> list[dict[str, Any]]:
    """What a result looks like: partials, finals, ends of utterances, refinements."""
    stream = [event(0, statusCode={"codeType": "WORKING", "message": "ok"})]
    for n, phrase in enumerate(phrases):
        raw = said(phrase.lower().strip("."), n * 2000, n * 2000 + 1500)
        refined = {**said(phrase, n * 2000, n * 2000 + 1500), "words": []}
        stream += [
            event(n, partial={"alternatives": [raw]}),
            event(n, final={"alternatives": [raw], "channelTag": "0"}),
            event(
                n,
                finalRefinement={
                    "finalIndex": str(n),
                    "normalizedText": {"alternatives": [refined], "channelTag": "0"},
                },
            ),
            event(n, eouUpdate={"timeMs": str(n * 2000 + 1500)}),
        ]
    return stream
