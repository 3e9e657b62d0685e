"""The poll loop and the files by themselves, with the real library and short times."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from tests.acceptance.service import free_port, wait_until
from tests.acceptance.telegram_server import TOKEN, Fault, TelegramServer
from worker.errors import PocketBaseRefused, PocketBaseUnavailable
from worker.settings import Settings
from worker.telegram.api import build
from worker.telegram.files import FileFault, Files
from worker.telegram.media import Attachment
from worker.telegram.poll import Poller
from worker.telegram.pulse import Pulse
from worker.telegram.times import Times

TIMES = Times(
    poll=1,
    blip=0.2,
    conflict_over=1.0,
    pause=0.05,
    longest_pause=0.1,
    near=0.1,
    between_polls=0.02,
    tries=4,
)


@pytest.fixture
def telegram() -> Iterator[TelegramServer]:
    server = TelegramServer().start()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def lines() -> Iterator[list[str]]:
    found: list[str] = []
    number = logger.add(lambda text: found.append(str(text)), format="{level} {message} {extra}")
    yield found
    logger.remove(number)


def settings(telegram: TelegramServer, folder: Path) -> Settings:
    return Settings(
        _env_file=None,
        telegram_enabled=True,
        telegram_token=TOKEN,
        telegram_api_url=telegram.url,
        data_dir=folder,
    )


class Handler:
    """Deals with updates as it is told to."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.done: list[int] = []
        self.given_up: list[tuple[int, str]] = []
        self.held: dict[int, asyncio.Event] = {}
        self.faults: dict[int, list[Exception]] = {}

    async def handle(self, raw: dict[str, Any]) -> None:
        number = raw["update_id"]
        self.seen.append(number)
        if number in self.held:
            await self.held[number].wait()
        if self.faults.get(number):
            raise self.faults[number].pop(0)
        self.done.append(number)

    async def give_up(self, raw: dict[str, Any], key: str) -> None:
        self.given_up.append((raw["update_id"], key))


class Running:
    """A poll loop in a thread of its own."""

    def __init__(self, telegram: TelegramServer, folder: Path, handler: Handler) -> None:
        self.settings = settings(telegram, folder)
        self.settings.folders.run.mkdir(parents=True, exist_ok=True)
        self.handler = handler
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        self.loop, self.stop = asyncio.get_running_loop(), asyncio.Event()
        api = build(self.settings)
        await api.initialize()
        self._ready.set()
        pulse = Pulse(self.settings)
        await Poller(api, self.handler, pulse, self.stop, TIMES, 60.0).run()
        await api.shutdown()

    def hold(self, number: int) -> None:
        self.handler.held[number] = asyncio.Event()

    def release(self, number: int) -> None:
        self.loop.call_soon_threadsafe(self.handler.held[number].set)

    def __enter__(self) -> Running:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive()


def ids(telegram: TelegramServer) -> list[int]:
    return [each["update_id"] for each in telegram.updates]


def test_an_update_is_confirmed_only_when_all_before_it_are_dealt_with(telegram, tmp_path):
    handler = Handler()
    running = Running(telegram, tmp_path, handler)
    running.hold(1001)
    running.hold(1003)
    with running:
        numbers = [telegram.raw({"message": {}}) for _ in range(5)]
        assert numbers == [1001, 1002, 1003, 1004, 1005]
        wait_until(lambda: set(handler.done) == {1002, 1004, 1005})
        assert ids(telegram) == numbers
        running.release(1001)
        wait_until(lambda: ids(telegram) == [1003, 1004, 1005])
        later = telegram.raw({"message": {}})
        wait_until(lambda: later in handler.done)  # one that hangs holds up no other
        assert ids(telegram) == [1003, 1004, 1005, later]
        running.release(1003)
        wait_until(lambda: ids(telegram) == [])
    assert sorted(handler.seen) == [*numbers, later]  # each once, however often it was brought


def test_a_stop_confirms_what_is_dealt_with_and_leaves_the_rest(telegram, tmp_path):
    handler = Handler()
    running = Running(telegram, tmp_path, handler)
    running.hold(1002)
    with running:
        for _ in range(3):
            telegram.raw({"message": {}})
        wait_until(lambda: len(handler.seen) == 3)
        threading.Timer(0.3, lambda: running.release(1002)).start()
    assert ids(telegram) == []
    assert sorted(handler.done) == [1001, 1002, 1003]


def test_a_fault_of_pocketbase_is_waited_for_and_one_of_the_message_is_not(telegram, tmp_path):
    handler = Handler()
    away = [PocketBaseUnavailable("POST recordings") for _ in range(8)]
    handler.faults = {
        1001: away,
        1002: [PocketBaseRefused("POST recordings", 400, "bad_request") for _ in range(8)],
        1003: [PocketBaseRefused("POST recordings", 422, "unread") for _ in range(8)],
        1004: [FileFault("fetch file: broken") for _ in range(8)],
        1005: [ZeroDivisionError() for _ in range(8)],
    }
    with Running(telegram, tmp_path, handler):
        for _ in range(5):
            telegram.raw({"message": {}})
        wait_until(lambda: ids(telegram) == [])
    assert handler.done == [1001]
    assert sorted(handler.given_up) == [
        (1002, "not_taken"),
        (1003, "unreadable"),
        (1004, "not_taken"),
        (1005, "not_taken"),
    ]
    assert handler.seen.count(1001) == 9
    assert {handler.seen.count(number) for number in range(1002, 1006)} == {TIMES.tries}


