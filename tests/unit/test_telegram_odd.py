"""What fuzzing found of the Telegram input: an update that nobody can deal with holds up no other.

One without a chat was tried, given up, and then its sender, who is not there, was to be told so for
a day; eight of them filled all places, and no message was taken any more.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from telegram.error import TelegramError

from tests.unit.loopback import serve
from worker.settings import Settings, load
from worker.telegram.api import build
from worker.telegram.intake import Intake
from worker.telegram.poll import AT_ONCE, Poller
from worker.telegram.pulse import Pulse
from worker.telegram.times import Times

CHAT = {"id": 1, "type": "private"}
TIMES = Times(poll=0, pause=0.01, longest_pause=0.01, near=0.01, between_polls=0.01, tries=2)


class Telegram:
    """Gives the updates until they are confirmed."""

    def __init__(self, count: int, stop: asyncio.Event) -> None:
        self.left = [{"update_id": number} for number in range(1, count + 1)]
        self._stop = stop

    async def raw_updates(self, offset: int | None, timeout: int) -> list[dict[str, Any]]:
        await asyncio.sleep(0.005)
        self.left = [each for each in self.left if each["update_id"] >= (offset or 0)]
        if not self.left:
            self._stop.set()
        return self.left


class Helpless:
    """Meets a fault of its own whatever it does."""

    async def handle(self, raw: dict[str, Any]) -> None:
        raise AttributeError("no chat")

    async def give_up(self, raw: dict[str, Any], key: str) -> None:
        raise AttributeError("no chat")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(telegram_enabled=True, telegram_token="1:token", data_dir=tmp_path)


def test_updates_that_nobody_can_even_answer_are_passed_over(settings: Settings) -> None:
    async def run() -> Telegram:
        stop = asyncio.Event()
        telegram = Telegram(AT_ONCE + 2, stop)
        poller = Poller(telegram, Helpless(), Pulse(settings), stop, TIMES, 3600.0)  # type: ignore[arg-type]
        await asyncio.wait_for(poller.run(), 10)
        return telegram

    assert asyncio.run(run()).left == []


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"text": "x"},
        {"message_id": 1, "date": 1, "chat": None, "text": "x"},
        {"message_id": 1, "date": 1, "chat": {"id": "x", "type": "private"}, "text": "x"},
        {"message_id": 1, "date": 1, "chat": CHAT, "text": [[None]]},
        {"message_id": 1, "date": 1, "chat": {"id": False, "type": "private"}, "text": "x"},
        {"message_id": 1, "date": 1, "chat": CHAT, "text": "x", "message_thread_id": {"x": 5}},
        {"message_id": 1, "date": 1, "chat": CHAT, "migrate_to_chat_id": "x"},
        {"message_id": {"x": 1}, "date": 1, "chat": {"id": 1, "type": "private"}, "text": "x"},
    ],
)
def test_a_message_that_is_nowhere_is_not_tried(message: Any, settings: Settings) -> None:
    intake = Intake(build(settings), None, None, None, settings)  # type: ignore[arg-type]

    asyncio.run(intake.handle({"update_id": 1, "message": message}))


@pytest.mark.parametrize(
    ("body", "updates"),
    [
        (b'{"ok": true, "result": [{"update_id": 7}, {}, 3, null, {"update_id": "8"}]}', [7]),
        (b'{"ok": true, "result": {"update_id": 7}}', None),
        (b'{"ok": true, "result": null}', None),
        (b'{"ok": true}', None),
        (b'{"ok": 1}', None),
        (b'{"ok": true, "result": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
    ],
    ids=["some", "an object", "null", "none", "not ok", "depth"],
)
def test_an_answer_to_a_poll_that_is_none_is_a_fault_of_the_line(
    body: bytes, updates: list[int] | None, tmp_path: Path
) -> None:
    async def poll(url: str) -> list[int]:
        api = build(
            load(
                telegram_enabled=True,
                telegram_token="1:token",
                telegram_api_url=url,
                data_dir=tmp_path,
            )
        )
        try:
            return [raw["update_id"] for raw in await api.raw_updates(None, 0)]
        finally:
            for request in api._request:
                await request.shutdown()

    with serve() as server:
        server.routes["POST /bot1:token/getUpdates"] = (200, body)
        url = f"http://{server.address}"
        if updates is None:
            with pytest.raises(TelegramError):
                asyncio.run(poll(url))
        else:
            assert asyncio.run(poll(url)) == updates
