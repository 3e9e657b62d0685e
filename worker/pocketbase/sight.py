"""Whether PocketBase is in sight: one line when it is lost and one when it is back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from loguru import logger

from worker.errors import PocketBaseError, PocketBaseUnavailable, describe


class Sight:
    """Shared by the threads of a process, so that they do not all say the same.

    Calls overlap, and one that began before the latest change says nothing about it.
    """

    def __init__(self) -> None:
        self._lost = False
        self._changed = float("-inf")
        self._lock = threading.Lock()

    @contextmanager
    def call(self, absence: type[PocketBaseError] = PocketBaseUnavailable) -> Iterator[None]:
        """Around one call. Whatever it raises passes; of that, `absence` means out of sight."""
        began = time.monotonic()
        try:
            yield
        except absence as error:
            self.lost(error, began)
            raise
        except Exception:
            self.found(began)
            raise
        self.found(began)

    def lost(self, error: PocketBaseError, began: float = float("inf")) -> None:
        """A call that began then did not get through."""
        if self._changes(began, lost=True):
            logger.warning("pocketbase is away, waiting for it", reason=describe(error))

    def found(self, began: float = float("inf")) -> None:
        """A call that began then got through."""
        if self._lost and self._changes(began, lost=False):
            logger.info("pocketbase is back")

    def _changes(self, began: float, *, lost: bool) -> bool:
        with self._lock:
            if self._lost == lost or began < self._changed:
                return False
            self._lost = lost
            self._changed = time.monotonic()
            return True
