"""`transcriber up`: check everything, then run the service until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path

import httpx

from worker import secrets, settings, supervisor
from worker.cli import server
from worker.errors import (
    EXIT_CONFIGURATION,
    ConfigurationError,
    ModelError,
    Problem,
    describe,
)
from worker.guard import Guard
from worker.settings import Settings
from worker.supervisor import Supervisor

REPOSITORY = Path(__file__).resolve().parents[2]
PROCFILE = REPOSITORY / "Procfile"
LISTENERS = ("pocketbase_http", "media_http", "metrics_http")
PATIENCE = 60.0
"""Seconds after which PocketBase's silence is worth a word."""


def run(_: argparse.Namespace) -> int:
    """Run the service; its exit code."""
    config = settings.load()
    commands = supervisor.parse(PROCFILE.read_text(encoding="utf-8"))
    writable(config)
    lock = server.lock(config)
    if problems := [problem for key in LISTENERS if (problem := occupied(config, key))]:
        raise ConfigurationError(*problems)
    try:
        _install_model(config)
    except ModelError as error:
        print(f"transcriber: ENGINE_MODEL: {describe(error)}", file=sys.stderr)
        return EXIT_CONFIGURATION
    shutil.rmtree(config.folders.metrics, ignore_errors=True)  # counters of processes long gone
    welcome = _welcome(config)
    guard = Guard(keep_open=(lock,))
    try:
        return asyncio.run(_serve(config, commands, guard, welcome))
    finally:
        guard.close()


def writable(config: Settings) -> None:
    """Make sure of the data folder.

    Raises:
        ConfigurationError: nothing can be written there.
    """
    try:
        config.folders.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=config.folders.root):
            pass
    except OSError as error:
        message = f"cannot write there: {(error.strerror or 'unusable').lower()}"
        raise ConfigurationError(Problem("DATA_DIR", message)) from error


def occupied(config: Settings, name: str) -> Problem | None:
    """What keeps this listen address from being used now, if anything does."""
    host, port = settings.split(getattr(config, name))
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the last run's echoes
            attempt.bind(address)
            attempt.listen(1)
    except socket.gaierror:
        reason = "unknown host"
    except OSError as error:
        reasons = {
            errno.EADDRINUSE: "another program listens there: stop it, or choose another port",
            errno.EADDRNOTAVAIL: "not an address of this machine",
            errno.EACCES: "not allowed to listen there: choose a port above 1023",
        }
        reason = reasons.get(error.errno or 0, (error.strerror or "unusable").lower())
    else:
        return None
    return Problem(name.upper(), reason)


def _install_model(config: Settings) -> None:
    # Not before the settings are known to be good.
    from worker.engine import model, voices  # noqa: PLC0415 - only where an engine is to be started

    model.install(config)
    voices.find(config)


def _welcome(config: Settings) -> str:
    """What the person at the terminal reads once the service answers."""
    first = not config.folders.pocketbase.exists()
    password, fresh = secrets.owner_password(config)
    lines = [
        f"transcriber is up: {config.url}",
        f"the owner's panel: {config.url}/_/  ({config.owner_email})",
    ]
    kept = os.path.relpath(config.folders.secrets / secrets.OWNER_PASSWORD)
    if fresh:
        lines.append(f"its password:      {password}  (shown this once, kept in {kept})")
    elif not config.owner_password.get_secret_value():
        lines.append(f"its password:      in {kept}, unless changed in the panel since")
    if first:
        program = server.command()
        lines += [
            "now, in another terminal:",
            f"    {program} user add you@example.com",
            f"    {program} send {_sample()}",
        ]
    return "".join(f"    {line}\n" for line in ["", *lines, ""])


def _sample() -> str:
    samples = sorted(REPOSITORY.glob("samples/*.ogg"))
    return os.path.relpath(samples[0]) if samples else "RECORDING"


async def _serve(
    config: Settings, commands: list[supervisor.Command], guard: Guard, welcome: str
) -> int:
    # Where the input is off its process says so and ends, and that is as it should be.
    may_end = () if config.telegram_enabled else ("telegram",)
    service = Supervisor(commands, guard, may_end=may_end)

    async def announce() -> None:
        loop = asyncio.get_running_loop()
        patience = loop.time() + PATIENCE
        async with httpx.AsyncClient(base_url=config.url, trust_env=False, timeout=5) as http:
            while not await _healthy(http):
                if loop.time() > patience:
                    service.say(f"{config.url} does not answer yet; see the lines of pb above")
                    patience += PATIENCE
                await asyncio.sleep(0.1)
        service.show(welcome)

    return await service.run(announce)


async def _healthy(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/api/health")).is_success
    except httpx.HTTPError:
        return False
