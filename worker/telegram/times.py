"""How long this input waits for what. Tests make these short."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Times:
    """All in seconds."""

    start: float = 10.0
    """For Telegram's first answer, before the service goes on without it."""
    poll: int = 25
    """For which Telegram may hold a poll open."""
    blip: float = 15.0
    """Of failing polls that are not worth a word."""
    conflict_over: float = 60.0
    """Without a conflict until it counts as over: two who poll in turns take turns at it."""
    pause: float = 1.0
    """After a first fault; it doubles with each."""
    longest_pause: float = 30.0
    near: float = 5.0
    """The longest pause between tries of PocketBase, which is not far away and whose return
    somebody waits for."""
    between_polls: float = 0.2
    """While messages are being worked on, which makes every poll answer at once."""
    fault: float = 3600.0
    """For which a message is tried while PocketBase answers that it failed."""
    tries: int = 10
    """Of one file that cannot be fetched or read, before its sender is told."""
    grace: float = 8.0
    """At a stop, for the messages being worked on."""

    def pause_after(self, failures: int, *, near: bool = False) -> float:
        """The pause after this many failures in a row, with jitter. `near`: of PocketBase's."""
        longest = self.near if near else self.longest_pause
        pause = min(self.pause * 2.0 ** min(failures - 1, 10), longest)
        return pause * random.uniform(0.8, 1.2)  # noqa: S311 - not for secrets
