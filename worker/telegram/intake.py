"""One message: who sent it, what it carries, and what becomes of it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from types import NoneType
from typing import Any, Final

from loguru import logger
from telegram import Chat, Message, Update
from telegram.constants import ChatType

from worker.errors import PocketBaseError, PocketBaseRefused
from worker.settings import Settings
from worker.telegram import media, store
from worker.telegram.api import CLOUD_LIMIT_MB, Api
from worker.telegram.files import Files, OverOurs, OverTelegram
from worker.telegram.say import Speaker
from worker.telegram.store import Store
from worker.telegram.words import Words

_STRANGERS: Final = 10_000
"""Chats that are remembered as told that they are strangers."""
_TOLD_FOR: Final = 3600.0
"""Seconds after which a stranger is told once more."""
_LISTED: Final = 20


class Intake:
    """Deals with updates, each to its end: after that it may be confirmed to Telegram."""

    def __init__(
        self,
        api: Api,
        store: Store,
        files: Files,
        speaker: Speaker,
        settings: Settings,
    ) -> None:
        self._api = api
        self._store = store
        self._files = files
        self._speaker = speaker
        self._settings = settings
        self._words = Words(settings.locale)
        self._strangers: dict[int, float] = {}
        self._beside: set[asyncio.Task[None]] = set()
        self._moves = 0
        self._moved: dict[int, int] = {}
        """Groups that became supergroups while this process ran."""
        self._settled = asyncio.Event()
        self._settled.set()

    async def handle(self, raw: dict[str, Any]) -> None:
        """Deal with an update. May be called again for the same one, after a fault.

        Raises:
            PocketBaseError, TelegramError, FileFault, OSError: not dealt with yet.
        """
        message = self._message(raw)
        if message is None:
            return
        if message.migrate_to_chat_id:
            await self._move(message.chat_id, message.migrate_to_chat_id)
            return
        recording = media.find(message)
        command = self._command(message)
        # A group's talk among its people is none of ours.
        if recording is None and command is None and message.chat.type != ChatType.PRIVATE:
            return
        if not _is_said(message):
            return
        await self._settled.wait()
        chat = await self._chat(message)
        if not chat.admitted:
            await self._tell_stranger(message, counted=recording is not None)
            return
        self._strangers.pop(message.chat_id, None)
        if recording is not None:
            await self._take(message, recording, raw["update_id"], chat.job_id)
        elif command is not None:
            await self._obey(message, *command)
        else:
            await self._say(message, self._words.say("not_media"))

    async def give_up(self, raw: dict[str, Any], key: str) -> None:
        """Tell the sender of an update that nothing will come of it."""
        message = self._message(raw)
        if message is not None:
            await self._say(message, self._words.say(key))
            await self._count("internal")

    async def rest(self) -> None:
        """Wait for what still goes on beside."""
        if self._beside:
            await asyncio.wait(self._beside, timeout=2.0)

    async def _chat(self, message: Message) -> store.Chat:
        """Whether its chat is admitted. One in work while its group moved is the new one's."""
        new = self._moved.get(message.chat_id)
        if new is None:
            return await self._store.chat(message.chat_id, message.message_id)
        return await self._store.chat(new)  # whose messages have other numbers

    async def _move(self, old: int, new: int) -> None:
        """Carry the admission over; what comes from the new chat behind this waits for it."""
        self._moves += 1
        self._settled.clear()
        try:
            await self._store.moved(str(old), str(new))
            self._moved[old] = new
        finally:
            self._moves -= 1
            if not self._moves:
                self._settled.set()

    def _message(self, raw: dict[str, Any]) -> Message | None:
        try:
            update = Update.de_json(raw, self._api)
        except Exception as error:  # noqa: BLE001 - a form that the library does not know
            # Nothing can be said to somebody whom we cannot read. Its content stays unsaid, too.
            logger.error(
                "telegram update not understood",
                update_id=raw.get("update_id"),
                reason=type(error).__name__,
            )
            return None
        message = update.message
        if message is None or _is_sound(message):
            return message
        logger.error(
            "telegram update not understood", update_id=raw.get("update_id"), reason="odd values"
        )
        return None

    def _command(self, message: Message) -> tuple[str, str] | None:
        """The command that the message gives to this bot, and what follows it."""
        text = message.text or ""
        if not text.startswith("/"):
            return None
        head, _, rest = text[1:].partition(" ")
        name, _, addressee = head.partition("@")
        if addressee and addressee.lower() != (self._api.bot.username or "").lower():
            return None
        return name.lower(), rest.strip()

    async def _tell_stranger(self, message: Message, *, counted: bool) -> None:
        now = time.monotonic()
        if now - self._strangers.get(message.chat_id, -_TOLD_FOR) >= _TOLD_FOR:
            if len(self._strangers) >= _STRANGERS:
                self._strangers.pop(next(iter(self._strangers)))
            self._strangers[message.chat_id] = now
            try:
                await self._say(message, self._words.say("stranger", chat_id=message.chat_id))
            except BaseException:
                self._strangers.pop(message.chat_id, None)
                raise
        if counted:
            await self._count("forbidden")

    async def _take(
        self, message: Message, recording: media.Attachment, update_id: int, known: str
    ) -> None:
        if known:  # the message was delivered before, and what came of it is stored
            self._acknowledge(message, again=True)
            return
        try:
            async with self._files.fetched(recording, f"update-{update_id}") as path:
                job_id = await self._store.accept(
                    path, message.chat_id, _topic(message), message.message_id
                )
        except OverTelegram:
            await self._refuse(
                message, "too_large", "over_telegram", limit=CLOUD_LIMIT_MB, **self._limits()
            )
        except OverOurs:
            await self._refuse(message, "too_large", "too_large", **self._limits())
        except PocketBaseRefused as error:
            if error.error_code == "too_large":
                await self._refuse(message, "too_large", "too_large", **self._limits())
            elif error.error_code == "unreadable":
                await self._refuse(message, "internal", "unreadable")
            else:
                raise
        else:
            logger.info("recording taken from telegram", job_id=job_id)
            self._acknowledge(message)

    async def _count(self, error_code: str) -> None:
        """Count a refusal. What was said to the sender is not said again for the count's sake."""
        with suppress(PocketBaseError):
            await self._store.reject(error_code)

    def _limits(self) -> dict[str, object]:
        settings = self._settings
        return {"upload": settings.max_upload_mb, "hours": f"{settings.max_duration_hours:g}"}

    async def _refuse(self, message: Message, error_code: str, key: str, **values: object) -> None:
        await self._say(message, self._words.say(key, **values))
        await self._count(error_code)
        logger.info("recording from telegram refused", reason=error_code)

    def _acknowledge(self, message: Message, *, again: bool = False) -> None:
        """Beside everything else: the recording is safe, the next one is not to wait for this."""
        kind = self._settings.telegram_acknowledge
        if again and kind == "reply":  # a reaction can be set twice; a reply would be two
            return
        task = asyncio.create_task(
            self._speaker.acknowledge(
                kind,
                message.chat_id,
                message.message_id,
                _topic(message),
                self._words.say("taken"),
            )
        )
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _obey(self, message: Message, command: str, rest: str) -> None:
        if command == "status":
            await self._say(message, await self._status(message.chat))
        elif command == "text" or command.startswith("text_"):
            await self._again(message, rest or command.removeprefix("text").removeprefix("_"))
        elif command in {"start", "help"} or message.chat.type == ChatType.PRIVATE:
            await self._say(message, self._words.say("help"))

    async def _status(self, chat: Chat) -> str:
        jobs = await self._store.in_work(chat.id)
        words = self._words
        if not jobs:
            return words.say("idle")
        lines = [words.say("in_work", count=len(jobs))]
        for number, job in enumerate(jobs[:_LISTED], 1):
            state = words.say(job.status, percent=int(job.progress * 100))
            lines.append(
                words.say(
                    "line",
                    number=number,
                    length=words.length(job.duration),
                    age=words.length(job.age),
                    state=state,
                )
            )
        if len(jobs) > _LISTED:
            lines.append(words.say("and_more", count=len(jobs) - _LISTED))
        return "\n".join(lines)

    async def _again(self, message: Message, job_id: str) -> None:
        if not await self._store.again(job_id, message.chat_id, message.message_id):
            await self._say(message, self._words.say("unknown"))

    async def _say(self, message: Message, text: str) -> None:
        await self._speaker.say(message.chat_id, text, message.message_id, _topic(message))


def _topic(message: Message) -> int | None:
    """The forum topic, and not the thread of replies that other groups number likewise."""
    return message.message_thread_id if message.is_topic_message else None


def _is_sound(message: Message) -> bool:
    """Whether what says where it is and what it says are of their kinds: the library takes
    whatever stands there, and nothing too."""
    return (
        isinstance(message.chat, Chat)
        and type(message.chat.id) is int  # True and False are no addresses
        and type(message.message_id) is int
        and type(message.message_thread_id) in {int, NoneType}
        and type(message.migrate_to_chat_id) in {int, NoneType}
        and isinstance(message.text, str | None)
    )


def _is_said(message: Message) -> bool:
    """Whether somebody says something, and the message is not the chat's own bookkeeping."""
    return bool(message.effective_attachment or message.text)
