"""The parent's side of a child process: asks, waits, and kills what hangs.

The parent never runs native code, so that it can renew leases whatever the child does.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any, Final

from worker.engine.child import READY, Done, Failed, Progress
from worker.errors import EngineDied, ModelError, UnreadableMedia

TICK: Final = 0.1
"""Seconds between two looks at whether the caller still wants the answer."""
LOADING: Final = 180.0
"""Seconds within which a model has to be loaded."""


class Interrupted(Exception):
    """The caller did not want to wait any longer; the child is left to its work."""


class Child:
    """One child process and its model, started when first needed. Used by one thread.

    `target` is called in the child with (connection, pid of the parent, *arguments); a fresh
    tuple of arguments is made for every start, so that it can check what it hands over.
    """

    def __init__(
        self, target: Callable[..., None], arguments: Callable[[], tuple[Any, ...]]
    ) -> None:
        self._target = target
        self._arguments = arguments
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None
        self._asked = READY

    @property
    def pid(self) -> int | None:
        """The child's process id, while one is there."""
        return self._process.pid if self._process else None

    def start(self, unwanted: Callable[[], bool] = lambda: False) -> None:
        """Make sure that a child with a loaded model is there.

        Raises:
            ModelError: the model cannot be loaded.
            EngineDied: the child died over it.
            Interrupted: `unwanted()` became true.
        """
        if self._process is not None and self._process.is_alive():
            return
        self.kill()
        arguments = self._arguments()
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=self._target, args=(theirs, os.getpid(), *arguments), daemon=True
        )
        self._process.start()
        theirs.close()  # so that the pipe closes with the child
        self._asked = READY
        reply = self._await(LOADING, unwanted)
        if isinstance(reply, Failed):
            self.kill()
            raise ModelError(f"load model: {reply.reason}")

    def ask(
        self,
        request: object,
        seconds: float,
        unwanted: Callable[[], bool] = lambda: False,
    ) -> Any:
        """Have the child do something; what it did before is abandoned.

        Args:
            request: see `worker.engine.child`.
            seconds: bound between two signs of life; a child that exceeds it is killed.
            unwanted: asked ten times a second; must not block.

        Raises:
            EngineDied: the child died, failed, or was killed for taking too long.
            UnreadableMedia: the recording is at fault.
            OSError: the child could not write.
            Interrupted: `unwanted()` became true; the child may still be busy.
            ModelError: as for `start`.
        """
        self.start(unwanted)
        assert self._connection is not None  # noqa: S101 - `start` made it
        self._asked += 1
        try:
            self._connection.send((self._asked, request))
        except OSError as error:
            raise EngineDied(self._death()) from error
        reply = self._await(seconds, unwanted)
        if isinstance(reply, Done):
            return reply.value
        if reply.kind == "media":
            raise UnreadableMedia(reply.reason)
        if reply.kind == "disk":
            raise OSError(reply.reason)
        raise EngineDied(reply.reason)

    def kill(self) -> None:
        """End the child at once, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
            self._process = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _await(self, seconds: float, unwanted: Callable[[], bool]) -> Done | Failed:
        assert self._connection is not None  # noqa: S101 - callers have one
        assert self._process is not None  # noqa: S101 - the same
        deadline = time.monotonic() + seconds
        while True:
            if unwanted():
                raise Interrupted
            ready = wait([self._connection, self._process.sentinel], timeout=TICK)
            if self._connection in ready:
                try:
                    number, reply = self._connection.recv()
                except (EOFError, OSError) as error:
                    raise EngineDied(self._death()) from error
                if number == self._asked:
                    if not isinstance(reply, Progress):
                        answer: Done | Failed = reply
                        return answer
                    deadline = time.monotonic() + seconds
            elif ready:
                raise EngineDied(self._death())
            elif time.monotonic() > deadline:
                self.kill()
                raise EngineDied(f"gave no answer in {seconds:.0f} s and was killed")

    def _death(self) -> str:
        """Bury the child and say how it died."""
        assert self._process is not None  # noqa: S101 - it has just died
        self._process.join(5)
        code = self._process.exitcode
        self.kill()
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            return f"killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
        return f"ended with code {code}"
