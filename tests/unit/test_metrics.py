"""The metrics page: names and labels exactly as designed, all of them from closed lists."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tests.acceptance.service import free_port, wait_until
from tests.unit.strangers import connect, drip, hung_up, strangers
from worker import pages
from worker.errors import ConfigurationError, PocketBaseUnavailable
from worker.jobs import Step
from worker.metrics import EXTENSIONS, OTHER, OUTCOMES, Metrics, extension_label, share
from worker.pages import ERROR_CODES, INPUTS, STATES, MetricsPage, PocketBaseCollector

REPOSITORY = Path(__file__).resolve().parents[2]

DESIGN = {
    "transcriber_input_up": {"input"},
    "transcriber_recordings_accepted_total": {"input", "extension"},
    "transcriber_worker_runs_total": {"step", "outcome"},
    "transcriber_step_seconds": {"step"},
    "transcriber_normalized_total": {"extension"},
    "transcriber_undelivered_replies_total": {"reason"},
    "transcriber_jobs": {"state"},
    "transcriber_queue_oldest_seconds": {"state"},
    "transcriber_recognised_audio_seconds_total": {"engine"},
    "transcriber_rejected_total": {"input", "error_code"},
}


class Stats:
    """PocketBase's answer about the queue, or its absence."""

    def __init__(self, answer: dict | Exception) -> None:
        self.answer = answer

    def request(self, method: str, path: str, **_: object) -> dict:
        assert (method, path) == ("GET", "/api/queue/stats")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


STATS = {
    "states": [
        {"state": "uploaded", "jobs": 3, "oldest": 12.5},
        {"state": "dead", "jobs": 1, "oldest": 99.0},
    ],
    "counters": {
        "accepted|http|mp3": 4,
        "accepted|telegram|oga": 2,
        "rejected|http|too_large": 1,
    },
}

SERIES = re.compile(r"^([a-z_]+)(?:\{(.*?)\})? (\S+)$", re.MULTILINE)


def read(text: str) -> dict[str, float]:
    return {
        f"{name}{{{labels}}}" if labels else name: float(value)
        for name, labels, value in SERIES.findall(text)
    }


def collected(collector: Collector | None, *used) -> dict[str, set[str]]:
    """Each family as its full name, with the names of its labels."""
    families = {}
    registry = CollectorRegistry()
    if collector:
        registry.register(collector)
    metrics = Metrics(registry)
    for name in used:
        getattr(metrics, name)
    if "recognised" in used:
        metrics.recognised.labels("faster-whisper/base").inc(5)
    for family in registry.collect():
        suffix = "_total" if family.type == "counter" else ""
        labels = set().union(*(sample.labels for sample in family.samples)) - {"le"}
        families[family.name + suffix] = labels
    return families


def test_the_families_are_those_of_the_design():
    own = ("runs", "seconds", "normalized", "undelivered", "recognised")
    found = collected(PocketBaseCollector(Stats(STATS), lambda: False), *own)
    assert found == DESIGN


def test_what_can_be_counted_is_there_from_the_start():
    """A series that appears with its first failure hides that failure from a rate."""
    registry = CollectorRegistry()
    runs = Metrics(registry).runs
    assert {
        (sample.labels["step"], sample.labels["outcome"])
        for family in runs.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    } == {(step, outcome) for step in Step for outcome in OUTCOMES}


@given(st.text(max_size=40))
def test_whatever_a_sender_calls_it_the_label_is_from_the_list(extension):
    assert extension_label(extension) in {*EXTENSIONS, OTHER}


@pytest.mark.parametrize(
    ("extension", "label"),
    [("mp3", "mp3"), ("MP3", "mp3"), (".ogg", "ogg"), ("секрет", "other"), ("", "other")],
)
def test_a_known_extension_keeps_its_name(extension, label):
    assert extension_label(extension) == label


@pytest.fixture
def page():
    """The page as it is served."""
    servers = []

    def serve(answer: dict | Exception, telegram: bool = False) -> httpx.Response:
        collector = PocketBaseCollector(Stats(answer), lambda: telegram)
        port = free_port()
        server = MetricsPage(f"127.0.0.1:{port}", collector)
        server.__enter__()
        servers.append(server)
        return httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False)

    yield serve
    for server in servers:
        server.__exit__(None, None, None)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))


def test_the_page_shows_the_queue_and_the_intake(page):
    series = read(page(STATS, telegram=True).text)
    assert series['transcriber_input_up{input="http"}'] == 1
    assert series['transcriber_input_up{input="telegram"}'] == 1
    assert series['transcriber_jobs{state="uploaded"}'] == 3
    assert series['transcriber_jobs{state="dead"}'] == 1
    assert series['transcriber_jobs{state="done"}'] == 0
    assert series['transcriber_queue_oldest_seconds{state="uploaded"}'] == 12.5
    assert 'transcriber_queue_oldest_seconds{state="dead"}' not in series, "nobody works on it"
    accepted = 'transcriber_recordings_accepted_total{extension="mp3",input="http"}'
    assert series[accepted] == 4
    rejected = 'transcriber_rejected_total{error_code="too_large",input="http"}'
    assert series[rejected] == 1
    assert len([name for name in series if name.startswith("transcriber_jobs")]) == len(STATES)
    assert len([name for name in series if "accepted" in name]) == len(INPUTS) * (
        len(EXTENSIONS) + 1
    )
    assert len([name for name in series if "rejected" in name]) == len(INPUTS) * len(ERROR_CODES)


