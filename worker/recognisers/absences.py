"""Since when each recogniser has been refusing, and how long it is let be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

LONG: Final = 600.0
"""Seconds that a recogniser may refuse, or ask for, before another one stands in for it."""
AGAIN: Final = 60.0
"""Seconds between two tries of one that has been refusing for so long."""


class Absences:
    """Shared by the threads of a process, and forgotten with it: the next one asks anew."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}
        self._until: dict[str, float] = {}
        self._lock = threading.Lock()

    def refused(self, name: str, pause: float) -> None:
        """It did not take a recording, and asked for a pause of so many seconds."""
        with self._lock:
            now = self._clock()
            since = self._since.setdefault(name, now)
            if pause > LONG or now - since >= LONG:
                self._until[name] = now + max(pause, AGAIN)

    def took(self, name: str) -> None:
        """It took one: whatever it refused before."""
        with self._lock:
            self._since.pop(name, None)
            self._until.pop(name, None)

    def left(self, name: str) -> float:
        """Seconds that it is to be let be, where another one can stand in for it."""
        with self._lock:
            now = self._clock()
            return max(self._until.get(name, now) - now, 0.0)
