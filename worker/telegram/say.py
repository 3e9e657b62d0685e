"""Short words to a chat about its message: told until they arrive; twice is better than never."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from telegram import ReplyParameters
from telegram.error import BadRequest, ChatMigrated, Forbidden, RetryAfter, TelegramError

from worker.telegram.api import Api, seconds_of
from worker.telegram.pace import Pace

_TRIES = 4


class Speaker:
    """Says and reacts."""

    def __init__(self, api: Api, pace: Pace) -> None:
        self._api = api
        self._pace = pace

    async def say(self, chat_id: int, text: str, reply_to: int, thread_id: int | None) -> None:
        """Tell a chat something short.

        Raises:
            TelegramError: Telegram could not be reached. Who does not want to be told is not.
        """
        for again in reversed(range(_TRIES)):
            try:
                await self._pace.turn(chat_id)
                await self._api.send_message(
                    chat_id,
                    text,
                    message_thread_id=thread_id,
                    reply_parameters=ReplyParameters(reply_to, allow_sending_without_reply=True),
                )
            except RetryAfter as error:
                if not again:
                    raise
                await asyncio.sleep(seconds_of(error))
            except (Forbidden, ChatMigrated):
                return
            except BadRequest:
                if thread_id is None:
                    return
                thread_id = None  # the topic is gone or closed
            except TelegramError:
                if not again:
                    raise
                await asyncio.sleep(0.5)
            else:
                return

    async def react(self, chat_id: int, message_id: int, emoji: str) -> bool:
        """React to a message; false where the chat does not have it."""
        for _ in range(_TRIES):
            try:
                await self._api.set_message_reaction(chat_id, message_id, emoji)
            except RetryAfter as error:
                await asyncio.sleep(seconds_of(error))
            except BadRequest:
                return False
            except TelegramError:
                return True  # not worth more words to somebody who is hard to reach
            else:
                return True
        return True

    async def acknowledge(
        self, kind: str, chat_id: int, message_id: int, thread_id: int | None, words: str
    ) -> None:
        """Let the sender know that its recording was taken. It is taken either way."""
        if kind == "none":
            return
        with suppress(TelegramError):
            if kind == "reaction" and await self.react(chat_id, message_id, "👀"):
                return
            await self.say(chat_id, words, message_id, thread_id)
