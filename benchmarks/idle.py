"""What the whole service costs while there is nothing to do, with and without Telegram."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import postgres
from benchmarks.processes import private, tree
from benchmarks.processor import spent as cpu_of
from benchmarks.queue import peer_side
from benchmarks.table import Row
from tests.acceptance.proxy import Proxy
from tests.acceptance.service import ALL, Service, tone
from tests.acceptance.telegram_server import TOKEN, TelegramServer

SECONDS = 20.0


def rows() -> list[Row]:
    """The idle service's part of the table."""
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as other,
        contextlib.closing(TelegramServer().start()) as telegram,
    ):
        settings = {
            "TELEGRAM_ENABLED": "true",
            "TELEGRAM_TOKEN": TOKEN,
            "TELEGRAM_API_URL": telegram.url,
        }
        without = whole(Path(folder), "without Telegram", ALL)
        beside = whole(Path(other), "with Telegram", (*ALL, "telegram"), **settings)
    return [without, beside, *peer()]


def whole(folder: Path, what: str, names: tuple[str, ...], **settings: str) -> Row:
    """Every process, once each has done something and has been left alone."""
    service = Service(folder, **settings)
    with Proxy(service.ports["POCKETBASE"], remember=False) as proxy:
        try:
            service.start("pb")
            service.start(*names[1:], POCKETBASE_URL=proxy.url)
            user = service.user()
            user.wait(user.upload(tone(folder)), 120)
            time.sleep(5)
            asked = proxy.requests.total()
            spent = seconds_of(service)
            time.sleep(SECONDS)
            spent = {name: now - spent[name] for name, now in seconds_of(service).items()}
            asked = proxy.requests.total() - asked
            held = {
                name: sum(map(private, tree(process.pid))) >> 20
                for name, process in service.processes.items()
            }
        finally:
            service.close()
    minutes = SECONDS / 60
    return Row(
        f"idle, {what}",
        f"{sum(spent.values()) / minutes:.1f} s CPU a minute, {asked / minutes:.0f} requests,"
        f" {sum(held.values())} MB",
        "",
        ", ".join(f"{name} {spent[name] / minutes:.2f} s, {held[name]} MB" for name in names),
    )


def seconds_of(service: Service) -> dict[str, float]:
    """CPU seconds of each process so far."""
    return {name: cpu_of([process.pid]) for name, process in service.processes.items()}


def peer() -> Iterator[Row]:
    """One worker of the peer's, with its PostgreSQL."""
    with contextlib.ExitStack() as stack:
        found = stack.enter_context(peer_side())
        if found is None:
            yield Row("idle: one worker of Procrastinate", postgres.INSTALL)
            return
        side, server = found
        before = cpu_of([server])
        answer = side.ask("idle", seconds=SECONDS)
        spent = cpu_of([server]) - before
        held = sum(map(private, tree(server))) >> 20
    minutes = SECONDS / 60
    yield Row(
        "idle: one worker of Procrastinate with its PostgreSQL",
        f"{(answer['cpu'] + spent) / minutes:.1f} s CPU a minute,"
        f" {answer['transactions'] / minutes:.0f} transactions, {answer['memory'] + held} MB",
        "",
        "a queue alone: no intake, no media, no engine",
    )
