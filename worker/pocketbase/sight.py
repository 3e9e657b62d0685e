"""Whether PocketBase is in sight: one line when it is lost and one when it is back."""

from __future__ import annotations

import threading

from loguru import logger

from worker.errors import PocketBaseError, describe


class Sight:
    """Shared by the threads of a process, so that they do not all say the same."""

    def __init__(self) -> None:
        self._lost = False
        self._lock = threading.Lock()

    def lost(self, error: PocketBaseError) -> None:
        """A call did not get through."""
        with self._lock:
            first, self._lost = not self._lost, True
        if first:
            logger.warning("pocketbase is away, waiting for it", reason=describe(error))

    def found(self) -> None:
        """A call got through."""
        if self._lost:
            with self._lock:
                first, self._lost = self._lost, False
            if first:
                logger.info("pocketbase is back")
