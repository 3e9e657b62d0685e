"""What the Telegram input asks of PocketBase (`pb/pb_hooks/telegram.pb.js`), from asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from worker.errors import LeaseLost, PocketBaseRefused
from worker.pocketbase.client import Client, reading

T = TypeVar("T")

LEASE: Final = 300.0
"""Seconds: each message of an answer is sent within this, and renews it."""


@dataclass(frozen=True, slots=True)
class Chat:
    """What is known of a chat, and of one message in it."""

    admitted: bool
    job_id: str
    """The job that the message has given already, or empty."""


@dataclass(frozen=True, slots=True)
class InWork:
    """One of a chat's recordings that is not done yet."""

    status: str
    duration: float
    age: float
    progress: float


@dataclass(slots=True)
class Answer:
    """A claimed answer. `begun` is ahead of `sent` exactly while a message is on its way."""

    id: str
    job_id: str
    kind: Literal["text", "failure"]
    chat_id: str
    thread_id: str
    message_id: str
    begun: int
    sent: int
    unsure: int
    """Messages of which nobody knows whether they arrived."""
    attempts: int
    failing: float
    """Seconds for which Telegram has not been reachable for this answer."""
    lease_token: str
    text: str | None
    """The proofread text where there is one; None where there is none at all."""
    why: str = ""
    """Of a failure: what its sender may be told of it."""


class Store:
    """Blocking calls, each in a thread of its own, so that none holds up the others.

    Every method raises what `worker.pocketbase.client` does.
    """

    def __init__(self, client: Client, worker: str) -> None:
        self._client = client
        self._worker = worker

    async def chat(self, chat_id: int, message_id: int | None = None) -> Chat:
        """Whether the owner admits the chat now, and what the message has given before."""
        query = "" if message_id is None else f"?message_id={message_id}"
        answer = await self._get(f"/api/queue/chats/{chat_id}{query}")
        with reading("chat"):
            return Chat(answer["admitted"], answer["job_id"])

    async def accept(self, file: Path, chat_id: int, thread_id: int | None, message_id: int) -> str:
        """Hand a recording in; the job's id, the same however often it is handed in."""
        fields = {
            "chat_id": str(chat_id),
            "thread_id": str(thread_id or ""),
            "message_id": str(message_id),
        }
        answer = await _run(
            lambda: self._client.upload("/api/queue/recordings", "audio", file, fields)
        )
        with reading("accept"):
            return str(answer["job_id"])

    async def reject(self, error_code: str) -> None:
        """Count a recording that was refused."""
        await self._post("/api/queue/rejections", error_code=error_code)

    async def in_work(self, chat_id: int) -> list[InWork]:
        """The chat's recordings that are not done yet, the oldest first."""
        answer = await self._get(f"/api/queue/chats/{chat_id}/jobs")
        with reading("jobs of a chat"):
            return [
                InWork(row["status"], row["duration"], row["age"], row["progress"])
                for row in answer["jobs"]
            ]

    async def moved(self, old: str, new: str) -> None:
        """A group became a supergroup: it stays admitted, and its answers go there."""
        await self._post(f"/api/queue/chats/{old}/moved", to=new)

    async def again(self, job_id: str, chat_id: int, message_id: int) -> bool:
        """Have a recording's answer sent again; false where the chat has no such one."""
        answer = await self._post(
            "/api/queue/answers/again",
            job_id=job_id,
            chat_id=str(chat_id),
            message_id=str(message_id),
        )
        with reading("again"):
            return bool(answer["found"])

    async def claim(self, count: int) -> list[Answer]:
        """Answers to be sent now, at most one of each chat."""
        answer = await self._post(
            "/api/queue/answers/claim", worker=self._worker, lease_seconds=LEASE, count=count
        )
        with reading("claim answers"):
            return [
                Answer(
                    id=row["id"],
                    job_id=row["recording"],
                    kind=row["kind"],
                    chat_id=row["chat_id"],
                    thread_id=row["thread_id"],
                    message_id=row["message_id"],
                    begun=row["begun"],
                    sent=row["sent"],
                    unsure=row["unsure"],
                    attempts=row["attempts"],
                    failing=row["failing"],
                    lease_token=row["lease_token"],
                    text=row["text"] if row["has_text"] else None,
                    why=row["why"],
                )
                for row in answer["answers"]
            ]

    async def give_back(self) -> None:
        """Give back what the previous process of this name held."""
        await self._post("/api/queue/answers/restart", worker=self._worker)

    async def begin(self, answer: Answer) -> None:
        """Note that the next message of the answer is about to leave."""
        answer.begun = answer.sent + 1
        await self._write(answer, outcome="begun")

    async def later(self, answer: Answer, pause: float, *, failing: bool) -> None:
        """Note that no message is on its way, and the answer is to be tried after a pause."""
        answer.begun = answer.sent
        await self._write(answer, outcome="later", pause=pause, failing=failing)

    async def end(self, answer: Answer, state: str, reason: str = "") -> None:
        """Note what became of the answer."""
        await self._write(answer, outcome="ended", state=state, reason=reason)

    async def _write(self, answer: Answer, **fields: Any) -> None:
        try:
            await self._post(
                f"/api/queue/answers/write/{answer.id}",
                lease_token=answer.lease_token,
                begun=answer.begun,
                sent=answer.sent,
                unsure=answer.unsure,
                **fields,
            )
        except PocketBaseRefused as error:
            if error.error_code == "lease_lost":
                raise LeaseLost(answer.job_id) from error
            raise

    async def _get(self, path: str) -> dict[str, Any]:
        return await _run(lambda: self._client.request("GET", path))

    async def _post(self, path: str, **body: Any) -> dict[str, Any]:
        return await _run(lambda: self._client.request("POST", path, json=body))


async def _run(call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, call)
