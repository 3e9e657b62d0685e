"""The process `telegram`: the second way in, and the way back to its senders."""

from __future__ import annotations

import asyncio
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from loguru import logger
from telegram.error import InvalidToken, TelegramError

from worker import names, secrets
from worker.errors import ConfigurationError, Problem
from worker.logs import register_secret
from worker.metrics import Metrics
from worker.pocketbase.client import Client
from worker.pocketbase.realtime import Listener, Wakeups
from worker.pocketbase.sight import Sight
from worker.settings import Settings
from worker.telegram.answers import Teller
from worker.telegram.api import Api, build, explain, token_of
from worker.telegram.files import Files
from worker.telegram.intake import Intake
from worker.telegram.pace import Pace
from worker.telegram.poll import Poller, or_stop
from worker.telegram.pulse import Pulse
from worker.telegram.say import Speaker
from worker.telegram.store import Store
from worker.telegram.times import Times

_THREADS: Final = 48
"""For calls to PocketBase, each of which blocks one."""


def run(settings: Settings, stop: threading.Event) -> None:
    """Take messages until the stop; where the owner wants none, say so and end.

    Raises:
        ConfigurationError: Telegram answers that there is no such bot.
    """
    if not settings.telegram_enabled:
        logger.info("telegram input is off by setting")
        return
    _check_token(settings)
    with (
        names.hold(settings, "telegram") as name,
        Client(settings.url, lambda: secrets.worker_password(settings)) as client,
    ):
        try:
            asyncio.run(_Process(settings, client, name, stop).run())
        except ExceptionGroup as group:
            raise group.exceptions[0] from None


def _check_token(settings: Settings) -> None:
    """Refuse what cannot stand in an address, before any library puts it into one."""
    token = token_of(settings)
    register_secret(token)
    if not token.isascii() or not token.isprintable() or any(sign in token for sign in " /?#%\\"):
        raise ConfigurationError(
            Problem("TELEGRAM_TOKEN", "is not a bot's token: it has signs that no token has")
        )


class _Process:
    def __init__(
        self, settings: Settings, client: Client, name: str, stop: threading.Event
    ) -> None:
        self._settings = settings
        self._client = client
        self._stop = stop
        self._times = Times()
        self._store = Store(client, name)
        self._pulse = Pulse(settings)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(_THREADS, "pocketbase"))
        stopped = asyncio.Event()
        threading.Thread(
            target=_when_stopped, args=(self._stop, loop, stopped), daemon=True
        ).start()
        self._pulse.stop()  # a killed predecessor's
        api = build(self._settings)
        try:
            if await self._bring_up(api, stopped):
                self._pulse.beat()
                await self._work(api, stopped)
        finally:
            with suppress(TelegramError, RuntimeError):
                await api.shutdown()

    async def _bring_up(self, api: Api, stopped: asyncio.Event) -> bool:
        """Speak to Telegram for the first time, for as long as it takes. False: stopped before.

        Raises:
            ConfigurationError: at the start, Telegram answers that there is no such bot.
        """
        failures = 0
        while True:
            try:
                await or_stop(asyncio.wait_for(api.initialize(), self._times.start), stopped)
            except (TelegramError, TimeoutError) as error:
                unknown = isinstance(error, InvalidToken)
                if unknown and not failures:
                    raise ConfigurationError(
                        Problem("TELEGRAM_TOKEN", "telegram knows no bot with this token")
                    ) from None
                failures += 1
                self._say_down(error, failures, unknown=unknown)
                await or_stop(asyncio.sleep(self._times.pause_after(failures)), stopped)
            else:
                if stopped.is_set():
                    return False
                logger.info("telegram input is up", bot=api.bot.username)
                return True
            if stopped.is_set():
                return False

    def _say_down(self, error: BaseException, failures: int, *, unknown: bool) -> None:
        if failures == 1:
            logger.warning("telegram input is not up, trying on", reason=explain(error))
        elif unknown and not self._told:
            # The service has been up without Telegram: it goes on so.
            self._told = True
            logger.error("telegram input cannot come up", reason=explain(error))

    _told = False

    async def _work(self, api: Api, stopped: asyncio.Event) -> None:
        scratch = self._settings.folders.run / "telegram"
        shutil.rmtree(scratch, ignore_errors=True)  # what a killed predecessor left
        scratch.mkdir(parents=True)
        loop = asyncio.get_running_loop()
        metrics = Metrics()
        wakeups = Wakeups(self._client)
        news = asyncio.Event()
        listener = wakeups.listen("answers")
        threading.Thread(
            target=_pass_on, args=(listener, self._stop, loop, news), daemon=True
        ).start()
        wakeups.start()
        pace, sight = Pace(), Sight()
        files = Files(api, self._settings, scratch)
        intake = Intake(api, self._store, files, Speaker(api, pace), self._settings)
        give_up_after = self._settings.telegram_give_up_hours * 3600
        poller = Poller(api, intake, self._pulse, stopped, self._times, give_up_after, sight)
        teller = Teller(
            api,
            self._store,
            pace,
            self._settings,
            lambda reason: metrics.undelivered.labels(reason).inc(),
            stopped,
            news,
            self._times,
            sight,
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(poller.run())
                group.create_task(teller.run())
            await intake.rest()
        finally:
            wakeups.stop()
            await files.close()


def _set(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(event.set)


def _when_stopped(
    stop: threading.Event, loop: asyncio.AbstractEventLoop, stopped: asyncio.Event
) -> None:
    stop.wait()
    _set(loop, stopped)


def _pass_on(
    listener: Listener,
    stop: threading.Event,
    loop: asyncio.AbstractEventLoop,
    news: asyncio.Event,
) -> None:
    """Wake-ups from their thread to the loop. Half a minute is for none at all."""
    while not stop.is_set():
        listener.wait(30.0)
        _set(loop, news)
