"""Being patient with PocketBase, and keeping a lease for as long as the work lasts."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from loguru import logger

from worker.engine.operations import LEASE, Operation, Operations
from worker.errors import LeaseLost, PocketBaseError, PocketBaseUnavailable, describe
from worker.pocketbase.sight import Sight

T = TypeVar("T")

EVERY = min(1.0, LEASE / 3)
"""Seconds between two renewals; each also asks whether another operation's turn has come."""
LONGEST_PAUSE: Final = 10.0
"""Seconds between two calls to a PocketBase that is away."""


class Link:
    """The way to PocketBase, shared by all threads."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self.sight = Sight()

    def patiently(self, call: Callable[[], T], *, pause: float = 0.5) -> T:
        """Call until PocketBase is there.

        Raises:
            PocketBaseUnavailable: it was away when the process had to stop.
        """
        while True:
            try:
                with self.sight.call():
                    return call()
            except PocketBaseUnavailable:
                if self._stop.wait(pause * random.uniform(0.75, 1.25)):  # noqa: S311 - jitter
                    raise
                pause = min(pause * 2, LONGEST_PAUSE)


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
                with self._link.sight.call():
                    self.turn_over = self._operations.renew(self._operation)
            except LeaseLost:
                self.lost = True
                return
            except PocketBaseUnavailable:
                continue
            except PocketBaseError as error:
                logger.warning(
                    "lease not renewed", job_id=self._operation.recording, reason=describe(error)
                )
                pause = 10 * EVERY