def test_without_pocketbase_the_page_says_that_the_input_is_down(page):
    answer = page(PocketBaseUnavailable("stats"))
    assert answer.status_code == 200
    series = read(answer.text)
    assert series['transcriber_input_up{input="http"}'] == 0
    assert not [name for name in series if name.startswith("transcriber_jobs")]


def test_only_the_page_is_served(page):
    url = str(page(STATS).url)
    assert httpx.get(url + "/more", trust_env=False).status_code == 404
    assert httpx.get(url.removesuffix("metrics"), trust_env=False).status_code == 404
    assert httpx.get(url + "?x=1", trust_env=False).status_code == 200
    assert httpx.post(url, trust_env=False).status_code == 501


def test_an_address_that_is_taken_is_a_problem_of_the_settings(page):
    taken = page(STATS).url.port
    with pytest.raises(ConfigurationError, match="METRICS_HTTP"):
        MetricsPage(f"127.0.0.1:{taken}", PocketBaseCollector(Stats(STATS), lambda: False))


@contextmanager
def served(collector: Collector) -> Iterator[str]:
    """The address of a page that is served."""
    address = f"127.0.0.1:{free_port()}"
    with MetricsPage(address, collector):
        yield address


def status(address: str) -> int:
    return httpx.get(f"http://{address}/metrics", trust_env=False).status_code


def test_those_who_ask_for_nothing_keep_no_reader_out():
    collector = PocketBaseCollector(Stats(STATS), lambda: False)
    with served(collector) as address, strangers(address, pages.MAX_CONNECTIONS + 4) as held:
        started = time.monotonic()
        assert [status(address) for _ in range(3)] == [200] * 3
        assert time.monotonic() - started < pages.REQUEST_SECONDS / 2
        assert all(hung_up(each) for each in held[:5])


def test_a_request_takes_seconds_in_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages, "REQUEST_SECONDS", 0.3)
    collector = PocketBaseCollector(Stats(STATS), lambda: False)
    with served(collector) as address, connect(address) as slow:
        assert 0.2 < drip(slow, limit=5) < 3


class Slow(Collector):
    """A page that is being made until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Event()

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> list[Metric]:
        self.begun.release()
        assert self.let_go.wait(10)
        return []


def test_only_so_many_pages_are_made_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages, "MAX_CONNECTIONS", 2)
    slow = Slow()
    with served(slow) as address, ThreadPoolExecutor(2) as threads:
        try:
            busy = [threads.submit(status, address) for _ in range(2)]
            assert all(slow.begun.acquire(timeout=5) for _ in busy)
            assert status(address) == 503
        finally:
            slow.let_go.set()
        assert [each.result() for each in busy] == [200, 200]
        wait_until(lambda: status(address) == 200, 5, "a place")


COUNTING = """
import sys
from pathlib import Path
from worker import metrics
metrics.share(Path(sys.argv[1]))
metrics.Metrics().runs.labels("check", "ok").inc(int(sys.argv[2]))
"""


def test_counts_of_all_processes_add_up_and_survive_them(page, tmp_path):
    for count in ("2", "3"):
        subprocess.run(
            [sys.executable, "-c", COUNTING, str(tmp_path), count],
            check=True,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
    series = read(page(STATS).text)
    assert series['transcriber_worker_runs_total{outcome="ok",step="check"}'] == 5
    assert series['transcriber_worker_runs_total{outcome="dead",step="check"}'] == 0


def test_counters_have_their_room_before_a_disk_is_full(tmp_path):
    """They are mapped: without it the next count on a full disk ends the process by SIGBUS."""
    subprocess.run(
        [sys.executable, "-c", COUNTING, str(tmp_path), "1"],
        check=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    [counters] = tmp_path.glob("counter_*.db")
    seen = counters.stat()
    assert seen.st_blocks * 512 >= seen.st_size > 0


def test_a_file_that_somebody_never_finished_does_not_break_the_page(page, tmp_path):
    subprocess.run(
        [sys.executable, "-c", COUNTING, str(tmp_path), "4"],
        check=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    (tmp_path / "counter_1.db").touch()
    answer = page(STATS)
    assert answer.status_code == 200
    assert read(answer.text)['transcriber_worker_runs_total{outcome="ok",step="check"}'] == 4


def test_a_full_disk_leaves_no_counters_of_no_bytes(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    with pytest.raises(OSError, match="No space"):
        share(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_closed_lists_are_those_of_the_documents():
    assert OUTCOMES == ("ok", "waiting", "retry", "failed", "dead", "lost")
    hooks = (REPOSITORY / "pb" / "pb_hooks" / "lib" / "counters.js").read_text()
    listed = re.search(r"const extensions = \[(.*?)\]", hooks, re.DOTALL).group(1)
    assert tuple(re.findall(r'"(\w+)"', listed)) == EXTENSIONS
    table = (REPOSITORY / "pb" / "pb_hooks" / "lib" / "errors.js").read_text()
    codes = set(re.findall(r"^  (\w+): \{(?: status|$)", table, re.MULTILINE))
    for_workers = {"lease_lost", "unreadable", "unread"}
    assert codes - for_workers == set(pages.ERROR_CODES)
