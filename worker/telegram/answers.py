"""Tells senders what became of their recordings: claims answers, sends them, notes what became.

Each message of an answer is noted before it leaves and when it has arrived. Where a fault or a
crash leaves unknown whether it did, it is not sent again: the sender would get it twice. Instead
the rest follows, and then a line that says so and how to get the text once more. That line may come
twice: it is said again until it has arrived for certain, three times at most.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from loguru import logger
from telegram import ReplyParameters
from telegram.error import BadRequest, ChatMigrated, Forbidden, RetryAfter, TelegramError

from worker import notify
from worker.errors import ConfigurationError, LeaseLost, PocketBaseError, PocketBaseUnavailable
from worker.pocketbase.sight import Sight
from worker.settings import Settings
from worker.telegram.api import Api, explain, may_have_arrived, seconds_of
from worker.telegram.pace import Pace
from worker.telegram.store import Answer, Store
from worker.telegram.text import preview, split
from worker.telegram.times import Times
from worker.telegram.words import Words

AT_ONCE: Final = 32
"""Answers on their way at the same time, each to another chat."""
_LONGEST_PAUSE: Final = 300.0
_NOTICES: Final = 3
"""Times that the line about a missing part is said, while nobody knows whether it came."""

_FAILURES: Final = {"no_sound": "no_sound", "unreadable": "broken", "too_long": "too_long"}
"""What is said of a judgement; of any other, only that there is no text."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part:
    """One message of an answer."""

    text: str
    file: bytes | None = None
    """A text file that goes with it."""


@dataclass(frozen=True, slots=True)
class _Later:
    """Certainly not delivered; it may be after a pause."""

    pause: float
    failing: bool
    """Whether Telegram could not be reached, which is borne only for so long."""
    reason: str


@dataclass(frozen=True, slots=True)
class _Never:
    """Telegram says that this cannot be delivered."""

    reason: str
    detail: str


_Result = Literal["sent", "unsure"] | _Later | _Never


