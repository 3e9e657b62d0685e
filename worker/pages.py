"""The one metrics page: what the Python processes counted, and what PocketBase sees."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final, Self

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from worker.errors import ConfigurationError, PocketBaseError, Problem
from worker.jobs import Milestone, Step
from worker.metrics import EXTENSIONS, OTHER
from worker.pocketbase.client import Client, reading
from worker.server import Server

INPUTS: Final = ("http", "telegram")
ERROR_CODES: Final = (
    "unauthorized", "forbidden", "not_found", "bad_request", "too_large", "too_many_requests",
    "not_ready", "no_space", "internal",
)  # fmt: skip
STATES: Final = (*Milestone, "failed", "dead")
PATIENCE: Final = 5.0
"""Seconds that a page waits for PocketBase's part of it."""
MAX_CONNECTIONS: Final = 16
"""That are being answered, and as many that have not asked yet."""
REQUEST_SECONDS: Final = 5.0
"""How long a connection may take to send its request."""


class PocketBaseCollector(Collector):
    """The queue's state and the intake's counts, asked for when the page is read."""

    def __init__(self, client: Client, telegram_up: Callable[[], bool]) -> None:
        self._client = client
        self._telegram_up = telegram_up

    def collect(self) -> Iterable[Metric]:
        """The families; without PocketBase only that its input is down."""
        seen: list[Metric] | None
        try:
            stats = self._client.request("GET", "/api/queue/stats", timeout=PATIENCE)
            with reading("stats"):
                seen = [*_queue(stats["states"]), *_intake(stats["counters"])]
        except (PocketBaseError, ConfigurationError):
            seen = None
        up = GaugeMetricFamily(
            "transcriber_input_up", "Whether an input takes recordings", labels=["input"]
        )
        up.add_metric(["http"], float(seen is not None))
        up.add_metric(["telegram"], float(self._telegram_up()))
        yield up
        yield from seen or ()


def _queue(rows: list[dict[str, Any]]) -> Iterable[Metric]:
    by_state = {row["state"]: row for row in rows}
    jobs = GaugeMetricFamily("transcriber_jobs", "Jobs in each state", labels=["state"])
    for state in STATES:
        jobs.add_metric([state], float(by_state.get(state, {}).get("jobs", 0)))
    yield jobs
    oldest = GaugeMetricFamily(
        "transcriber_queue_oldest_seconds",
        "Age of the oldest recording that a step has yet to work on",
        labels=["state"],
    )
    for step in Step:
        age = float(by_state.get(step.takes, {}).get("oldest", 0.0))
        oldest.add_metric([step.takes], max(0.0, age))
    yield oldest


def _intake(counters: dict[str, float]) -> Iterable[Metric]:
    accepted = CounterMetricFamily(
        "transcriber_recordings_accepted_total",
        "Recordings accepted",
        labels=["input", "extension"],
    )
    rejected = CounterMetricFamily(
        "transcriber_rejected_total",
        "Recordings refused at an input",
        labels=["input", "error_code"],
    )
    for source in INPUTS:
        for extension in (*EXTENSIONS, OTHER):
            count = float(counters.get(f"accepted|{source}|{extension}", 0))
            accepted.add_metric([source, extension], count)
        for code in ERROR_CODES:
            count = float(counters.get(f"rejected|{source}|{code}", 0))
            rejected.add_metric([source, code], count)
    yield accepted
    yield rejected


class _Counters(MultiProcessCollector):
    """What the processes counted. A file of no bytes is passed over: somebody was killed, or met a
    full disk, while making it, and its like would fail every page from then on."""

    def collect(self) -> Iterable[Metric]:
        files = [str(each) for each in Path(self._path).glob("*.db") if each.stat().st_size]
        merged: Iterable[Metric] = self.merge(files, accumulate=True)  # type: ignore[no-untyped-call] # the library has no types here
        return merged


class MetricsPage:
    """Serves `/metrics` from `start` to `stop`, or as a context manager."""

    def __init__(self, address: str, collector: Collector) -> None:
        registry = CollectorRegistry()
        _Counters(registry)  # type: ignore[no-untyped-call] # the library has no type here
        registry.register(collector)

        class Handler(_Handler):
            page = staticmethod(lambda: generate_latest(registry))

        try:
            self._server = Server(address, Handler, MAX_CONNECTIONS, REQUEST_SECONDS)
        except OSError as error:
            problem = f"cannot listen on {address}: {(error.strerror or '').lower()}"
            raise ConfigurationError(Problem("METRICS_HTTP", problem)) from error

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    page: Callable[[], bytes]
    timeout = 10

    def do_GET(self) -> None:
        if not self.server.admit(self.connection):
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = self.page()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE_LATEST)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Who reads the page is nobody's business."""
