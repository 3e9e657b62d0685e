"""The whole service, and SIGKILL: every accepted recording ends, and no process is orphaned."""

from __future__ import annotations

import os
import threading
import wave
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest

from tests.acceptance.bench import decoding, long_recording
from tests.acceptance.service import ALL, Service, User, sample, tone, wait_until

RATE = 16000


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(
        tmp_path_factory.mktemp("kills"),
        POLL_SECONDS="0.2",
        CHECK_SECONDS="0.5",
        BACKOFF_SECONDS="0.2",
    )
    try:
        service.start(*ALL)
        yield service
    finally:
        service.close()


@pytest.fixture
def service(stage: Service) -> Iterator[Service]:
    """All of it running before the test and after it, and no stranger among its processes."""
    assert strangers(stage) == []
    yield stage
    for name in ALL:
        if name not in stage.processes:
            stage.start(name)
    for name, process in stage.processes.items():
        assert process.poll() is None, f"{name} ended by itself"
    wait_until(lambda: strangers(stage) == [], 10, "the end of every orphan")


@pytest.fixture
def sender(service: Service) -> User:
    return service.user()


def processes(service: Service) -> dict[int, tuple[int, str]]:
    """The live processes that work on this data folder: (parent, command) by id."""
    mark = f"DATA_DIR={service.data}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with suppress(OSError, IndexError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z":
                    command = (entry / "cmdline").read_text().replace("\0", " ")
                    found[int(entry.name)] = int(parent), command
    return found


def descends(pid: int, ancestors: set[int], alive: dict[int, tuple[int, str]]) -> bool:
    while pid not in ancestors and pid in alive:
        pid = alive[pid][0]
    return pid in ancestors


def strangers(service: Service) -> list[str]:
    """Those of them that no process of the test's has for an ancestor: orphans."""
    alive = processes(service)
    started = {process.pid for process in service.processes.values()}
    return [command for pid, (_, command) in alive.items() if not descends(pid, started, alive)]


def children(service: Service, name: str) -> int:
    """How many processes this one has below it."""
    alive = processes(service)
    return sum(descends(pid, {service.processes[name].pid}, alive) for pid in alive) - 1


def effort(service: Service, name: str) -> float:
    """Seconds of processor time that this one's children have had."""
    alive = processes(service)
    total = 0
    for pid in alive:
        if alive[pid][0] == service.processes[name].pid:
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def kill(service: Service, name: str) -> None:
    """SIGKILL it, and see that its children go with it."""
    assert children(service, name) > 0 or name == "pb"
    service.kill(name)
    # At once: a decoder left alone would come to its end by itself within seconds.
    wait_until(lambda: strangers(service) == [], 3, f"the end of {name}'s children")


def speech(folder: Path) -> Path:
    """Twelve sentences far apart: each is a slice of its own."""
    said = [samples(sample("hello_en.ogg")), samples(sample("hello_ru.ogg"))]
    gap = np.zeros(RATE * 25, dtype=np.int16)
    path = folder / "sentences.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        for n in range(12):
            file.writeframes(said[n % 2].tobytes() + gap.tobytes())
    return path


def samples(path: Path) -> np.ndarray:
    resampler = av.AudioResampler("s16", "mono", RATE)
    with av.open(str(path)) as file:
        frames = [each for frame in file.decode(audio=0) for each in resampler.resample(frame)]
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])


def written(service: Service, job: str) -> int:
    """Slices of a recording that are recognised and stored."""
    [row] = service.rows(
        """SELECT count(*) AS n FROM segments
           WHERE operation IN (SELECT id FROM operations WHERE recording = ?)""",
        job,
    )
    return int(row["n"])


def transcript(service: Service, job: str) -> dict[str, Any]:
    [row] = service.rows(
        "SELECT text, segments, language FROM transcripts WHERE recording = ?", job
    )
    return row


def recognised(service: Service) -> float:
    """Seconds of audio recognised and stored so far."""
    name = "transcriber_recognised_audio_seconds_total"
    return sum(value for series, value in service.metrics().items() if series.startswith(name))


def test_an_engine_killed_between_slices_and_within_one_gives_the_same_text(
    service: Service, sender: User, tmp_path: Path
):
    path = speech(tmp_path)
    undisturbed = sender.upload(path, language="en")
    assert sender.wait(undisturbed, 120)["status"] == "done"
    once = recognised(service)
    expected = transcript(service, undisturbed)
    assert expected["text"].lower().count("good morning") == 6

    job = sender.upload(path, language="en")
    wait_until(lambda: written(service, job) >= 1, 60, "the first slice")
    kill(service, "engine")  # just after a slice was stored
    kept = written(service, job)
    assert 1 <= kept < 12
    assert service.job(job)["state"] == "submitted"

    service.start("engine")
    wait_until(lambda: written(service, job) > kept, 60, "another slice")
    before = written(service, job)
    spent = effort(service, "engine")
    wait_until(lambda: effort(service, "engine") > spent + 0.3, 30, "work on the next slice")
    kill(service, "engine")
    assert written(service, job) == before < 12, "killed in the middle of a slice"

    service.start("engine")
    assert sender.wait(job, 120)["status"] == "done"
    assert transcript(service, job) == expected
    assert recognised(service) <= 2 * once + 0.1, "no slice that was stored is recognised again"
    assert service.job(job)["error_text"] == ""
    assert written(service, job) == 0, "nothing is left of the operation"


