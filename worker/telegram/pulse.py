"""Whether the input works, for the metrics page of another process.

The process `telegram` touches a file with each poll that Telegram answered, and holds the lock of
its name while it lives. Both are needed: a file alone outlives its process by a minute.
"""

from __future__ import annotations

import fcntl
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from worker.settings import Settings

FRESH: Final = 60.0
"""Seconds for which one good poll counts."""


def _file(settings: Settings) -> Path:
    return settings.folders.run / "telegram.up"


class Pulse:
    """The writing end."""

    def __init__(self, settings: Settings) -> None:
        self._path = _file(settings)

    def beat(self) -> None:
        """Telegram has just answered a poll."""
        with suppress(OSError):  # a full disk is told by others
            self._path.touch()

    def stop(self) -> None:
        """The input is down, and this is known."""
        with suppress(OSError):
            self._path.unlink()


def is_up(settings: Settings) -> bool:
    """Whether the Telegram input takes messages now."""
    try:
        age = time.time() - _file(settings).stat().st_mtime
    except OSError:
        return False
    return abs(age) <= FRESH and _lives(settings)


def _lives(settings: Settings) -> bool:
    try:
        with (settings.folders.run / "telegram.lock").open("rb") as lock:
            # Shared, so that two readers do not take each other for the process.
            fcntl.flock(lock.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