@pytest.mark.scenario("telegram", "Two programs poll one bot")
@pytest.mark.parametrize("webhook", [False, True])
def test_a_conflict_is_said_once_with_its_cause_and_once_when_it_is_over(
    telegram, tmp_path, lines, webhook
):
    handler = Handler()
    with Running(telegram, tmp_path, handler):
        wait_until(lambda: telegram.called("getUpdates"))
        if webhook:
            telegram.webhook = "https://example.com"
        else:
            telegram.fault("getUpdates", Fault(409, "Conflict: terminated by other getUpdates"))
        telegram.raw({"message": {}})
        wait_until(lambda: telegram.called("getUpdates") > 10)
        told = [line for line in lines if "conflict" in line]
        assert len(told) == 1
        assert told[0].startswith("ERROR")
        assert ("webhook" if webhook else "only one may") in told[0]
        telegram.webhook = ""
        telegram.lift()
        wait_until(lambda: any("conflict is over" in line for line in lines))
    assert len([line for line in lines if "conflict" in line]) == 2
    assert handler.done == [1001]


def test_two_real_pollers_end_each_others_polls(telegram, tmp_path, lines):
    with Running(telegram, tmp_path / "a", Handler()), Running(telegram, tmp_path / "b", Handler()):
        wait_until(lambda: any("conflict" in line for line in lines))
        seen = telegram.called("getUpdates")
        wait_until(lambda: telegram.called("getUpdates") > seen + 20)
        assert 1 <= len([line for line in lines if "conflict" in line]) <= 2  # one for each


def test_telegram_gone_for_longer_is_said_once_and_once_when_it_is_back(telegram, tmp_path, lines):
    with Running(telegram, tmp_path, Handler()):
        wait_until(lambda: telegram.called("getUpdates"))
        telegram.fault("getUpdates", Fault(drop=True))
        telegram.raw({"message": {}})
        wait_until(lambda: any("telegram lost" in line for line in lines))
        seen = telegram.called("getUpdates")
        wait_until(lambda: telegram.called("getUpdates") > seen + 5)
        telegram.lift()
        wait_until(lambda: any("telegram is back" in line for line in lines))
    assert len(lines) == 2


def fetch(telegram: TelegramServer, folder: Path, **changes: Any) -> str:
    """What comes of fetching a voice file; the words of its fault."""

    async def run() -> str:
        config = settings(telegram, folder).model_copy(update=changes)
        api = build(config)
        await api.initialize()
        scratch = folder / "scratch"
        scratch.mkdir(exist_ok=True)
        files = Files(api, config, scratch)
        try:
            async with files.fetched(Attachment(telegram.file(b"sound"), None, ""), "one") as path:
                return f"{path.name} {path.read_bytes().decode()}"
        except FileFault as fault:
            return str(fault)
        finally:
            assert list(scratch.iterdir()) == []
            await files.close()
            await api.shutdown()

    return asyncio.run(run())


def test_a_file_comes_with_the_extension_of_telegrams_path(telegram, tmp_path):
    assert fetch(telegram, tmp_path) == "one.oga sound"


def test_a_local_servers_file_out_of_reach_is_a_clear_fault(telegram, tmp_path):
    telegram.local, telegram.folder = True, tmp_path / "bot-api"
    assert fetch(telegram, tmp_path) == "one.oga sound"
    telegram.folder = Path("/proc/1/root/nowhere")
    original = TelegramServer._do_getFile
    telegram._do_getFile = lambda params, files: {  # as if on another machine's disk
        "file_id": "f", "file_unique_id": "u", "file_path": "/var/lib/telegram-bot-api/voice/f.oga",
    }  # fmt: skip
    assert original is not None
    assert fetch(telegram, tmp_path) == (
        "find file: the bot api server keeps it where this machine cannot read it"
    )


def test_a_download_that_fails_names_no_address(telegram, tmp_path):
    telegram.fault("download", Fault(500, "Internal Server Error", times=1))
    assert fetch(telegram, tmp_path) == "fetch file: telegram answered 500"
    telegram.fault("download", Fault(drop=True, times=1))
    said = fetch(telegram, tmp_path)
    assert said.startswith("fetch file: not reachable (")
    assert TOKEN not in said


def test_a_proxy_of_the_environment_is_not_asked_for_a_server_on_this_machine(
    telegram, tmp_path, monkeypatch
):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    started = time.monotonic()
    assert fetch(telegram, tmp_path) == "one.oga sound"
    assert time.monotonic() - started < 5
