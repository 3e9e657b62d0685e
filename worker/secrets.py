"""Secrets that nobody has to think up: generated at the first start, kept under `DATA_DIR`.

A setting wins over the generated value, and does not remove it. Every value that leaves this
module is known to the log's redaction.

Each function raises `ConfigurationError` where the folder cannot be written or a file is empty.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

from pydantic import SecretStr

from worker.errors import ConfigurationError, Problem
from worker.logs import register_secret
from worker.settings import Settings

OWNER_PASSWORD = "owner_password"  # noqa: S105 - the file's name
WORKER_PASSWORD = "worker_password"  # noqa: S105 - the name of a file, no secret
MEDIA_SECRET = "media_secret"  # noqa: S105 - the name of a file, no secret


def worker_password(settings: Settings) -> str:
    """The password of the account that the Python processes log in with."""
    return (
        _given(settings.worker_password.get_secret_value()) or _kept(settings, WORKER_PASSWORD)[0]
    )


def owner_password(settings: Settings) -> tuple[str, bool]:
    """The owner's password, and whether this very call generated it (so that it is shown once)."""
    if given := _given(settings.owner_password.get_secret_value()):
        return given, False
    return _kept(settings, OWNER_PASSWORD)


def media_secret(settings: Settings) -> str:
    """What PocketBase shows the metadata source to be let in."""
    return _kept(settings, MEDIA_SECRET)[0]


def known(settings: Settings, name: str) -> str:
    """The given or kept secret of this name, or empty: for commands that only look on."""
    given = getattr(settings, name, None)
    value = given.get_secret_value() if isinstance(given, SecretStr) else ""
    try:
        value = value or (settings.folders.secrets / name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return _given(value)


def _given(value: str) -> str:
    register_secret(value)
    return value


def _kept(settings: Settings, name: str) -> tuple[str, bool]:
    """The file's value, and whether this call made it."""
    folder = settings.folders.secrets
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / name
        fresh = not path.exists() and _create(path, secrets.token_urlsafe(24))
        value = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or "unreadable") if isinstance(error, OSError) else "unreadable"
        message = f"cannot keep {folder.name}/{name} there: {reason.lower()}"
        raise ConfigurationError(Problem("DATA_DIR", message)) from error
    if not value:
        message = f"{folder.name}/{name} in it is empty: remove that file to get a new secret"
        raise ConfigurationError(Problem("DATA_DIR", message))
    register_secret(value)
    return value, fresh


def _create(path: Path, value: str) -> bool:
    """Write the file unless there is one: whole or not at all, whoever else is at it.

    `O_EXCL` on the file itself would let a second process read it while it is still empty, and
    a crash leave it so. A link to a finished file is as exclusive, and never half there.
    """
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(value + "\n")
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(draft)
    except FileExistsError:
        return False
    else:
        return True
    finally:
        Path(draft).unlink()
