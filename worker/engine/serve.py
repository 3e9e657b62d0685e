"""One thread's loop: claim an operation, work on it, end the claim one way or another."""

from __future__ import annotations

import random
from typing import Final, Protocol

from loguru import logger

from worker.engine.lease import Lease
from worker.engine.operations import Operation, Outcome
from worker.engine.pool import Interrupted
from worker.engine.work import Bench, Hopeless, Pace, Work
from worker.errors import (
    EngineDied,
    LeaseLost,
    MediaError,
    ModelError,
    PocketBaseRefused,
    PocketBaseUnavailable,
    describe,
)

LONGEST_PAUSE: Final = 60.0
"""Seconds between two tries while this machine is in trouble."""


class Waits(Protocol):
    """A listener for wake-ups."""

    def wait(self, timeout: float) -> None:
        """Return when woken, or after `timeout` seconds."""
        ...


class Server:
    """Serves operations with one child."""

    def __init__(self, bench: Bench, engine: str, listener: Waits, poll: float) -> None:
        self._bench = bench
        self._engine = engine
        self._listener = listener
        self._poll = poll
        self._pace = Pace()
        self._trouble = 0.0  # the last pause because of this machine; 0 when all was well
        self._told = ""  # the trouble that the owner knows of
        self._loaded = False  # whether the model ever was

    def loop(self) -> None:
        """Work until the stop.

        Raises:
            ModelError: the model cannot be loaded. One that could be before is waited for.
        """
        bench = self._bench
        while not bench.stop.is_set():
            try:
                bench.child.start(bench.stop.is_set)  # before a claim: loading takes its time
                self._loaded = True
                operation = bench.link.patiently(bench.operations.claim)
            except (Interrupted, PocketBaseUnavailable):
                return
            except (EngineDied, ModelError, PocketBaseRefused, OSError) as error:
                if isinstance(error, ModelError) and not self._loaded:
                    raise
                self._pause("engine cannot work", error)
                continue
            if operation is None:
                self._listener.wait(self._poll * random.uniform(0.75, 1.25))  # noqa: S311 - jitter
            else:
                self._serve(operation)

    def _serve(self, operation: Operation) -> None:
        with Lease(self._bench.operations, operation, self._bench.link) as lease:
            try:
                self._end(operation, Work(self._bench, self._pace, operation, lease).outcome())
                self._trouble, self._told = 0.0, ""
            except LeaseLost:
                logger.info("operation is no longer ours", job_id=operation.recording)
            except (Hopeless, MediaError) as error:
                reason = describe(error)
                logger.error("not recognised", job_id=operation.recording, reason=reason)
                self._end(operation, "failed", reason)
            except PocketBaseUnavailable:
                pass  # only at a stop; the next process of this name takes it back
            except (ModelError, OSError, PocketBaseRefused) as error:
                self._end(operation, "released")
                self._pause("operation given back", error, job_id=operation.recording)

    def _end(self, operation: Operation, outcome: Outcome, reason: str = "") -> None:
        if outcome != "released":
            self._bench.scratch.drop(operation.recording)
        try:
            self._bench.link.patiently(
                lambda: self._bench.operations.finish(
                    operation, outcome, engine=self._engine, error_text=reason
                )
            )
        except (LeaseLost, PocketBaseUnavailable):
            return
        except PocketBaseRefused as error:  # its lease runs out, and it comes back
            self._pause("claim not ended", error, job_id=operation.recording)

    def _pause(self, what: str, error: Exception, **fields: str) -> None:
        """What will hardly be better at once: say so once, and wait longer each time."""
        self._trouble = min(max(1.0, self._trouble * 2), LONGEST_PAUSE)
        system = isinstance(error, OSError)  # its own text would hold a path
        reason = f"{type(error).__name__}: {error.strerror or error}" if system else describe(error)  # type: ignore[attr-defined] # `system` says that it is an OSError
        logger.log("DEBUG" if reason == self._told else "WARNING", what, reason=reason, **fields)
        self._told = reason
        self._bench.stop.wait(self._trouble)
