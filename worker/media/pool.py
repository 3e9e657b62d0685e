"""Sandboxes kept ready, for work that is shorter than starting one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, LifoQueue
from typing import TypeVar

from worker.errors import DecoderDied
from worker.media.sandbox import Sandbox

T = TypeVar("T")

USES = 500
"""Calls after which a process is replaced, so that nothing that leaks can pile up."""


@dataclass
class _Seat:
    """A place in the pool: a process, or none until somebody needs it."""

    sandbox: Sandbox | None = None
    uses: int = 0

    def take(self) -> Sandbox:
        if self.sandbox is None:
            self.sandbox, self.uses = Sandbox(), 0
        self.uses += 1
        return self.sandbox

    def clear(self) -> None:
        if self.sandbox is not None:
            self.sandbox.close()
            self.sandbox = None


class Pool:
    """At most `size` processes, each busy with one call. A call that dies takes only its own."""

    def __init__(self, size: int, timeout: float) -> None:
        """`timeout`: seconds for one call, and for the wait until a process is free."""
        self._timeout = timeout
        self._seats: LifoQueue[_Seat] = LifoQueue()  # the warm one first
        for _ in range(size):
            self._seats.put(_Seat())
        self._size = size

    def call(self, function: Callable[..., T], *args: object) -> T:
        """As `sandbox.run`. A call whose process died before its time is made once more.

        Raises:
            DecoderDied: it died again, took too long, or no process became free.
        """
        try:
            seat = self._seats.get(timeout=self._timeout)
        except Empty:
            raise DecoderDied("all processes are busy") from None
        try:
            return self._call(seat, function, args)
        finally:
            if seat.uses >= USES:
                seat.clear()
            self._seats.put(seat)

    def close(self) -> None:
        """End the processes as they become free. No call may follow."""
        for _ in range(self._size):
            try:
                self._seats.get(timeout=self._timeout).clear()
            except Empty:  # its call is about to end by its own timeout
                return

    def _call(self, seat: _Seat, function: Callable[..., T], args: tuple[object, ...]) -> T:
        started = time.monotonic()
        try:
            return seat.take().call(function, *args, timeout=self._timeout)
        except DecoderDied:
            seat.clear()
            left = self._timeout - (time.monotonic() - started)
            if left <= 0:
                raise
        # It may have been killed for something else's sake: memory, or the fork server's end.
        try:
            return seat.take().call(function, *args, timeout=left)
        except DecoderDied:
            seat.clear()
            raise
