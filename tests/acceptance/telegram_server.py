"""A faithful Bot API server on loopback, written from the public documentation.

It keeps chats, messages, files and unconfirmed updates as Telegram does, refuses what Telegram
refuses in Telegram's own words, and can be told to fail in every way the real one was seen to.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.telegram_wire import BLOCKED, Fault, Refused, Server, handler, too_many

TOKEN = "424242:AAH-secret_token-of_the_tests"
BOT = {"id": 424242, "is_bot": True, "first_name": "Transcriber", "username": "transcriber_bot"}
CLOUD_LIMIT = 20 << 20
REACTIONS = ("👍", "👎", "❤", "👀", "👌", "✍")
TEXT_LIMIT = 4096
CAPTION_LIMIT = 1024


@dataclass
class Sent:
    """A message that the bot sent."""

    chat_id: int
    message_id: int
    text: str
    reply_to: int | None
    thread_id: int | None
    at: float
    parse_mode: str | None = None
    file_name: str = ""
    content: bytes = b""


class TelegramServer:
    """Runs from `start` to `close`. Every attribute may be read by a test at any time."""

    def __init__(self, token: str = TOKEN, local: bool = False) -> None:
        self.token = token
        self.local = local
        self.known = True
        """Whether there is a bot with this token."""
        self.sent: list[Sent] = []
        self.reactions: list[tuple[int, int, str]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        """Every call that came in, the failed ones too."""
        self.downloads: list[str] = []
        self.updates: list[dict[str, Any]] = []
        """Not yet confirmed."""
        self.topics: dict[int, set[int]] = {}
        """Forums and their open topics."""
        self.no_reactions: set[int] = set()
        self.gone: set[tuple[int, int]] = set()
        """Messages that their senders deleted."""
        self.migrated: dict[int, int] = {}
        self.webhook = ""
        self.folder: Path | None = None
        """Where a server in local mode keeps its files."""
        self._files: dict[str, tuple[str, bytes]] = {}
        self._faults: dict[str, list[Fault]] = {}
        self._released = threading.Event()
        self._lock = threading.Condition()
        self._update_id = 1000
        self._message_id = 0
        self._poller = 0
        self._server = Server(("127.0.0.1", 0), handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> TelegramServer:
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        return self

    def close(self) -> None:
        self._released.set()
        with self._lock:
            self._lock.notify_all()
        self._server.shutdown()
        self._server.server_close()

    # What tests do

    def message(self, chat_id: int, **content: Any) -> int:
        """Somebody writes to the bot; the message's id. Media by `voice=...` and the like."""
        with self._lock:
            self._message_id += 1
            self._update_id += 1
            message = {
                "message_id": self._message_id,
                "date": int(time.time()),
                "chat": _chat(chat_id, self.topics),
                "from": {"id": abs(chat_id), "is_bot": False, "first_name": "Somebody"},
                **content,
            }
            if (text := content.get("text")) and text.startswith("/"):
                length = len(text.split()[0])
                message["entities"] = [{"type": "bot_command", "offset": 0, "length": length}]
            self.updates.append({"update_id": self._update_id, "message": message})
            self._lock.notify_all()
            return self._message_id

    def raw(self, update: dict[str, Any]) -> int:
        """An update of any form."""
        with self._lock:
            self._update_id += 1
            self.updates.append({"update_id": self._update_id, **update})
            self._lock.notify_all()
            return self._update_id

    def file(self, content: bytes, path: str = "voice/file.oga") -> str:
        """A file on Telegram's side; its id."""
        with self._lock:
            file_id = f"file-{len(self._files)}"
            head, _, tail = path.rpartition("/")
            self._files[file_id] = (f"{head}/{len(self._files)}_{tail}", content)
            return file_id

    def voice(self, chat_id: int, content: bytes, **more: Any) -> int:
        """Somebody sends a voice message."""
        voice = {
            "file_id": self.file(content),
            "file_unique_id": "u",
            "duration": 1,
            "mime_type": "audio/ogg",
            "file_size": len(content),
        }
        return self.message(chat_id, voice=voice, **more)

    def document(
        self, chat_id: int, content: bytes, name: str | None, mime: str | None, **more: Any
    ) -> int:
        document = {
            "file_id": self.file(content, "documents/file_1" + Path(name or "").suffix),
            "file_unique_id": "u",
            "file_size": len(content),
            **({"file_name": name} if name else {}),
            **({"mime_type": mime} if mime else {}),
        }
        return self.message(chat_id, document=document, **more)

    def fault(self, method: str, fault: Fault) -> Fault:
        """From now on calls of the method meet this."""
        with self._lock:
            self._faults.setdefault(method, []).append(fault)
        return fault

    def lift(self, method: str | None = None) -> None:
        """No more faults (of this method)."""
        with self._lock:
            for name in [method] if method else list(self._faults):
                self._faults.pop(name, None)
            self._lock.notify_all()

    @contextmanager
    def failing(self, method: str, fault: Fault) -> Iterator[Fault]:
        self.fault(method, fault)
        try:
            yield fault
        finally:
            with self._lock:
                if fault in self._faults.get(method, []):
                    self._faults[method].remove(fault)

    def to(self, chat_id: int) -> list[Sent]:
        """What the bot sent to a chat."""
        return [each for each in list(self.sent) if each.chat_id == chat_id]

    def called(self, method: str) -> int:
        return sum(name == method for name, _ in list(self.calls))

    # What the Bot API does

    def call(self, method: str, params: dict[str, Any], files: dict[str, tuple[str, bytes]]) -> Any:
        """The result of a call; raises `Refused` with Telegram's words."""
        with self._lock:
            if method != "getUpdates" and params.get("chat_id") is not None:
                params["chat_id"] = int(params["chat_id"])
            handler = getattr(self, f"_do_{method}", None)
            if handler is None:
                raise Refused(404, "Not Found: method not found")
            return handler(params, files)

    def take_fault(self, method: str, params: dict[str, Any]) -> Fault | None:
        with self._lock:
            for fault in self._faults.get(method, []):
                chat = params.get("chat_id")
                if fault.times and (fault.chat is None or str(fault.chat) == str(chat)):
                    fault.times -= 1
                    return fault
        return None

    def stay_silent(self, method: str, fault: Fault) -> None:
        while not self._released.is_set():
            with self._lock:
                if fault not in self._faults.get(method, []):
                    return
                self._lock.wait(0.2)

    def _do_getMe(self, params: dict[str, Any], files: Any) -> Any:
        return BOT | {"can_join_groups": True, "can_read_all_group_messages": False}

    def _do_deleteWebhook(self, params: dict[str, Any], files: Any) -> Any:
        self.webhook = ""
        return True

    def _do_getUpdates(self, params: dict[str, Any], files: Any) -> Any:
        if self.webhook:
            raise Refused(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook "
                "to delete the webhook first",
            )
        self._poller += 1  # whoever polls now ends the poll before
        mine = self._poller
        self._lock.notify_all()
        offset = int(params.get("offset") or 0)
        if offset:
            self.updates = [each for each in self.updates if each["update_id"] >= offset]
        deadline = time.monotonic() + float(params.get("timeout") or 0)
        while not self.updates and not self._released.is_set():
            left = deadline - time.monotonic()
            if left <= 0:
                break
            self._lock.wait(min(left, 0.5))
            if self._poller != mine:
                raise Refused(
                    409,
                    "Conflict: terminated by other getUpdates request; make sure that only one "
                    "bot instance is running",
                )
        return list(self.updates[: int(params.get("limit") or 100)])

    def _do_getFile(self, params: dict[str, Any], files: Any) -> Any:
        found = self._files.get(str(params.get("file_id")))
        if found is None:
            raise Refused(400, "Bad Request: invalid file_id")
        path, content = found
        if len(content) > CLOUD_LIMIT and not self.local:
            raise Refused(400, "Bad Request: file is too big")
        if self.local and self.folder:
            place = self.folder / self.token.replace(":", "~") / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            path = str(place)
        return {
            "file_id": params["file_id"],
            "file_unique_id": "u",
            "file_size": len(content),
            "file_path": path,
        }

    def content(self, path: str) -> bytes | None:
        self.downloads.append(path)
        for known, content in self._files.values():
            if known == path:
                return content
        return None

    def _do_sendMessage(self, params: dict[str, Any], files: Any) -> Any:
        text = params.get("text", "").strip()
        if not text:
            raise Refused(400, "Bad Request: message text is empty")
        if len(text.encode("utf-16-le")) // 2 > TEXT_LIMIT:
            raise Refused(400, "Bad Request: message is too long")
        return self._send(params, text=text)

    def _do_sendDocument(self, params: dict[str, Any], files: dict[str, tuple[str, bytes]]) -> Any:
        caption = params.get("caption", "").strip()
        if len(caption.encode("utf-16-le")) // 2 > CAPTION_LIMIT:
            raise Refused(400, "Bad Request: message caption is too long")
        if len(files) != 1:
            raise Refused(400, "Bad Request: there is no document in the request")
        [(name, content)] = files.values()
        return self._send(params, text=caption, file_name=name, content=content)

    def _send(self, params: dict[str, Any], **content: Any) -> Any:
        chat_id = params["chat_id"]
        if chat_id in self.migrated:
            raise Refused(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=self.migrated[chat_id],
            )
        thread_id = params.get("message_thread_id")
        if thread_id is not None and int(thread_id) not in self.topics.get(chat_id, set()):
            raise Refused(400, "Bad Request: message thread not found")
        reply = json.loads(params.get("reply_parameters") or "{}")
        reply_to = reply.get("message_id")
        if reply_to is not None and (chat_id, reply_to) in self.gone:
            if not reply.get("allow_sending_without_reply"):
                raise Refused(400, "Bad Request: message to be replied not found")
            reply_to = None
        self._message_id += 1
        self.sent.append(
            Sent(
                chat_id,
                self._message_id,
                reply_to=reply_to,
                thread_id=int(thread_id) if thread_id is not None else None,
                at=time.monotonic(),
                parse_mode=params.get("parse_mode"),
                **content,
            )
        )
        self._lock.notify_all()
        return {
            "message_id": self._message_id,
            "date": int(time.time()),
            "chat": _chat(chat_id, self.topics),
            "text": content["text"],
        }

    def _do_setMessageReaction(self, params: dict[str, Any], files: Any) -> Any:
        reactions = json.loads(params.get("reaction") or "[]")
        emoji = [each["emoji"] for each in reactions]
        if params["chat_id"] in self.no_reactions or any(e not in REACTIONS for e in emoji):
            raise Refused(400, "Bad Request: REACTION_INVALID")
        for each in emoji:
            self.reactions.append((params["chat_id"], int(params["message_id"]), each))
        return True

    def _do_sendChatAction(self, params: dict[str, Any], files: Any) -> Any:
        return True

    def _do_logOut(self, params: dict[str, Any], files: Any) -> Any:
        return True


def _chat(chat_id: int, topics: dict[int, set[int]]) -> dict[str, Any]:
    if chat_id > 0:
        return {"id": chat_id, "type": "private", "first_name": "Somebody"}
    kind = "supergroup" if str(chat_id).startswith("-100") else "group"
    forum = {"is_forum": True} if chat_id in topics else {}
    return {"id": chat_id, "type": kind, "title": "A group", **forum}


__all__ = ["BLOCKED", "TOKEN", "Fault", "Sent", "TelegramServer", "too_many"]
