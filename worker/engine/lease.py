"""Being patient with PocketBase, and keeping a lease for as long as the work lasts."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from loguru import logger

from worker.engine.operations import LEASE, Operation, Operations
from worker.errors import LeaseLost, PocketBaseError, PocketBaseUnavailable, describe

T = TypeVar("T")

EVERY = min(1.0, LEASE / 3)
"""Seconds between two renewals; each also asks whether another operation's turn has come."""
LONGEST_PAUSE: Final = 10.0
"""Seconds between two calls to a PocketBase that is away."""


class Link:
    """The way to PocketBase, shared by all threads: one line when it is lost, one when back."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._away = False
        self._lock = threading.Lock()

    def patiently(self, call: Callable[[], T], *, pause: float = 0.5) -> T:
        """Call until PocketBase is there.

        Raises:
            PocketBaseUnavailable: it was away when the process had to stop.
        """
        while True:
            try:
                result = call()
            except PocketBaseUnavailable as error:
                self.lost(error)
                if self._stop.wait(pause * random.uniform(0.75, 1.25)):  # noqa: S311 - jitter
                    raise
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                self.back()
                return result

    def lost(self, error: PocketBaseError) -> None:
        """A call did not get through."""
        with self._lock:
            first, self._away = not self._away, True
        if first:
            logger.warning("pocketbase is away, waiting for it", reason=describe(error))

    def back(self) -> None:
        """A call got through."""
        if self._away:
            with self._lock:
                first, self._away = self._away, False
            if first:
                logger.info("pocketbase is back")


class Lease:
    """Keeps an operation's lease from a thread of its own, whatever the work is busy with."""

    def __init__(self, operations: Operations, operation: Operation, link: Link) -> None:
        self._operations = operations
        self._operation = operation
        self._link = link
        self._end = threading.Event()
        self.lost = False
        """Whether it turned out to be somebody else's."""
        self.turn_over = False
        """Whether another operation's turn has come."""

    def __enter__(self) -> Lease:
        threading.Thread(target=self._keep, name="lease", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # Not joined: a renewal in flight carries a token that is worth nothing any more.
        self._end.set()

    def _keep(self) -> None:
        pause = EVERY
        while not self._end.wait(pause):
            pause = EVERY
            try:
                self.turn_over = self._operations.renew(self._operation)
                self._link.back()
            except LeaseLost:
                self.lost = True
                return
            except PocketBaseUnavailable as error:
                self._link.lost(error)
            except PocketBaseError as error:
                logger.warning(
                    "lease not renewed", job_id=self._operation.recording, reason=describe(error)
                )
                pause = 10 * EVERY
