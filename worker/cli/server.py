"""What a command on the server's own machine knows about the service there."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from worker import settings
from worker.errors import ConfigurationError, Problem
from worker.guard import GRACE
from worker.settings import Settings

LOCK = "up.lock"


@dataclass(frozen=True, slots=True)
class Running:
    """What `up` writes about itself, for commands in another terminal with other variables."""

    process: int
    url: str
    owner_email: str


def lenient() -> Settings:
    """The settings for a command that starts nothing: `TELEGRAM_ENABLED` need not be known.

    Raises:
        ConfigurationError: anything else is wrong.
    """
    return settings.load(telegram_enabled=False)


def url() -> str:
    """PocketBase's address: the running service's, else the settings'."""
    config = lenient()
    service = running(config)
    return service.url if service else config.url


def command() -> str:
    """This very program, as one would type it here."""
    path = Path(sys.argv[0]).absolute()
    with suppress(ValueError):
        path = path.relative_to(Path.cwd())
    return str(path)


def running(config: Settings) -> Running | None:
    """The `up` that works in this data folder now."""
    try:
        with (config.folders.run / LOCK).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _read(file.fileno())
    except OSError:
        pass
    return None


def lock(config: Settings) -> int:
    """Become the one `up` of this data folder; the descriptor to keep open.

    Where the last one was killed, waits for its guard to end its processes.

    Raises:
        ConfigurationError: another one is at work there, or the folder cannot be written.
    """
    path = config.folders.run / LOCK
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        message = f"cannot write there: {(error.strerror or 'unusable').lower()}"
        raise ConfigurationError(Problem("DATA_DIR", message)) from error
    deadline = time.monotonic() + GRACE + 5
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            other = _read(descriptor)
            if (other and _alive(other.process)) or time.monotonic() > deadline:
                os.close(descriptor)
                who = f" (process {other.process})" if other else ""
                message = f"another `transcriber up` works in it{who}"
                raise ConfigurationError(Problem("DATA_DIR", message)) from None
            time.sleep(0.05)
    content = json.dumps(asdict(Running(os.getpid(), config.url, config.owner_email)))
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, content.encode(), 0)
    return descriptor


def _read(descriptor: int) -> Running | None:
    try:
        return Running(**json.loads(os.pread(descriptor, 65536, 0)))
    except (ValueError, TypeError):  # it has only just begun
        return None


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
