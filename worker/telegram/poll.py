"""The loop that fetches updates: one is confirmed to Telegram only when it has been dealt with.

Telegram confirms everything below the offset of the next poll, and gives at most a hundred above
it. So the offset stays below the oldest update that is still being worked on, and what a poll
brings once more is known by its id.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from loguru import logger
from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError

from worker.errors import (
    ConfigurationError,
    PocketBaseError,
    PocketBaseRefused,
    PocketBaseUnavailable,
    describe,
    is_shortage,
)
from worker.pocketbase.sight import Sight
from worker.telegram.api import Api, explain, seconds_of
from worker.telegram.files import FileFault
from worker.telegram.pulse import Pulse
from worker.telegram.times import Times

T = TypeVar("T")

AT_ONCE: Final = 8
"""Messages worked on at the same time."""
_UNREAD: Final = "unread"
"""PocketBase's word where whoever looked into the file did not live to tell."""


class Handler(Protocol):
    """Who deals with updates."""

    async def handle(self, raw: dict[str, Any]) -> None:
        """Deal with it, or raise what kept it from being dealt with."""
        ...

    async def give_up(self, raw: dict[str, Any], key: str) -> None:
        """Tell its sender that nothing will come of it."""
        ...


class Poller:
    """Polls until stopped, whatever happens to Telegram or PocketBase meanwhile."""

    def __init__(
        self,
        api: Api,
        handler: Handler,
        pulse: Pulse,
        stop: asyncio.Event,
        times: Times,
        give_up_after: float,
        sight: Sight | None = None,
    ) -> None:
        """`give_up_after`: seconds for which a message is tried while Telegram is away."""
        self._api = api
        self._handler = handler
        self._pulse = pulse
        self._stop = stop
        self._times = times
        self._give_up_after = give_up_after
        self._sight = sight or Sight()
        self._line = Line(times)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._work: dict[int, asyncio.Task[None]] = {}
        self._dealt_with: set[int] = set()
        self._next = 0
        self._all_done = asyncio.Event()
        self._idle = 0
        """Polls in a row that brought nothing new."""

    async def run(self) -> None:
        """Fetch and deal with updates until the stop.

        Raises:
            ConfigurationError: PocketBase does not accept the workers' password.
        """
        failures = 0
        try:
            while not self._stop.is_set():
                try:
                    # After a fault the first answer is worth having at once.
                    new = await self._poll(wait=not failures and not self._work)
                except TelegramError as error:
                    failures += 1
                    self._line.bad(error)
                    await self._rest(self._pause(error, failures))
                    continue
                failures = 0
                self._line.good()
                self._pulse.beat()
                await self._until_worth_a_poll(new)
        finally:
            await self._end()

    async def _poll(self, *, wait: bool) -> int:
        """One poll; how many updates it brought that were not known."""
        timeout = self._times.poll if wait else 0
        raws = await or_stop(self._api.raw_updates(self._offset(), timeout), self._stop) or []
        new = [raw for raw in raws if self._is_new(raw["update_id"])]
        for raw in new:
            number = raw["update_id"]
            self._next = max(self._next, number + 1)
            self._work[number] = asyncio.create_task(self._deal_with(raw))
        return len(new)

    def _offset(self) -> int | None:
        """The oldest update that is not dealt with; below it all may be forgotten."""
        offset = min(self._work, default=self._next)
        self._dealt_with = {each for each in self._dealt_with if each >= offset}
        return offset or None

    def _is_new(self, number: int) -> bool:
        return number not in self._work and number not in self._dealt_with

    async def _until_worth_a_poll(self, new: int) -> None:
        """With nothing in work the next poll waits at Telegram. Else it would answer at once."""
        if not self._work:
            return
        pause = self._times.between_polls
        self._idle = 0 if new else min(self._idle + 1, 5)
        deadline = time.monotonic() + pause * 2.0**self._idle
        oldest = min(self._work)
        await self._while_in_work(pause)
        while oldest in self._work and time.monotonic() < deadline and not self._stop.is_set():
            await self._while_in_work(pause)
        self._collect()

    async def _while_in_work(self, seconds: float) -> None:
        """Wait, but no longer than until nothing is in work or all is to end."""
        self._all_done.clear()
        if self._work and not self._stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_done.wait(), seconds)

    def _collect(self) -> None:
        for task in list(self._work.values()):
            if task.done() and not task.cancelled():
                task.result()  # what ends a task ends the process

    async def _deal_with(self, raw: dict[str, Any]) -> None:
        number = raw["update_id"]
        async with self._slots:
            await self._settle(raw)
        del self._work[number]
        self._dealt_with.add(number)
        if not self._work:
            self._all_done.set()

    async def _settle(self, raw: dict[str, Any]) -> None:
        """Deal with an update, through every fault that may pass."""
        failures, tries, told, since = 0, 0, "", 0.0
        while True:
            try:
                await self._handler.handle(raw)
            except ConfigurationError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the update is not lost by it
                failures += 1
                tries += _is_its_own(error)
                reason = _reason(error)
                if reason != told:  # one fault after another: each has its own time
                    self._note(error, reason)
                    told, since = reason, time.monotonic()
                spent = time.monotonic() - since
                if tries >= self._times.tries or spent > self._patience(error):
                    await self._give_up(raw, error)
                    return
                await self._rest(self._pause(error, failures))
                if self._stop.is_set():
                    raise asyncio.CancelledError from None
            else:
                self._sight.found()
                return

    def _patience(self, error: Exception) -> float:
        """Seconds after which a fault of this kind is taken for one that stays."""
        if is_shortage(error):  # of ours: the message waits at Telegram
            return float("inf")
        if isinstance(error, PocketBaseUnavailable):
            return float("inf") if error.status is None else self._times.fault
        return self._give_up_after if isinstance(error, TelegramError) else self._times.fault

    def _note(self, error: Exception, reason: str) -> None:
        if isinstance(error, PocketBaseUnavailable):
            self._sight.lost(error)
        elif not isinstance(error, TelegramError):
            logger.warning("telegram message not dealt with yet", reason=reason)

    async def _give_up(self, raw: dict[str, Any], error: Exception) -> None:
        unread = isinstance(error, PocketBaseRefused) and error.error_code == _UNREAD
        logger.error("telegram message given up", update_id=raw["update_id"], reason=_reason(error))
        started, failures = time.monotonic(), 0
        while True:
            try:
                await self._handler.give_up(raw, "unreadable" if unread else "not_taken")
            except Exception as second:  # noqa: BLE001 - as above
                failures += 1
                # What is wrong with the message itself no time mends, and nobody hears of it.
                if _is_its_own(second) or time.monotonic() - started > self._give_up_after:
                    logger.error(
                        "telegram message given up without a word",
                        update_id=raw["update_id"],
                        reason=_reason(second),
                    )
                    return
                await self._rest(self._pause(second, failures))
                if self._stop.is_set():
                    raise asyncio.CancelledError from None
            else:
                return

    def _pause(self, error: Exception, failures: int) -> float:
        if isinstance(error, RetryAfter):
            return seconds_of(error)
        return self._times.pause_after(failures, near=isinstance(error, PocketBaseError))

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _end(self) -> None:
        """Let what is nearly done be done, and confirm what is."""
        self._pulse.stop()
        tasks = list(self._work.values())
        if tasks:
            await asyncio.wait(tasks, timeout=self._times.grace)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        offset = self._offset()
        if offset is not None:
            with suppress(TelegramError, TimeoutError):
                await asyncio.wait_for(self._api.raw_updates(offset, 0), 3.0)


