"""Mutated updates, through the tests' Bot API server to the telegram input and a real PocketBase.

Behind any of them the next good voice message is taken, once, and every update is confirmed to
Telegram in the end; nothing that people wrote, and no token, is in a log.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from loguru import logger

from fuzz import mutate
from fuzz.run import Run
from tests.acceptance.service import WORKER_PASSWORD, wait_until
from tests.acceptance.telegram_server import TOKEN, TelegramServer
from tests.acceptance.telegram_service import Bot
from worker.pocketbase.client import Client
from worker.processes import telegram as process
from worker.settings import load
from worker.telegram.times import Times

MARK = "zvezdochet"
"""Stands in every name and text."""
SECONDS = 30.0
"""For a good message to be taken behind the bad ones."""
AT_ONCE = 12
TIMES = Times(
    poll=1,
    pause=0.02,
    longest_pause=0.05,
    near=0.05,
    between_polls=0.02,
    fault=1.0,
    tries=3,
    grace=2.0,
)
KINDS = (
    "edited_message",
    "channel_post",
    "callback_query",
    "inline_query",
    "my_chat_member",
    "poll",
    "business_message",
    "purchased_paid_media",
    "something_new",
)


class Input:
    """The telegram process's inside, in a thread of this one, with short times."""

    def __init__(self, bot: Bot) -> None:
        service = bot.service
        settings = load(
            telegram_enabled=True,
            telegram_token=TOKEN,
            telegram_api_url=bot.telegram.url,
            data_dir=service.data,
            pocketbase_http=f"127.0.0.1:{service.ports['POCKETBASE']}",
            worker_password=WORKER_PASSWORD,
        )
        self._stop = threading.Event()
        self._client = Client(settings.url, lambda: WORKER_PASSWORD)
        inside = process._Process(settings, self._client, "fuzz", self._stop)
        inside._times = TIMES
        self.failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(inside,), daemon=True)
        self._thread.start()

    def _run(self, inside: Any) -> None:
        try:
            asyncio.run(inside.run())
        except BaseException as error:  # noqa: BLE001 - this is what is looked for
            self.failed = error

    def close(self) -> None:
        """Stop it."""
        self._stop.set()
        self._thread.join(15)
        self._client.close()


@contextmanager
def listening() -> Iterator[list[str]]:
    """What is logged meanwhile."""
    lines: list[str] = []
    sink = logger.add(
        lambda line: lines.append(str(line)), level="TRACE", format="{message} {extra}"
    )
    try:
        yield lines
    finally:
        logger.remove(sink)


def fuzz(run: Run) -> None:
    """Send each case, and a good message behind each dozen."""
    bot = Bot(run.folder)
    with listening() as lines:
        try:
            bot.service.start("pb", "media")
            chat = bot.chat()
            inside = Input(bot)
            try:
                _cases(run, bot, inside, chat, lines)
            finally:
                inside.close()
        finally:
            bot.close()


def _cases(run: Run, bot: Bot, inside: Input, chat: int, lines: list[str]) -> None:
    sent: list[tuple[int, Any]] = []
    for number, rng in run.each():
        for content in _updates(rng, bot.telegram, bot, chat, number):
            bot.telegram.raw(content)
            sent.append((number, content))
        run.seen["sent"] += 1
        if len(sent) >= AT_ONCE or run.only is not None:
            if not _goes_on(run, bot, inside, chat, sent):
                return
            sent = []
    if sent:
        _goes_on(run, bot, inside, chat, sent)
    for word in (MARK, TOKEN, WORKER_PASSWORD):
        for line in lines:
            if word in line:
                run.found(-1, f"a log line has {word[:9]}...", line[:300])
    doubled = bot.service.rows(
        "SELECT chat_id, message_id, count(*) AS n FROM jobs WHERE message_id <> '' "
        "GROUP BY 1, 2 HAVING n > 1"
    )
    if doubled:
        run.found(-1, f"taken twice: {doubled[:3]}")


