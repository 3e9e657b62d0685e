"""One poll for all steps of a process, so that idle threads need not each ask the queue."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence

from loguru import logger

from worker.errors import PocketBaseError, PocketBaseUnavailable, describe
from worker.jobs import Wanted
from worker.pipeline.backoff import with_jitter
from worker.pocketbase.queue import Queue
from worker.pocketbase.realtime import Wakeups
from worker.pocketbase.sight import Sight


class Lookout:
    """Asks every `poll` seconds which claims would find something, and wakes those who make them.

    What it learns is a hint, like a wake-up: a pause that is over and a lease that ran out wake
    nobody by themselves.
    """

    def __init__(
        self,
        queue: Queue,
        wakeups: Wakeups,
        claims: Sequence[Wanted],
        poll: float,
        sight: Sight,
        stop: threading.Event,
    ) -> None:
        self._queue = queue
        self._wakeups = wakeups
        self._claims = claims
        self._poll = poll
        self._sight = sight
        self._stop = stop

    def run(self) -> None:
        """Look until the stop.

        Raises:
            ConfigurationError: PocketBase does not accept the workers' password.
        """
        pause, away, refused = 1.0, False, False
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                states = self._queue.due(self._claims)
            except PocketBaseError as error:
                # A refusal is no absence: what it means, the claims know better.
                if isinstance(error, PocketBaseUnavailable):
                    self._sight.lost(error, began)
                    away = True
                elif not refused:
                    logger.warning("looking for work less often", reason=describe(error))
                    refused = True
                self._stop.wait(with_jitter(pause))
                pause = min(pause * 2, 30.0)
                continue
            if away:
                self._sight.found(began)
            self._wakeups.wake(states)
            self._stop.wait(self._poll * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
            pause, away, refused = 1.0, False, False
