"""`transcriber user add EMAIL`: an account for a sender, made as the owner."""

from __future__ import annotations

import argparse
import secrets as random
import sys

import httpx

from worker import secrets
from worker.cli import account, server
from worker.cli.account import Account
from worker.cli.api import RefusalError, Session, call, client
from worker.cli.error import CommandError
from worker.settings import Settings

NOT_UNIQUE = "validation_not_unique"


def run(options: argparse.Namespace) -> int:
    """Make the account; a generated password is printed, this once."""
    config = server.lenient()
    password = _from_stdin() if options.password_stdin else random.token_urlsafe(12)
    url, owner = config.url, config.owner_email
    service = server.running(config)
    if service:  # it may have been started with variables that this terminal does not have
        url = service.url
        owner = owner if "owner_email" in config.model_fields_set else service.owner_email
    with client(url) as http:
        call(http, "GET", "/api/health")  # before anybody is asked for a password
        _create(_log_in(http, config, owner), options.email, password)
    print(f"{options.email} can send recordings now.")
    if not options.password_stdin:
        print(f"Password, shown this once: {password}")
    _remember(Account(url, options.email, password), wanted=options.remember)
    return 0


def _from_stdin() -> str:
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise CommandError("no password on standard input")
    return password


def _log_in(http: httpx.Client, config: Settings, owner: str) -> Session:
    """The owner's session: by the password that is known here, else by one typed in."""
    password = secrets.known(config, secrets.OWNER_PASSWORD)
    if password:
        try:
            return Session(http, "_superusers", owner, password)
        except RefusalError:
            print(f"The owner's password known here is not that of {owner}.", file=sys.stderr)
    otherwise = "set OWNER_EMAIL and OWNER_PASSWORD to the owner's"
    return Session(http, "_superusers", owner, account.ask(f"Password of {owner}: ", otherwise))


def _create(owner: Session, email: str, password: str) -> None:
    record = {
        "email": email,
        "password": password,
        "passwordConfirm": password,
        "verified": True,
        "emailVisibility": False,
    }
    try:
        owner.post("/api/collections/users/records", json=record)
    except RefusalError as error:
        fields = {name: verdict for name, verdict in error.data.items() if "message" in verdict}
        if fields.get("email", {}).get("code") == NOT_UNIQUE:
            raise CommandError(f"there is a user {email} already") from error
        reasons = "; ".join(f"{name}: {verdict['message']}" for name, verdict in fields.items())
        raise CommandError(f"add {email}: {reasons or error}") from None


def _remember(made: Account, *, wanted: bool | None) -> None:
    """Keep the account for `send`, unless somebody else's is kept and was not given up."""
    before = account.kept()
    # The same address on the same server, made just now: the password kept for it is dead.
    stale = before is None or (before.url, before.email) == (made.url, made.email)
    if wanted or (wanted is None and stale):
        path = account.keep(made)
        print(f"Kept for `send` and `status` in {path}")
    elif before and wanted is None:
        print(f"`send` goes on as {before.email}; `--remember` would have changed that.")