def _goes_on(run: Run, bot: Bot, inside: Input, chat: int, sent: list[tuple[int, Any]]) -> bool:
    """Whether a good message is taken and told so, and everything before it confirmed."""
    first, last = sent[0][0], sent[-1][0]
    began = time.monotonic()
    message = bot.telegram.voice(chat, bot.sound)
    try:
        bot.taken(chat, message, SECONDS)
        wait_until(
            lambda: (
                inside.failed
                or (chat, message, "👀") in bot.telegram.reactions
                or any(each[:2] == (chat, message) for each in bot.telegram.reactions)
            ),
            SECONDS,
        )
        wait_until(lambda: not bot.telegram.updates, SECONDS, "the offset to advance")
    except AssertionError as error:
        told = f"behind the cases {first} to {last}: {error}"
        if inside.failed is not None:
            told = f"the input ended: {type(inside.failed).__name__} {inside.failed!r:.200}; {told}"
        run.found(first, told, json.dumps([each for _, each in sent])[:1400])
        return False
    run.measured("s until a good message is taken", time.monotonic() - began)
    run.seen["good messages taken"] += 1
    return True


def _updates(
    rng: Random, telegram: TelegramServer, bot: Bot, chat: int, number: int
) -> Iterator[dict[str, Any]]:
    message = _message(rng, telegram, bot, chat, number)
    kind = rng.random()
    if kind < 0.1:
        yield {rng.choice(KINDS): mutate.json_value(rng, message, 1)}
    elif kind < 0.15:
        yield {"message": mutate.odd(rng)}
    elif kind < 0.2:
        yield {}
    else:
        spoilt = mutate.json_value(rng, message, rng.choice([1, 1, 2, 4]))
        yield {"message": spoilt}
        if rng.random() < 0.1:
            yield {"message": spoilt}  # the same once more, as another update


def _message(
    rng: Random, telegram: TelegramServer, bot: Bot, chat: int, number: int
) -> dict[str, Any]:
    where = rng.choice([chat, chat, chat, 999_000 + number % 5, -100_999])
    person = {
        "id": abs(where),
        "is_bot": False,
        "first_name": MARK,
        "username": MARK,
        "language_code": "ru",
    }
    message: dict[str, Any] = {
        "message_id": 1_000_000 + number,
        "date": int(time.time()),
        "from": person,
        "chat": {
            "id": where,
            "type": "private" if where > 0 else "group",
            "first_name": MARK,
            "title": MARK,
        },
    }
    file = {
        "file_id": telegram.file(
            bot.sound if rng.random() < 0.8 else mutate.media(rng, [bot.sound])
        ),
        "file_unique_id": "u",
        "file_size": len(bot.sound),
        "duration": 1,
    }
    message |= rng.choice(
        [
            {"voice": {**file, "mime_type": "audio/ogg"}},
            {
                "audio": {
                    **file,
                    "mime_type": "audio/mpeg",
                    "file_name": f"{MARK}.mp3",
                    "title": MARK,
                }
            },
            {"video_note": {**file, "length": 1}},
            {"video": {**file, "width": 1, "height": 1, "file_name": f"{MARK}.mp4"}},
            {"document": {**file, "file_name": f"{MARK}.wav", "mime_type": "audio/wav"}},
            {"text": MARK},
            {"text": f"/text {MARK}"},
            {"text": "/status"},
            {"text": "/start@transcriber_bot"},
            {
                "text": f"/text_{MARK}",
                "entities": [{"type": "bot_command", "offset": 0, "length": 5}],
            },
            {"migrate_from_chat_id": 5},
            {"migrate_to_chat_id": -100_777 if where != chat else None},
            {"new_chat_title": MARK},
            {"photo": [{**file, "width": 1, "height": 1}], "caption": MARK},
            {
                "reply_to_message": {
                    "message_id": 1,
                    "date": 1,
                    "chat": {"id": 1, "type": "private"},
                    "text": MARK,
                },
                "text": MARK,
            },
            {"is_topic_message": True, "message_thread_id": 5, "text": "/status"},
        ]
    )
    return message
