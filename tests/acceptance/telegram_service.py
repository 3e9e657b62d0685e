"""The service with its Telegram input, beside the tests' Bot API server."""

from __future__ import annotations

import io
import itertools
import os
import wave
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.service import Service, tone, wait_until
from tests.acceptance.telegram_server import TOKEN, Sent, TelegramServer
from worker.jobs import Advanced, Dead, Failed, Job, Milestone, Outcome, Transcript
from worker.pocketbase.client import Client
from worker.pocketbase.queue import Queue

_numbers = itertools.count(1)


def sound_of(size: int) -> bytes:
    """A recording of exactly so many bytes."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(16000)
        writer.writeframes(bytes(range(0, 250, 2)) * (size // 125 + 1))
    head = file.getvalue()[:44]
    data = size - len(head)
    head = head[:4] + (data + 36).to_bytes(4, "little") + head[8:40] + data.to_bytes(4, "little")
    return head + file.getvalue()[44:size]


class Bot:
    """A service, the Telegram it talks to, and who writes to it."""

    def __init__(
        self, folder: Path, telegram: TelegramServer | None = None, **settings: str
    ) -> None:
        self.telegram = telegram or TelegramServer().start()
        self.service = Service(
            folder,
            **{
                "TELEGRAM_ENABLED": "true",
                "TELEGRAM_TOKEN": TOKEN,
                "TELEGRAM_API_URL": self.telegram.url,
                "POLL_SECONDS": "0.2",
                "CHECK_SECONDS": "0.5",
                "BACKOFF_SECONDS": "0.2",
                **settings,
            },
        )
        self.sound = tone(folder, "tone.wav", 0.3).read_bytes()

    def start(self, *names: str) -> None:
        """Start processes, all but the engine's by default, and wait for the input."""
        self.service.start(*(names or ("pb", "media", "telegram")))
        self.up()

    def up(self) -> None:
        wait_until(lambda: self.input_up("telegram") == 1, 30, "the telegram input")

    def input_up(self, name: str) -> float:
        return self.service.metrics()[f'transcriber_input_up{{input="{name}"}}']

    def close(self) -> None:
        self.telegram.close()
        self.service.close()

    @cached_property
    def owner(self) -> httpx.Client:
        """The panel's owner, logged in once."""
        return self.service.owner

    @cached_property
    def client(self) -> Client:
        """A worker, logged in once."""
        return self.service.client()

    # Who writes

    def chat(self, *, admitted: bool = True, kind: str = "private") -> int:
        """A new chat; in a forum the topic 5 is open."""
        number = next(_numbers)
        chat_id = {
            "private": 1000 + number,
            "group": -1000 - number,
            "forum": -1000000000000 - number,
        }[kind]
        if kind == "forum":
            self.telegram.topics[chat_id] = {5}
        if admitted:
            self.admit(chat_id)
        return chat_id

    def admit(self, chat_id: int, admitted: bool = True) -> None:
        """What the owner does in the panel."""
        path = "/api/collections/chats/records"
        found = self.owner.get(path, params={"filter": f'chat_id = "{chat_id}"'}).json()["items"]
        body = {"chat_id": str(chat_id), "admitted": admitted}
        answer = (
            self.owner.patch(f"{path}/{found[0]['id']}", json=body)
            if found
            else self.owner.post(path, json=body)
        )
        assert answer.status_code == 200, answer.text

    def taken(self, chat_id: int, message_id: int, limit: float = 20.0) -> dict[str, Any]:
        """The job of a message, once there is one."""
        [row] = wait_until(
            lambda: self.jobs(chat_id, message_id), limit, f"the job of message {message_id}"
        )
        return row

    def jobs(self, chat_id: int, message_id: int | None = None) -> list[dict[str, Any]]:
        sql = """SELECT jobs.*, r.extension, r.source, r.owner, r.audio, r.size FROM jobs
                 JOIN recordings r ON r.id = jobs.recording WHERE chat_id = ?"""
        rows = self.service.rows(sql, str(chat_id))
        return [row for row in rows if message_id in (None, int(row["message_id"] or 0))]

    def job(self, chat_id: int, message_id: int = 1, thread_id: int | str = "") -> str:
        """A job as if a message had given it."""
        path = self.service.folder / f"{os.urandom(4).hex()}.wav"
        path.write_bytes(self.sound)
        answer = self.client.upload(
            "/api/queue/recordings",
            "audio",
            path,
            {
                "chat_id": str(chat_id),
                "message_id": str(message_id),
                "thread_id": str(thread_id),
            },
        )
        return str(answer["job_id"])

    # Who works

    def finish(self, job_id: str, text: str) -> None:
        """The job's text is there, as the pipeline would write it."""
        transcript = Transcript(text, [], "ru", "test")
        self.end(job_id, Advanced(Milestone.DONE, transcript=transcript))

    def fail(self, job_id: str, *, dead: bool = False) -> None:
        self.end(job_id, (Dead if dead else Failed)("decode: sandbox died: /secret/path"))

    def end(self, job_id: str, outcome: Outcome) -> None:
        token = os.urandom(8).hex()
        self.service.execute(
            """UPDATE jobs SET state = 'transcribed', milestone = 'transcribed', lease_token = ?,
               leased_at = strftime('%Y-%m-%d %H:%M:%fZ', 'now'), leased_by = 'test'
               WHERE id = ?""",
            token,
            job_id,
        )
        row = self.service.job(job_id)
        job = Job.from_row({**row, "waited": 0.0, "source": "telegram"})
        Queue(self.client, "test").write(job, outcome)

    # What is said

    def said(self, chat_id: int, count: int = 1, limit: float = 20.0) -> list[Sent]:
        """What the bot said to a chat, once it has said so much."""
        return wait_until(
            lambda: (sent := self.telegram.to(chat_id)) and len(sent) >= count and sent,
            limit,
            f"{count} messages to {chat_id}",
        )

    def answer(self, job_id: str, limit: float = 20.0) -> dict[str, Any]:
        """The row of a job's answer, once it is ended."""

        def ended() -> list[dict[str, Any]]:
            return self.service.rows(
                "SELECT * FROM answers WHERE recording = ? AND state <> 'pending'", job_id
            )

        return wait_until(ended, limit, f"the end of the answer to {job_id}")[-1]

    def undelivered(self, reason: str) -> float:
        series = f'transcriber_undelivered_replies_total{{reason="{reason}"}}'
        return self.service.metrics().get(series, 0.0)
