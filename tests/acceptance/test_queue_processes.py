"""Real pipeline processes: killed, stopped, started twice, cut off, and woken."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.bench import decoding, long_recording
from tests.acceptance.proxy import Proxy
from tests.acceptance.service import WORKER_PASSWORD, Service, User, tone, wait_until

CLAIM, DUE = "/api/queue/claim", "/api/queue/due"
AGO = "strftime('%Y-%m-%d %H:%M:%fZ', 'now', '-10 hours')"


class Scene:
    """PocketBase and the metadata source, a sender, and workers that reach them by a proxy."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service = service
        self.sender: User = service.user()
        self.sound = tone(folder)

    def upload(self) -> str:
        return self.sender.upload(self.sound)

    def state(self, job: str) -> str:
        return str(self.service.job(job)["state"])

    def worker(self, folder: Path, proxy: Proxy, **settings: str) -> Service:
        """A machine of its own, with a `pipeline` to start."""
        folder.mkdir()
        settings = {"POLL_SECONDS": "0.2", "BACKOFF_SECONDS": "0.2", **settings}
        return Service(folder, POCKETBASE_URL=proxy.url, **settings)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("stage")
    service = Service(folder)
    try:
        service.start("pb", "media")
        yield Scene(service, folder)
    finally:
        service.close()


@pytest.fixture
def scene(stage: Scene) -> Scene:
    for table in ("jobs", "operations", "transcripts", "recordings"):
        stage.service.execute(f"DELETE FROM {table}")
    return stage


@pytest.fixture
def proxy(stage: Scene) -> Iterator[Proxy]:
    with Proxy(stage.service.ports["POCKETBASE"]) as proxy:
        yield proxy


@pytest.fixture
def second(stage: Scene) -> Iterator[Proxy]:
    with Proxy(stage.service.ports["POCKETBASE"]) as proxy:
        yield proxy


@pytest.fixture
def worker(scene: Scene, proxy: Proxy, tmp_path: Path) -> Iterator[Service]:
    worker = scene.worker(tmp_path / "worker", proxy)
    yield worker
    worker.close()


def polled(proxy: Proxy, times: int = 15) -> None:
    """Wait until the worker behind this proxy has asked for work again and again."""
    before = proxy.requests[DUE]
    wait_until(lambda: proxy.requests[DUE] >= before + times, what="polls")


def test_a_killed_worker_started_again_has_its_job_back_at_once(scene, proxy, worker):
    """Cases: killed mid-step. Hours before its lease would end."""
    proxy.swallow("/api/queue/audio")
    job = scene.upload()
    worker.start("pipeline")
    wait_until(lambda: proxy.requests[f"/api/queue/audio/{job}/audio"], what="the step at work")
    held = scene.service.job(job)["lease_token"]
    worker.kill("pipeline")
    assert scene.service.job(job)["lease_token"] == held
    proxy.heal()
    started = time.monotonic()
    worker.start("pipeline")
    wait_until(lambda: scene.state(job) == "submitted", 20)
    assert time.monotonic() - started < 10
    row = scene.service.job(job)
    assert (row["attempts"], row["error_text"]) == (0, "")
    scratch = worker.data / "run" / "pipeline"
    wait_until(lambda: not any(scratch.iterdir()), what="no scratch files")


def test_a_restart_touches_nothing_that_another_machine_works_on(
    scene, proxy, second, worker, tmp_path
):
    """Cases: a restart neither fails what is in work nor runs it again."""
    proxy.swallow("/api/queue/audio")
    second.swallow("/api/queue/audio")
    other = scene.worker(tmp_path / "other", second)
    try:
        job = scene.upload()
        worker.start("pipeline")
        wait_until(lambda: scene.service.job(job)["lease_token"])
        other.start("pipeline")
        polled(second)
        worker.kill("pipeline")
        polled(second)
        first = scene.service.job(job)
        assert first["attempts"] == 1, "another name gets it after the lease, not before"
        scene.service.execute(f"UPDATE jobs SET leased_at = {AGO} WHERE id = ?", job)
        wait_until(lambda: scene.service.job(job)["attempts"] == 2, what="the other's claim")
        taken = scene.service.job(job)
        assert taken["leased_by"] != first["leased_by"]

        worker.start("pipeline")
        polled(proxy)
        assert scene.service.job(job) == taken
        second.heal()
        wait_until(lambda: scene.state(job) == "submitted")
        downloads = f"/api/queue/audio/{job}/audio"
        assert (proxy.requests[downloads], second.requests[downloads]) == (1, 1)
        assert len(scene.service.rows("SELECT * FROM operations")) == 1
    finally:
        other.close()


@pytest.mark.scenario("own", "A process is stopped in the middle of a step")
def test_a_stopped_worker_gives_back_what_it_holds_at_no_attempts_cost(scene, proxy, worker):
    """SIGTERM in the middle of a long decoding."""
    job = scene.sender.upload(long_recording(worker.folder, hours=6))
    worker.start("pipeline")
    wait_until(lambda: decoding(worker), what="decoding")
    assert scene.service.job(job)["attempts"] == 1
    started = time.monotonic()
    assert worker.stop("pipeline") == 0
    assert time.monotonic() - started < 5
    row = scene.service.job(job)
    assert (row["state"], row["attempts"], row["lease_token"], row["error_text"]) == (
        "uploaded",
        0,
        "",
        "",
    )
    assert row["not_before"] == ""
    assert worker.printed("pipeline").count("WARNING") == 0
    assert worker.printed("pipeline").count("ERROR") == 0


