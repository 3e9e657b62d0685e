"""The process `engine`: the local recogniser's pool."""

from __future__ import annotations

import threading

from worker import names, secrets
from worker.engine.worker import run as work
from worker.pocketbase.client import Client
from worker.pocketbase.realtime import Wakeups
from worker.settings import Settings


def run(settings: Settings, stop: threading.Event) -> None:
    """Recognise until the stop; then give back what is held."""
    with (
        names.hold(settings, "engine") as name,
        Client(settings.url, lambda: secrets.worker_password(settings)) as client,
    ):
        wakeups = Wakeups(client)
        wakeups.start()
        work(settings, client, wakeups, name, stop)
