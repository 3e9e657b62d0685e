"""What stands outside of the service: Telegram and remote recognisers, with moods and a memory."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import av
import numpy as np

from tests.acceptance.recogniser_kit import Operation, SpeechKitServer
from tests.acceptance.recogniser_servers import Call, OpenAiServer, Request, sound
from tests.acceptance.recogniser_servers import Fault as Answer
from tests.acceptance.telegram_server import Sent, TelegramServer
from tests.acceptance.telegram_wire import Fault, Refused

SYLLABLES = ("bru", "kva", "zhi", "tro", "mel", "dyu", "sno", "fip", "gax", "vol", "cheb", "yort",
             "ung", "prel", "wask", "lodz")  # fmt: skip


def words(digest: str) -> str:
    """What was heard: words that nobody else says, other ones for other sound."""
    letters = [SYLLABLES[int(letter, 16)] for letter in hashlib.sha256(digest.encode()).hexdigest()]
    return " ".join("".join(letters[n : n + 3]) for n in (0, 3, 6)).capitalize() + "."


class Mood:
    """What a recogniser is like for a while."""

    def __init__(self, kind: str, dice: float) -> None:
        self.kind = kind
        self.dice = dice
        self.over = threading.Event()


class _Moody:
    """Mixed into a recogniser's server: it obeys the moods and remembers what it was asked."""

    def begin(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.moods: list[Mood] = []
        self.record: list[dict[str, Any]] = []

    def fault(self, request: Request) -> Answer | None:
        mood = self.moods[-1] if self.moods else None
        if mood is None:
            return None
        entry = {"t": self.clock(), "method": request.method, "path": request.path,
                 "fault": mood.kind, "status": 0}  # fmt: skip
        answer = self._met(mood, request)
        if answer is not None:
            self.record.append({**entry, "status": answer.status})
        return answer

    def _met(self, mood: Mood, request: Request) -> Answer | None:
        asks = request.method == "POST"
        match mood.kind:
            case "refuses" if asks:
                code = 400 if mood.dice < 0.5 else 422
                return Answer(code, {"error": {"message": "no", "code": "invalid_file"}, "code": 3})
            case "quota":
                return Answer(429, {"error": {"message": "slow down"}, "code": 8},
                              {"Retry-After": "1"})  # fmt: skip
            case "fails":
                status = 503 if mood.dice < 0.7 else 500
                return Answer(status, {"error": {"message": "oh"}, "code": 14})
            case "garbled":
                return Answer(200, b"<html>who are you?</html>" if mood.dice < 0.5 else b'{"te')
            case "hangs":
                mood.over.wait(60)
                return Answer(0)
            case "twice" if asks:
                self.answer(request)  # done, though nobody learns of it: it will be asked again
                return Answer(0)
            case "late":
                mood.over.wait(1.0 + 2 * mood.dice)
        return None

    def answer(self, request: Request) -> tuple[int, Any]:
        # The server that this is mixed into has it.
        status, body = super().answer(request)
        self.record.append({
            "t": self.clock(), "method": request.method, "path": request.path, "fault": "",
            "status": status, "text": body.get("text", "") if isinstance(body, dict) else "",
        })  # fmt: skip
        return status, body


class OpenAi(_Moody, OpenAiServer):
    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self.begin(clock)
        self.text = self._heard

    def _heard(self, call: Call) -> str:
        return words(call.digest)


class SpeechKit(_Moody, SpeechKitServer):
    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self.begin(clock)
        self.at_once = True
        self._digests: dict[str, str] = {}
        """Of each file's digest, that of the sound in it."""
        self.phrases = self._heard

    def _heard(self, operation: Operation) -> list[str]:
        digest = self._digests[operation.digest]
        return [words(digest), words(digest[::-1])]

    def _recognise(self, request: Request) -> tuple[int, Any]:
        """Two files of one sound differ by their stream's number: it is the sound that counts."""
        content = base64.b64decode(json.loads(request.body).get("content", ""))
        with suppress(av.FFmpegError, ValueError, IndexError):
            samples = sound(content)[2]
            self._digests[hashlib.sha256(content).hexdigest()[:10]] = hashlib.sha256(
                np.ascontiguousarray(samples)
            ).hexdigest()[:10]
        return super()._recognise(request)

    def forget(self) -> None:
        """What there was of operations is gone."""
        self.operations.clear()


class Telegram(TelegramServer):
    """Remembers what became of each call."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self.clock = clock
        self.record: list[dict[str, Any]] = []
        self.kinds: dict[int, str] = {}
        """What each fault is called, by its identity."""
        self._call = threading.local()

    def take_fault(self, method: str, params: dict[str, Any]) -> Fault | None:
        fault = super().take_fault(method, params)
        self._call.entry = {
            "t": self.clock(), "method": method, "chat_id": params.get("chat_id"),
            "result": "fault",
            "status": fault.status if fault else 0, "done": False,
            "fault": self.kinds.get(id(fault), "") if fault else "",
        }  # fmt: skip
        if fault:
            self.record.append(self._call.entry)
        return fault

    def call(self, method: str, params: dict[str, Any], files: dict[str, tuple[str, bytes]]) -> Any:
        entry = self._call.entry
        try:
            result = super().call(method, params, files)
        except Refused as refused:
            self.record.append({**entry, "result": "refused", "status": refused.fault.status})
            raise
        entry["done"] = True
        if not entry["fault"] and (method != "getUpdates" or result):
            self.record.append({**entry, "result": "ok", "status": 200})
        return result

    def told(self, chat_id: int, **content: Any) -> tuple[int, int]:
        """Somebody writes to the bot: the ids of the update and of the message."""
        with self._lock:
            message = self.message(chat_id, **content)
            return self._update_id, message

    def order(self, kind: str, method: str, fault: Fault) -> Callable[[], None]:
        """Begin a fault; what ends it."""
        self.kinds[id(fault)] = kind
        self.fault(method, fault)

        def lift() -> None:
            with self._lock:
                if fault in self._faults.get(method, []):
                    self._faults[method].remove(fault)
                self._lock.notify_all()

        return lift

    def evidence(self) -> dict[str, Any]:
        """Everything that was asked and delivered."""
        sent: dict[str, list[dict[str, Any]]] = {}
        for each in list(self.sent):
            sent.setdefault(str(each.chat_id), []).append(_told(each))
        return {
            "calls": list(self.record),
            "sent": sent,
            "unconfirmed": [each["update_id"] for each in self.updates],
            "gone": sorted(map(list, self.gone)),
        }


def _told(each: Sent) -> dict[str, Any]:
    return {
        "message_id": each.message_id, "text": each.text, "reply_to": each.reply_to,
        "file_name": each.file_name, "content": each.content.decode("utf-8", "replace"),
    }  # fmt: skip
