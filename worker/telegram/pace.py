"""How fast messages leave, so that Telegram seldom has to say that it is too fast."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final


class Bucket:
    """So many at once, and then so many a second."""

    def __init__(self, burst: float, rate: float, clock: Callable[[], float]) -> None:
        self._burst = burst
        self._rate = rate
        self._clock = clock
        self._left = burst
        self._seen = clock()

    def take(self) -> float:
        """Take one; the seconds to wait before using it."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._seen) * self._rate)
        self._seen = now
        self._left -= 1
        return max(0.0, -self._left / self._rate)

    @property
    def full(self) -> bool:
        """Whether nobody has taken any for long."""
        return self._left + (self._clock() - self._seen) * self._rate >= self._burst


class Pace:
    """Telegram's limits: about one message a second to a chat, twenty a minute to a group, thirty
    a second in all. A few at once are let pass."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all = Bucket(30, 30, clock)
        self._chats: dict[str, Bucket] = {}

    async def turn(self, chat_id: str | int) -> None:
        """Wait until a message may go to this chat. One chat's wait is no other's."""
        await asyncio.sleep(self._chat(str(chat_id)).take())
        await asyncio.sleep(self._all.take())

    def _chat(self, chat_id: str) -> Bucket:
        if len(self._chats) > _MANY:
            self._chats = {key: each for key, each in self._chats.items() if not each.full}
        if chat_id not in self._chats:
            group = chat_id.startswith("-")
            self._chats[chat_id] = Bucket(5, 20 / 60 if group else 1.0, self._clock)
        return self._chats[chat_id]


_MANY: Final = 1000
