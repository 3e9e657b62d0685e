"""What recordings left with a recogniser elsewhere, removed there as soon as that can be."""

from __future__ import annotations

from typing import Final, Protocol

from loguru import logger

from worker.errors import Cancelled, ConfigurationError, PocketBaseError, RecogniserError, describe
from worker.pipeline.steps import Context

EVERY: Final = 60.0
"""Seconds between two looks, unless one is deleted meanwhile."""


class Waits(Protocol):
    """A listener for wake-ups."""

    def wait(self, timeout: float) -> None:
        """Return when woken, or after `timeout` seconds."""
        ...


def run(context: Context, listener: Waits) -> None:
    """Remove what is left until the stop. A nuisance that fails is tried again a minute later."""
    while not context.stop.is_set():
        try:
            for operation in context.queue.leftovers():
                _remove(context, operation)
        except PocketBaseError:
            pass  # others say it
        except (Cancelled, ConfigurationError):
            return  # the steps meet it too
        listener.wait(EVERY)


def _remove(context: Context, operation: str) -> None:
    try:
        gone = context.recogniser.cancel(operation)
    except RecogniserError as error:
        logger.debug("leftover not removed yet", reason=describe(error))
        return
    if gone:
        context.queue.removed(operation)
