"""The engine process: claims operations and has its children recognise them, unit by unit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from loguru import logger

from worker.engine import child as native
from worker.engine import model, voices
from worker.engine.lease import Link
from worker.engine.operations import Client, HttpOperations, Operations
from worker.engine.pool import Child
from worker.engine.scratch import Scratch
from worker.engine.serve import Server, Waits
from worker.engine.work import GRACE, Bench
from worker.errors import PocketBaseUnavailable
from worker.metrics import Metrics
from worker.settings import Settings

ENDING: Final = GRACE + 3
"""Seconds that threads have to give back what they hold at a stop."""


class Wakeups(Protocol):
    """The part of `worker.pocketbase.realtime.Wakeups` that is used here."""

    def listen(self, state: str) -> Waits:
        """A listener for one thread."""
        ...

    def stop(self) -> None:
        """Wake everybody for good."""
        ...


def run(
    settings: Settings, client: Client, wakeups: Wakeups, name: str, stop: threading.Event
) -> None:
    """Recognise operations under this worker's name until the stop; then give back what is held.

    Raises:
        ModelError: there is no model to work with.
        ConfigurationError: PocketBase does not know this worker, or there is no speaker model
            where the settings say.
    """
    Engines(settings, stop, HttpOperations(client, name), wakeups, Metrics()).run()


class Engines:
    """`ENGINE_PROCESSES` children, each served by a thread."""

    def __init__(
        self,
        settings: Settings,
        stop: threading.Event,
        operations: Operations,
        wakeups: Wakeups,
        metrics: Metrics,
        target: Callable[..., None] = native.main,
    ) -> None:
        self._settings = settings
        self._stop = stop
        self._operations = operations
        self._wakeups = wakeups
        self._target = target
        self._recognised = metrics.recognised.labels(model.label(settings))
        self._link = Link(stop)
        self._scratch = Scratch(settings.folders.run / "engine")
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Work until the stop. Raises what ended a thread before."""
        model.install(self._settings)
        voices.find(self._settings)
        try:
            returned = self._link.patiently(self._operations.restart)
        except PocketBaseUnavailable:
            return  # it never came, and now we have to go
        if returned:
            logger.info("took back what the previous process held", operations=returned)
        threads = [
            threading.Thread(target=self._thread, name=f"engine-{number}", daemon=True)
            for number in range(self._settings.engine_processes)
        ]
        for thread in threads:
            thread.start()
        self._stop.wait()
        self._wakeups.stop()
        deadline = time.monotonic() + ENDING
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._failure:
            raise self._failure

    def _thread(self) -> None:
        child = Child(
            self._target,
            lambda: (
                model.install(self._settings),
                self._settings.threads,
                *filter(None, [voices.find(self._settings)]),
            ),
        )
        try:
            bench = Bench(
                child,
                self._operations,
                self._link,
                self._scratch,
                self._stop,
                recognised=self._recognised.inc,
            )
            poll = self._settings.poll_seconds
            Server(
                bench, model.label(self._settings), self._wakeups.listen("operations"), poll
            ).loop()
        except BaseException as error:  # noqa: BLE001 - raised again where the process ends
            self._failure = self._failure or error
            self._stop.set()
        finally:
            child.kill()
