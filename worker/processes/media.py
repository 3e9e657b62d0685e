"""The process `media`: the metadata source for the intake, and the metrics page."""

from __future__ import annotations

import threading

from worker import secrets
from worker.media.source import MetadataSource
from worker.pages import MetricsPage, PocketBaseCollector
from worker.pocketbase.client import Client
from worker.settings import Settings
from worker.telegram import pulse


def run(settings: Settings, stop: threading.Event) -> None:
    """Serve both until the stop.

    Raises:
        ConfigurationError: an address is taken.
    """
    store = settings.folders.pocketbase / "storage"
    with (
        MetadataSource(settings.media_http, secrets.media_secret(settings), store),
        Client(settings.url, lambda: secrets.worker_password(settings)) as client,
        MetricsPage(
            settings.metrics_http, PocketBaseCollector(client, lambda: pulse.is_up(settings))
        ),
    ):
        stop.wait()
