"""The process `telegram`: the second way in."""

from __future__ import annotations

import threading

from loguru import logger

from worker.errors import ConfigurationError, Problem
from worker.settings import Settings


def run(settings: Settings, stop: threading.Event) -> None:  # noqa: ARG001 - a process's form
    """Take messages until the stop; where the owner wants none, say so and end."""
    if not settings.telegram_enabled:
        logger.info("telegram input is off by setting")
        return
    raise ConfigurationError(Problem("TELEGRAM_ENABLED", "this version has no Telegram input yet"))
