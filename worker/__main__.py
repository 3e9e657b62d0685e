"""`python -m worker NAME`: one process of the Procfile."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
import time
from types import FrameType
from typing import Final

import httpx
from loguru import logger

from worker import logs, metrics, settings
from worker.errors import (
    EXIT_CONFIGURATION,
    AlreadyRunning,
    ConfigurationError,
    ModelError,
    describe,
)

PROCESSES: Final = ("pb", "media", "pipeline", "engine", "telegram")
MOMENT: Final = 5.0
"""Seconds."""


def main(arguments: list[str]) -> int:
    """Run the process until it is told to stop. Returns the exit code."""
    if len(arguments) != 1 or arguments[0] not in PROCESSES:
        print(f"usage: python -m worker {{{','.join(PROCESSES)}}}", file=sys.stderr)
        return 2
    [name] = arguments
    logs.set_up(name, "INFO")
    try:
        config = settings.load()
        logs.set_up(name, config.log_level)
        logs.register_secret(config.telegram_token.get_secret_value())
        metrics.share(config.folders.metrics)
        # Only now: prometheus_client looks at its folder when it is imported.
        process = importlib.import_module(f"worker.processes.{name}")
        if name == "pb":
            process.run(config)
        stop = _stop_on_signal()
        if name != "media":  # PocketBase's own uploads wait for that one
            _give_pocketbase_a_moment(config.url, stop)
        process.run(config, stop)
    except (ConfigurationError, ModelError, AlreadyRunning) as error:
        if isinstance(error, ConfigurationError):
            for problem in error.problems:
                logger.error("configuration", key=problem.key, reason=problem.message)
        else:
            logger.error("cannot start", reason=describe(error))
        return EXIT_CONFIGURATION
    except Exception as error:  # noqa: BLE001 - the process's own boundary: said once, then over
        logger.error("process ended", reason=f"{type(error).__name__}: {describe(error)}")
        return 1
    return 0


def _give_pocketbase_a_moment(url: str, stop: threading.Event) -> None:
    """All processes start at once: nobody shall miss PocketBase aloud before it can be there."""
    deadline = time.monotonic() + MOMENT
    while time.monotonic() < deadline and not stop.is_set():
        try:
            if httpx.get(f"{url}/api/health", timeout=1, trust_env=False).is_success:
                return
        except httpx.HTTPError:
            pass
        stop.wait(0.05)


def _stop_on_signal() -> threading.Event:
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the handler's form
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    return stop


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
