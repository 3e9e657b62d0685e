"""Who hands recordings in: programs over HTTP, people with the command, people with Telegram."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

import httpx

from chaos.corpus import Item
from chaos.plan import OWN_CHAT, SENDERS
from chaos.world import World, eventually
from tests.acceptance.service import USER_PASSWORD, User
from tests.acceptance.telegram_wire import Fault

STRANGER = 5_550_009_999
"""A chat that nobody admitted."""
PATIENCE = httpx.Timeout(30.0, connect=3.0)
COMMAND = (sys.executable, "-c", "import sys; from worker.cli import main; sys.exit(main())")


class Senders:
    """Each send has a thread of its own for as long as its answer takes."""

    def __init__(self, world: World, items: dict[str, Item]) -> None:
        self.world = world
        self.journal = world.journal
        self.items = items
        self.accepted: dict[str, str] = {}
        """The item of each recording that somebody was told is taken."""
        self.sessions: dict[int, tuple[str, User]] = {}
        """Of each accepted send: its job and its sender."""
        self.on_taken: Callable[[int, str, str], None] = lambda *_: None
        self.own: list[int] = []
        """The messages of the chat in which everything must happen that a run must have."""
        self._pool = ThreadPoolExecutor(64, "sender")
        self._commands: set[subprocess.Popen[str]] = set()
        self._waiting: dict[str, list[Future[None]]] = {"http": [], "cli": [], "broken": []}
        self._lock = threading.Lock()
        self._albums = 0

    # Accounts and chats

    def introduce(self) -> None:
        """Accounts for the senders, and chats that the owner admits."""
        for _ in range(SENDERS):
            self.world.users.append(self.account())
        with self.world.service.owner as owner:
            for number in range(OWN_CHAT + 1):
                body = {"chat_id": str(self.chat(number)), "admitted": True}
                owner.post("/api/collections/chats/records", json=body).raise_for_status()
        for number in range(OWN_CHAT + 1):
            self.journal.secret("chat", str(self.chat(number)))

    def account(self) -> User:
        """A new sender, behind the senders' own line."""
        user = self.world.service.user()
        self.journal.secret("email", user.email)
        self.journal.secret("session", user.http.headers["Authorization"])
        token = user.http.headers["Authorization"]
        user.http.close()
        user.http = httpx.Client(
            base_url=self.world.lines["senders"].url, timeout=PATIENCE, trust_env=False,
            headers={"Authorization": token}, limits=httpx.Limits(max_keepalive_connections=0),
        )  # fmt: skip
        return user

    @staticmethod
    def chat(number: int) -> int:
        return 5_550_001_000 + number if number % 2 == 0 else -1_009_990_000_000 - number

    # Over HTTP

    def send(self, fields: dict[str, Any]) -> None:
        """Hand one in, as the plan says."""
        how = {"cli": self._command, "http": self._post, "broken": self._break_off}
        self._waiting[fields["via"]].append(self._pool.submit(how[fields["via"]], fields))

    def _began(self, fields: dict[str, Any], user: User, name: str) -> None:
        self.journal.write(
            "send", id=fields["id"], sender=user.email, item=fields["item"],
            recogniser=fields["recogniser"], via=fields["via"], file_name=name,
            title=fields["title"],
        )  # fmt: skip

    def _post(self, fields: dict[str, Any]) -> None:
        item, user = self.items[fields["item"]], self.world.users[fields["sender"]]
        name = f"{fields['name']}.{item.extension}"
        self._began(fields, user, name)
        files = [(name, item.data)] * (2 if fields["two_files"] else 1)
        more = {"title": fields["title"]} if fields["title"] else {}
        try:
            answer = user.post(*files, **more)
            body = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            self.journal.write("lost", id=fields["id"], error=type(error).__name__)
            return
        self.journal.write("answer", id=fields["id"], status=answer.status_code, body=body)
        if answer.status_code == 201:
            self._taken(fields, body["job_id"], user)

    def _break_off(self, fields: dict[str, Any]) -> None:
        """A sender whose line breaks in the middle of the body."""
        item, user = self.items[fields["item"]], self.world.users[fields["sender"]]
        name = f"{fields['name']}.{item.extension}"
        self._began(fields, user, name)
        request = user.http.build_request(
            "POST", "/api/audio", files={"audio": (name, item.data)}, data={}
        )
        body = request.read()
        head = "".join(
            f"{key}: {request.headers[key]}\r\n"
            for key in ("host", "authorization", "content-type", "content-length")
        )
        line = ("127.0.0.1", self.world.lines["senders"].port)
        with suppress(OSError), socket.create_connection(line, timeout=5) as connection:
            connection.sendall(f"POST /api/audio HTTP/1.1\r\n{head}\r\n".encode())
            connection.sendall(body[: len(body) * 2 // 3])
        self.journal.write("lost", id=fields["id"], error="BrokenOff")

    def _taken(self, fields: dict[str, Any], job: str, user: User) -> None:
        with self._lock:
            self.accepted[job] = fields["item"]
            self.sessions[fields["id"]] = (job, user)
        self.on_taken(fields["id"], job, fields["recogniser"])

    def _command(self, fields: dict[str, Any]) -> None:
        """`transcriber send FILE`, as somebody at a terminal would."""
        item, user = self.items[fields["item"]], self.world.users[fields["sender"]]
        path = self.world.folder / "sent" / f"{fields['name']}.{item.extension}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(item.data)
        self._began(fields, user, path.name)
        title = ["--title", fields["title"]] if fields["title"] else []
        process = subprocess.Popen(
            [*COMMAND, "send", *title, str(path)], cwd=self.world.folder, text=True,
            env=self._environment(user), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        with self._lock:
            self._commands.add(process)
        told = ""
        job = ""
        assert process.stderr is not None
        assert process.stdout is not None
        for line in process.stderr:
            told += line
            if not job and (found := re.search(r": sent as (\w{15})\s*$", line)):
                job = found[1]
                body = {"job_id": job}
                self.journal.write("answer", id=fields["id"], status=201, body=body)
                self._taken(fields, job, user)
        text = process.stdout.read()
        code = process.wait()
        with self._lock:
            self._commands.discard(process)
        if job:
            self.journal.write("printed", id=fields["id"], text=text, code=code)
        else:
            self.journal.write("lost", id=fields["id"], error=told.strip().rpartition("\n")[2])

    def _environment(self, user: User) -> dict[str, str]:
        ours = ("TRANSCRIBER_",)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        return kept | {
            "PYTHONPATH": self.world.service.env["PYTHONPATH"],
            "XDG_CONFIG_HOME": str(self.world.folder / "sent"),
            "TRANSCRIBER_URL": self.world.lines["senders"].url,
            "TRANSCRIBER_EMAIL": user.email,
            "TRANSCRIBER_PASSWORD": USER_PASSWORD,
        }

    # By Telegram

    def message(self, fields: dict[str, Any]) -> None:
        """Somebody sends the bot a recording, or an album of two."""
        telegram, chat = self.world.telegram, self.chat(fields["chat"])
        if fields["stranger"]:
            chat = STRANGER
        item = self.items[fields["item"]]
        if fields.get("answer_lost"):
            # Whenever it comes: the first one to this chat arrives, and nobody is told so.
            lost = Fault(done=True, drop=True, times=1, chat=chat)
            telegram.order("answer_lost", "sendMessage", lost)
        album = {}
        if fields["album"]:
            self._albums += 1
            album = {"media_group_id": str(self._albums)}
        for number in range(2 if fields["album"] else 1):
            name = f"{fields['name']}{number or ''}.{item.extension}"
            content, named = self._media(item, fields["form"], name)
            update, message = telegram.told(chat, **content, **album)
            self.journal.write(
                "message", id=fields["id"] + 50_000 * number, update_id=update, chat=chat,
                message_id=message, item=item.name, form=fields["form"],
                file_name=name if named else "", admitted=chat != STRANGER,
            )  # fmt: skip
        if fields["chat"] == OWN_CHAT:
            self.own.append(message)
        if after := fields["deleted_after"]:
            timer = threading.Timer(after, self._delete, (chat, message))
            timer.daemon = True
            timer.start()

    def ask_again(self, fields: dict[str, Any]) -> None:
        """Somebody wants a text of this chat's once more."""
        chat = self.chat(fields["chat"])
        try:
            rows = self.world.rows("SELECT id FROM jobs WHERE chat_id = ? ORDER BY id", str(chat))
        except sqlite3.Error:
            return
        if rows:
            text = f"/text_{rows[int(fields['pick'] * len(rows))]['id']}"
            update, message = self.world.telegram.told(chat, text=text)
            self.journal.write(
                "message", id=fields["id"], update_id=update, chat=chat, message_id=message,
                text=text, admitted=True,
            )  # fmt: skip

    def _delete(self, chat: int, message: int) -> None:
        """The sender takes its message away; what was made of it stays."""
        self.world.telegram.gone.add((chat, message))
        self.journal.write("message_gone", chat=chat, message_id=message)

    def _media(self, item: Item, form: str, name: str) -> tuple[dict[str, Any], bool]:
        path = f"{form}/file.{item.extension}"
        media: dict[str, Any] = {
            "file_id": self.world.telegram.file(item.data, path),
            "file_unique_id": "u",
            "file_size": len(item.data),
        }
        named = form in {"audio", "document", "video"}
        if named:
            media["file_name"] = name
        if form == "document":
            media["mime_type"] = "audio/x-unknown" if item.kind != "video" else "video/mp4"
        elif form == "video_note":
            media |= {"length": 240, "duration": 3}
        else:
            media["duration"] = 3
            if form == "video":
                media |= {"width": 64, "height": 64}
        return {form: media}, named

    # The end

    def finish(self, limit: float, *via: str) -> None:
        """Wait for the answers that are still to come, or for the commands' own ends."""
        waiting = [each for how in via for each in self._waiting[how]]
        wait(waiting, timeout=limit)
        for each in waiting:
            if each.done():
                each.result()

    def close(self) -> None:
        with self._lock:
            commands = list(self._commands)
        for process in commands:
            process.kill()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def status(self, job: str, user: User) -> dict[str, Any]:
        """What the sender of a recording is told now, by both routes."""

        def ask(path: str) -> dict[str, Any]:
            try:
                answer = eventually(lambda: user.http.get(path), 20, path)
                return {"code": answer.status_code, "body": answer.json()}
            except (AssertionError, ValueError) as error:  # something for the checker to see
                return {"code": 0, "body": {"error": type(error).__name__}}

        return {
            "status": ask(f"/api/status/{job}"),
            "transcript": ask(f"/api/transcript/{job}/raw"),
        }
