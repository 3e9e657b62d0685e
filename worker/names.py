"""The names under which processes hold leases, one live process a name.

A name is what a lease is given back by, so two live processes must never share one: on a machine
a file lock sees to that, and names of different machines or data folders differ.
"""

from __future__ import annotations

import fcntl
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from worker.errors import AlreadyRunning, ConfigurationError, Problem
from worker.settings import Settings

PATIENCE = 20.0
"""Seconds that a predecessor on its way out is waited for."""


@contextmanager
def hold(settings: Settings, process: str, patience: float | None = None) -> Iterator[str]:
    """Hold the process's name for as long as the block runs. `patience`: None is `PATIENCE`.

    Raises:
        AlreadyRunning: another live process has it.
        ConfigurationError: `DATA_DIR` cannot be written.
    """
    folder = settings.folders.run
    try:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{process}@{_machine(settings)}"
        lock = (folder / f"{process}.lock").open("w")
    except OSError as error:
        raise ConfigurationError(
            Problem("DATA_DIR", f"cannot write there: {(error.strerror or 'unusable').lower()}")
        ) from error
    # What goes wrong inside the block is no fault of the folder's.
    with lock:
        _lock(lock.fileno(), name, PATIENCE if patience is None else patience)
        yield name


def _lock(descriptor: int, name: str, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise AlreadyRunning(name) from None
            time.sleep(0.1)
        else:
            return


def _machine(settings: Settings) -> str:
    """This machine and data folder: the host's name for the owner, and what makes it unique."""
    file = settings.folders.run / "machine"
    with suppress(FileExistsError), file.open("x") as fresh:
        fresh.write(secrets.token_hex(3))
    return f"{socket.gethostname()}-{file.read_text().strip() or 'x'}"