# `python -m worker pipeline`, but for the time that it waits for a predecessor on its way out.
IMPATIENT = """
import sys
from worker import names
from worker.__main__ import main
names.PATIENCE = 1.0
sys.exit(main(["pipeline"]))
"""


def test_two_live_processes_cannot_have_one_name(scene, proxy, worker):
    """The second says so and ends; the first goes on working."""
    worker.start("pipeline")
    polled(proxy, 5)
    second = subprocess.run(
        [sys.executable, "-c", IMPATIENT],
        check=False,
        cwd=worker.folder,
        env=worker.env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode == 78
    assert "another live process has this name" in second.stderr
    job = scene.upload()
    wait_until(lambda: scene.state(job) == "submitted")
    assert worker.processes["pipeline"].poll() is None


def test_a_wrong_password_ends_the_worker_with_the_settings_name(scene, worker):
    worker.start("pipeline", WORKER_PASSWORD="not-the-password")
    assert worker.processes.pop("pipeline").wait(20) == 78
    printed = worker.printed("pipeline")
    assert "WORKER_PASSWORD" in printed
    assert "not-the-password" not in printed
    assert WORKER_PASSWORD not in printed
    assert "Traceback" not in printed


def test_a_wake_up_beats_the_poll_by_far(scene, proxy, worker):
    """Polling once a minute, a recording still goes through two steps at once."""
    worker.start("pipeline", POLL_SECONDS="60")
    wait_until(lambda: proxy.requests["/api/realtime"] >= 2, what="the subscription")
    polls = wait_until(lambda: proxy.requests[CLAIM] >= 5 and proxy.requests[CLAIM])
    took = []
    for _ in range(5):
        started = time.monotonic()
        job = scene.upload()
        wait_until(lambda job=job: scene.state(job) == "submitted", 20)
        took.append(time.monotonic() - started)
    assert sorted(took)[2] < 3, took
    assert proxy.requests[CLAIM] - polls < 60


def test_a_realtime_connection_that_is_dead_but_looks_alive_costs_one_poll(scene, proxy, worker):
    worker.start("pipeline", POLL_SECONDS="1")
    wait_until(lambda: proxy.requests["/api/realtime"] >= 2, what="the subscription")
    first = scene.upload()
    wait_until(lambda: scene.state(first) == "submitted")
    proxy.swallow("/api/realtime")
    started = time.monotonic()
    job = scene.upload()
    wait_until(lambda: scene.state(job) == "submitted", 20)
    assert time.monotonic() - started < 6  # two steps, a poll of at most 1.2 s before each


def test_an_idle_worker_is_calm(scene, proxy, worker):
    """Cases: an idle fleet hammers the server. One poll a second for all steps, and no more."""
    worker.start("pipeline", POLL_SECONDS="1")
    polled(proxy, 3)
    before = proxy.requests.copy()
    started = time.monotonic()
    polled(proxy, 10)
    took = time.monotonic() - started
    during = proxy.requests - before
    assert set(during) <= {DUE, CLAIM}
    assert during[DUE] / took < 1 / 0.8 * 1.2, "at most once in 0.8 s"
    assert during[CLAIM] <= 5, "each thread for itself, once in half a minute"
    assert worker.printed("pipeline") == ""


def test_pocketbase_restarted_under_load_loses_and_doubles_nothing(
    scene, proxy, worker, stage: Scene
):
    """Killed in the midst of forty recordings and away for a while; said once."""
    jobs = [scene.upload() for _ in range(40)]
    worker.start("pipeline")
    wait_until(lambda: submitted(stage, jobs) >= 8, what="work in full swing")
    stage.service.kill("pb")
    wait_until(lambda: "pocketbase is away" in worker.printed("pipeline"))
    time.sleep(2)  # the absence itself
    stage.service.start("pb")
    wait_until(lambda: submitted(stage, jobs) == 40, 60, "every recording's turn")
    rows = stage.service.rows("SELECT * FROM jobs")
    # One may be held at this very moment, by the step that checks it.
    assert {row["attempts"] for row in rows if not row["lease_token"]} == {0}
    operations = stage.service.rows("SELECT recording FROM operations")
    assert sorted(row["recording"] for row in operations) == sorted(jobs)
    files = stage.service.stored_files()
    recordings = stage.service.rows("SELECT id, audio, normalized FROM recordings")
    assert {row["normalized"] for row in recordings} <= {file.name for file in files}
    printed = worker.printed("pipeline")
    assert printed.count("pocketbase is away") == 1
    assert printed.count("pocketbase is back") == 1
    assert printed.count("ERROR") == 0
    assert "Traceback" not in printed


def submitted(stage: Scene, jobs: list[str]) -> int:
    rows = stage.service.rows("SELECT id FROM jobs WHERE state = 'submitted'")
    return len({row["id"] for row in rows} & set(jobs))
