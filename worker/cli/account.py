"""Which server and account the commands of a sender use: options, environment, what is kept."""

from __future__ import annotations

import getpass
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from worker.cli.error import CommandError
from worker.logs import register_secret


@dataclass(frozen=True, slots=True)
class Account:
    """A sender's account on a server."""

    url: str
    email: str
    password: str = field(repr=False)


def kept_in() -> Path:
    """Where the account of this person is kept."""
    configuration = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(configuration) / "transcriber" / "credentials.json"


def kept() -> Account | None:
    """The account that `keep` wrote.

    Raises:
        CommandError: the file is there and cannot be used.
    """
    path = kept_in()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        account = Account(*(str(content[name]) for name in ("url", "email", "password")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not what was written there"
        raise CommandError(f"read {path}: {reason}: remove it to begin anew") from None
    register_secret(account.password)
    return account


def keep(account: Account) -> Path:
    """Write the account where `kept` finds it, for this person's eyes only; returns where.

    Raises:
        CommandError: it cannot be written.
    """
    path = kept_in()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as draft:  # mode 0600
            json.dump(asdict(account), draft, indent=2)
        Path(draft.name).replace(path)
    except OSError as error:
        raise CommandError(f"write {path}: {error.strerror}") from error
    return path


def choose(email: str | None, local_url: Callable[[], str]) -> Account:
    """The account to use: `email` or TRANSCRIBER_EMAIL, else the one kept.

    The server is TRANSCRIBER_URL, else that of the account kept, else the one at `local_url`. A
    kept password is used for its own account on its own server only.

    Raises:
        CommandError: TRANSCRIBER_URL holds a password, no account is known, or its password is not
            and nobody can be asked.
    """
    remembered = kept()
    url = os.environ.get("TRANSCRIBER_URL", "").rstrip("/")
    if "@" in url.partition("://")[2].partition("/")[0]:  # messages show addresses
        raise CommandError("TRANSCRIBER_URL: must have no user and password in front of the host")
    url = url or (remembered.url if remembered else local_url())
    email = email or os.environ.get("TRANSCRIBER_EMAIL") or (remembered.email if remembered else "")
    if not email:
        raise CommandError(
            "no account: make one with `transcriber user add EMAIL`, "
            "or set TRANSCRIBER_EMAIL and TRANSCRIBER_PASSWORD"
        )
    password = os.environ.get("TRANSCRIBER_PASSWORD", "")
    if not password and remembered and (remembered.url, remembered.email) == (url, email):
        password = remembered.password
    password = password or ask(f"Password of {email} at {url}: ", "set TRANSCRIBER_PASSWORD")
    register_secret(password)
    return Account(url, email, password)


def ask(prompt: str, otherwise: str) -> str:
    """A password from the person at the terminal.

    Raises:
        CommandError: there is nobody to ask; says what to do `otherwise`.
    """
    if not sys.stdin.isatty():
        raise CommandError(f"no password, and no terminal to ask at: {otherwise}")
    try:
        return getpass.getpass(prompt)
    except EOFError:
        raise CommandError(f"no password: {otherwise}") from None
