"""A machine that is out of disk, files or memory: told once, and once when it is over."""

from __future__ import annotations

import threading

from loguru import logger

from worker.errors import describe
from worker.jobs import Step


class Shortage:
    """Shared by the threads of a process. It is over when each step that met it works again."""

    def __init__(self) -> None:
        self._short: set[Step] = set()
        self._lock = threading.Lock()

    def met(self, step: Step, error: BaseException) -> None:
        """A step could not work because of it."""
        with self._lock:
            first = not self._short
            self._short.add(step)
        if first:
            logger.warning("this machine is short of something, waiting", reason=describe(error))

    def over(self, step: Step) -> None:
        """The step works."""
        if step not in self._short:
            return
        with self._lock:
            self._short.discard(step)
            last = not self._short
        if last:
            logger.info("this machine has what it needs again")