class Teller:
    """Works until stopped. One answer's trouble is no other chat's."""

    def __init__(
        self,
        api: Api,
        store: Store,
        pace: Pace,
        settings: Settings,
        count: notify.Counter,
        stop: asyncio.Event,
        news: asyncio.Event,
        times: Times,
        sight: Sight | None = None,
    ) -> None:
        """`news`: set when there may be something to tell."""
        self._api = api
        self._store = store
        self._pace = pace
        self._settings = settings
        self._count = count
        self._stop = stop
        self._news = news
        self._times = times
        self._sight = sight or Sight()
        self._words = Words(settings.locale)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Tell senders until the stop; then finish the messages that are on their way.

        Raises:
            ConfigurationError: PocketBase does not accept the workers' password.
        """
        unsure = True  # a claim whose answer was lost is a claim all the same
        failures = 0
        try:
            while not self._stop.is_set():
                try:
                    if unsure and not self._tasks:
                        await self._store.give_back()
                        unsure = False
                    claimed = await self._claim()
                    self._sight.found()
                    failures = 0
                except ConfigurationError:
                    raise
                except PocketBaseError as error:
                    self._sight.lost(error)
                    failures += 1
                    unsure = True
                    await self._rest(self._times.pause_after(failures, near=True))
                    continue
                if not claimed:
                    await self._wait_for_news()
        finally:
            await self._end()

    async def _claim(self) -> bool:
        for task in [each for each in self._tasks if each.done()]:
            self._tasks.discard(task)
            task.result()  # what ends a task ends the process
        free = AT_ONCE - len(self._tasks)
        answers = await self._store.claim(free) if free > 0 else []
        for answer in answers:
            self._tasks.add(asyncio.create_task(self._tell(answer)))
        return bool(answers)

    async def _wait_for_news(self) -> None:
        limit = self._settings.poll_seconds * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), limit)
        self._news.clear()

    async def _tell(self, answer: Answer) -> None:
        """Send one answer as far as it will go, and note how far that was."""
        try:
            await self._send_all(answer)
        except ConfigurationError:
            raise
        except LeaseLost:
            logger.debug("answer lost to another process", job_id=answer.job_id)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - one answer's fault must not end the others
            await self._puzzled(answer, error)

    async def _puzzled(self, answer: Answer, error: Exception) -> None:
        """A fault that nobody foresaw: tried again like the others, and given up like them."""
        with suppress(LeaseLost):
            if answer.failing > self._patience:
                await self._end_as(answer, notify.ERROR, type(error).__name__)
                return
            logger.warning("answer not sent yet", job_id=answer.job_id, reason=type(error).__name__)
            await self._keep(lambda: self._store.later(answer, self._pause(answer), failing=True))

    async def _send_all(self, answer: Answer) -> None:
        parts = self._parts(answer)
        if answer.begun > answer.sent:  # whoever was sending it is gone
            self._pass_over(answer, len(parts))
        while answer.sent < len(parts) + (_NOTICES if answer.unsure else 0):
            if self._stop.is_set():
                await self._keep(lambda: self._store.later(answer, 0.0, failing=False))
                return
            last = answer.sent >= len(parts)
            part = self._notice(answer) if last else parts[answer.sent]
            await self._pace.turn(answer.chat_id)
            await self._keep(lambda: self._store.begin(answer))
            match await self._send(answer, part):
                case "sent":
                    answer.sent += 1
                    if last:
                        break
                case "unsure":
                    self._pass_over(answer, len(parts))
                    if last and answer.sent < len(parts) + _NOTICES:
                        again = _Later(0.0, failing=True, reason="nobody knows whether it arrived")
                        await self._put_off(answer, again)
                        return
                case _Later() as later:
                    await self._put_off(answer, later)
                    return
                case _Never(reason, detail):
                    await self._end_as(answer, reason, detail)
                    return
        if answer.unsure:
            await self._end_as(answer, notify.UNSURE, "", state="unsure")
        else:
            await self._keep(lambda: self._store.end(answer, "sent"))
            logger.info("answer sent", job_id=answer.job_id)

    def _pass_over(self, answer: Answer, parts: int) -> None:
        """Nobody knows whether this message arrived: go on behind it, and say so at the end."""
        if answer.sent < parts:
            answer.unsure += 1
        answer.sent += 1
        answer.begun = answer.sent

    async def _put_off(self, answer: Answer, later: _Later) -> None:
        if later.failing and answer.failing > self._patience:
            await self._end_as(answer, notify.NOT_REACHABLE, later.reason)
            return
        logger.debug("answer put off", job_id=answer.job_id, reason=later.reason)
        pause = later.pause if not later.failing else self._pause(answer)
        await self._keep(lambda: self._store.later(answer, pause, failing=later.failing))

    async def _end_as(
        self, answer: Answer, reason: str, detail: str, state: str = "undelivered"
    ) -> None:
        await self._keep(lambda: self._store.end(answer, state, reason))
        notify.undelivered(answer.job_id, reason, self._count, detail)

    @property
    def _patience(self) -> float:
        return self._settings.telegram_give_up_hours * 3600

    def _pause(self, answer: Answer) -> float:
        pause = self._settings.backoff_seconds * 2.0 ** min(answer.attempts - 1, 10)
        return min(pause, _LONGEST_PAUSE) * random.uniform(0.8, 1.2)  # noqa: S311 - jitter

    # What is said

    def _parts(self, answer: Answer) -> list[Part]:
        if answer.text is None:
            key = _FAILURES.get(answer.why, "failure")
            hours = f"{self._settings.max_duration_hours:g}"
            return [Part(self._words.say(key, job_id=answer.job_id, hours=hours))]
        text = answer.text.strip()
        if not text:
            return [Part(self._words.say("no_speech"))]
        if len(text) >= self._settings.telegram_text_file_from:
            caption = f"{preview(text)}\n\n{self._words.say('in_file')}"
            return [Part(caption, text.encode())]
        return [Part(piece) for piece in split(text)]

    def _notice(self, answer: Answer) -> Part:
        return Part(self._words.say("unsure", job_id=answer.job_id))

    # How it is sent

    async def _send(self, answer: Answer, part: Part) -> _Result:
        """One message; without the reply mark or the topic where these are gone."""
        while True:
            try:
                await self._call(answer, part)
            except ChatMigrated as error:
                await self._follow(answer, str(error.new_chat_id))
            except RetryAfter as error:
                return _Later(seconds_of(error), failing=False, reason=explain(error))
            except Forbidden as error:
                gone = "deactivated" in error.message or "deleted" in error.message
                return _Never(notify.GONE if gone else notify.BLOCKED, explain(error))
            except BadRequest as error:
                if not _simplified(answer, error.message.lower()):
                    return _refused(error)
            except TelegramError as error:
                if may_have_arrived(error):
                    return "unsure"
                return _Later(0.0, failing=True, reason=explain(error))
            else:
                return "sent"

    async def _call(self, answer: Answer, part: Part) -> None:
        thread = int(answer.thread_id) if answer.thread_id else None
        reply = (
            ReplyParameters(int(answer.message_id), allow_sending_without_reply=True)
            if answer.message_id
            else None
        )
        if part.file is None:
            await self._api.send_message(
                int(answer.chat_id), part.text, message_thread_id=thread, reply_parameters=reply
            )
        else:
            await self._api.send_document(
                int(answer.chat_id),
                part.file,
                caption=part.text,
                filename=f"{answer.job_id}.txt",
                message_thread_id=thread,
                reply_parameters=reply,
                disable_content_type_detection=True,
            )

    async def _follow(self, answer: Answer, chat_id: str) -> None:
        old = answer.chat_id
        await self._keep(lambda: self._store.moved(old, chat_id))
        # The new chat counts its messages anew: the old numbers would name others.
        answer.chat_id, answer.thread_id, answer.message_id = chat_id, "", ""

    # Through PocketBase's absences

    async def _keep(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make the call until PocketBase answers it: what was sent must not be forgotten."""
        failures = 0
        while True:
            try:
                result = await call()
            except PocketBaseUnavailable as error:
                self._sight.lost(error)
                failures += 1
                if self._stop.is_set() and failures > 2:
                    raise asyncio.CancelledError from error
                await asyncio.sleep(self._times.pause_after(failures, near=True))
            else:
                self._sight.found()
                return result

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _end(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._times.grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _simplified(answer: Answer, message: str) -> bool:
    """Drop what this refusal is about, if that is something to be dropped."""
    if answer.thread_id and ("thread" in message or "topic" in message):
        answer.thread_id = ""
        return True
    if answer.message_id and "repl" in message:
        answer.message_id = ""
        return True
    return False


def _refused(error: BadRequest) -> _Never:
    message = error.message.lower()
    if any(sign in message for sign in ("chat not found", "deactivated", "peer_id_invalid")):
        return _Never(notify.GONE, explain(error))
    if any(sign in message for sign in ("not enough rights", "no rights", "write_forbidden")):
        return _Never(notify.BLOCKED, explain(error))
    return _Never(notify.ERROR, explain(error))