def test_a_pipeline_killed_in_the_middle_of_decoding_starts_over(
    service: Service, sender: User, tmp_path: Path
):
    service.stop("engine")  # hours of a hum are nothing for it
    job = sender.upload(long_recording(tmp_path, hours=3))
    for attempt in (1, 2):
        wait_until(lambda n=attempt: service.job(job)["attempts"] == n, what="the claim")
        wait_until(lambda: decoding(service), 30, "decoding")
        kill(service, "pipeline")
        assert service.job(job)["state"] == "uploaded", "retryable"
        service.start("pipeline")
    wait_until(lambda: service.job(job)["state"] == "submitted", 60)
    [recording] = service.rows("SELECT * FROM recordings WHERE id = ?", job)
    assert recording["duration"] == pytest.approx(3 * 3600, rel=0.01)
    stored = {file.name for file in service.stored_files() if file.parent.name == job}
    assert stored == {recording["audio"], recording["normalized"]}
    scratch = service.data / "run" / "pipeline"
    wait_until(lambda: not any(scratch.iterdir()), what="no scratch files")
    service.owner.delete(f"/api/collections/recordings/records/{job}")


def test_a_metadata_source_that_is_killed_costs_refusals_and_no_recording(
    service: Service, sender: User, tmp_path: Path
):
    before = len(service.stored_files())
    rows = len(service.rows("SELECT id FROM recordings"))
    kill(service, "media")
    with tone(tmp_path).open("rb") as body:
        answer = sender.post(("tone.wav", body))
    assert answer.status_code == 500
    assert answer.json()["error_code"] == "internal"
    assert len(service.stored_files()) == before
    assert len(service.rows("SELECT id FROM recordings")) == rows
    service.start("media")
    assert sender.wait(sender.upload(sample("hello_ru.ogg")))["status"] == "done"


class Uploads:
    """Uploads one after the other from a thread of its own, and notes what was accepted."""

    def __init__(self, sender: User) -> None:
        self.accepted: list[str] = []
        self.refused = 0
        self._sender = sender
        self._content = sample("hello_ru.ogg").read_bytes()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Uploads:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                answer = self._sender.post(("hello.ogg", self._content))
                answer.raise_for_status()
                self.accepted.append(answer.json()["job_id"])
            except httpx.HTTPError:
                self.refused += 1
            self._stop.wait(0.1)


def test_pocketbase_killed_under_load_loses_nothing_that_it_accepted(
    service: Service, sender: User
):
    """While recordings come in, are decoded, recognised and finished."""
    with Uploads(sender) as uploads:
        for _ in range(2):
            goal = len(uploads.accepted) + 4
            wait_until(lambda goal=goal: len(uploads.accepted) >= goal, 30, "uploads")
            refused = uploads.refused
            kill(service, "pb")
            wait_until(lambda refused=refused: uploads.refused > refused + 1, 30)
            service.start("pb")
        goal = len(uploads.accepted) + 1
        wait_until(lambda: len(uploads.accepted) >= goal, 30)
    everything_ended(service, sender, uploads.accepted)


def test_everything_killed_at_once_goes_on_where_it_was(service: Service, sender: User):
    """As when the power fails and the machine comes up again."""
    with Uploads(sender) as uploads:
        wait_until(lambda: len(uploads.accepted) >= 6, 30, "uploads")
        for name in ("engine", "pipeline", "pb", "media"):
            service.kill(name)
    wait_until(lambda: strangers(service) == [], 10)
    for name in ("engine", "pipeline", "media", "pb"):  # in no helpful order
        service.start(name)
    everything_ended(service, sender, uploads.accepted)


def everything_ended(service: Service, sender: User, accepted: list[str]) -> None:
    assert len(set(accepted)) == len(accepted)
    for job in accepted:
        assert sender.wait(job, 120)["status"] == "done"
        assert "погода" in sender.status(job)["transcription_text"]
        assert len(service.rows("SELECT id FROM transcripts WHERE recording = ?", job)) == 1
    # What was stored and never answered for is a recording like others, or is none at all.
    rows = service.rows("SELECT j.state FROM recordings r LEFT JOIN jobs j ON j.id = r.id")
    assert {row["state"] for row in rows} <= {"done", "uploaded", "normalized", "submitted",
                                              "transcribed"}  # fmt: skip
    wait_until(
        lambda: not service.rows("SELECT id FROM jobs WHERE state <> 'done'"), 60, "all others"
    )
    assert service.rows("SELECT id FROM jobs WHERE lease_token <> ''") == []
    assert service.rows("SELECT id FROM operations") == []
    for name in ("pipeline", "engine"):
        assert "Traceback" not in service.printed(name)