async def or_stop(work: Coroutine[Any, Any, T], stop: asyncio.Event) -> T | None:
    """What the work comes to, or None when the stop comes first."""
    task = asyncio.create_task(work)
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        stopped.cancel()
        task.cancel()


def _is_its_own(error: Exception) -> bool:
    """Whether the fault is of this one message, as far as one can see, and not of a service."""
    return not isinstance(error, PocketBaseUnavailable | TelegramError | OSError)


def _reason(error: Exception) -> str:
    if isinstance(error, PocketBaseError | FileFault):
        return describe(error)
    return explain(error)


class Line:
    """What the owner is told about the line to Telegram: each thing once, and once its end."""

    def __init__(self, times: Times, clock: Callable[[], float] = time.monotonic) -> None:
        self._times = times
        self._clock = clock
        self._bad_since: float | None = None
        self._told = False
        self._conflict: float | None = None
        self._revoked = False

    def bad(self, error: TelegramError) -> None:
        """A poll failed."""
        now = self._clock()
        if isinstance(error, Conflict):
            if self._conflict is None:
                logger.error("telegram input conflict", reason=explain(error))
            self._conflict = now
            return
        if isinstance(error, InvalidToken):
            if not self._revoked:
                logger.error("telegram input is down", reason=explain(error))
            self._revoked = True
            return
        if self._bad_since is None:
            self._bad_since = now
        if not self._told and now - self._bad_since >= self._times.blip:
            self._told = True
            logger.warning("telegram lost, waiting for it", reason=explain(error))

    def good(self) -> None:
        """A poll was answered."""
        if self._told or self._revoked:
            logger.info("telegram is back")
        self._told = self._revoked = False
        self._bad_since = None
        if (
            self._conflict is not None
            and self._clock() - self._conflict >= self._times.conflict_over
        ):
            self._conflict = None
            logger.info("telegram input conflict is over")
