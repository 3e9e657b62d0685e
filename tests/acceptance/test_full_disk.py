"""Full disks: nothing is lost, no attempt is spent, and the owner is told once.

The disks are real, small ones, mounted where only this test sees them: it runs itself again in a
namespace of its own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.service import REPOSITORY, Service, User, sample, tone, wait_until

INSIDE = "TRANSCRIBER_TEST_FULL_DISK"
inside = pytest.mark.skipif(INSIDE not in os.environ, reason="runs within the test below")
SIZE = 32 * 2**20


def namespace() -> list[str] | None:
    """The command that begins a namespace in which one may mount."""
    for flags in ("-Urm", "-m"):
        command = ["unshare", flags]
        try:
            tried = [*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
            if subprocess.run(tried, capture_output=True, timeout=20, check=False).returncode == 0:
                return command
        except (OSError, subprocess.TimeoutExpired):
            pass
    return None


@pytest.mark.skipif(INSIDE in os.environ, reason="this is the inside")
def test_full_disks(tmp_path: Path) -> None:
    """All the tests below, where they may mount."""
    begin = namespace()
    if begin is None:
        pytest.skip(
            "FULL DISKS NOT TESTED: nothing may be mounted here, by root or by unshare -Urm"
        )
    result = subprocess.run(
        [*begin, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
         f"--basetemp={tmp_path / 'inside'}", __file__],
        env={**os.environ, INSIDE: "1", "PYTEST_ADDOPTS": ""},
        cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 passed" in result.stdout, result.stdout


class Disk:
    """A small file system of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"
        folder.mkdir(parents=True)
        options = f"size={SIZE}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)

    def fill(self, leave: int = 0) -> None:
        self.free()
        state = os.statvfs(self.folder)
        with self._filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, state.f_bavail * state.f_frsize - leave)

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)


class Full:
    """A service whose database and whose workers' scratch lie on small disks."""

    def __init__(self, folder: Path) -> None:
        self.service = Service(
            folder, MAX_ATTEMPTS="1", BACKOFF_SECONDS="0.1", POLL_SECONDS="0.1",
            CHECK_SECONDS="0.2", LOG_LEVEL="DEBUG",
        )  # fmt: skip
        self.database = Disk(self.service.data / "pocketbase")
        self.scratch = Disk(self.service.data / "run")
        self.service.start("pb", TMPDIR=str(self.database.folder))
        self.service.start("media", "pipeline", "engine")
        self.user: User = self.service.user()

    def lines(self, process: str, pattern: str) -> int:
        return len(re.findall(pattern, self.service.printed(process)))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Full]:
    full = Full(tmp_path_factory.mktemp("service"))
    try:
        first = full.user.upload(sample("hello_en.ogg"))
        assert "Friday" in full.user.wait(first)["transcription_text"]
        yield full
    finally:
        full.scratch.free()
        full.database.free()
        full.service.close()


@inside
def test_normalising_waits_for_room_at_no_attempts_cost(full: Full) -> None:
    full.scratch.fill()
    job = full.user.upload(sample("hello_en.ogg"))
    wait_until(lambda: full.lines("pipeline", "normalise retry") >= 3, 30, "tries")
    row = full.service.job(job)
    assert (row["state"], row["attempts"]) in {("uploaded", 0), ("uploaded", 1)}
    assert "No space left on device" in row["error_text"]
    assert full.lines("pipeline", r"WARNING .* this machine is short of something") == 1
    assert full.lines("pipeline", r"WARNING .* normalise retry") == 0
    full.scratch.free()
    assert "Friday" in full.user.wait(job)["transcription_text"]
    assert full.lines("pipeline", "this machine has what it needs again") == 1


@inside
def test_an_engine_waits_for_room_at_no_attempts_cost(full: Full) -> None:
    engine = full.service.processes["engine"]
    engine.send_signal(signal.SIGSTOP)
    try:
        job = full.user.upload(sample("hello_ru.ogg"))
        wait_until(lambda: full.service.job(job)["state"] == "submitted", 20, "the submission")
        full.scratch.fill()
    finally:
        engine.send_signal(signal.SIGCONT)
    wait_until(lambda: full.lines("engine", "operation given back") >= 3, 30, "tries")
    [row] = full.service.rows("SELECT attempts, state FROM operations WHERE recording = ?", job)
    assert row["state"] == "queued"
    assert row["attempts"] <= 1
    assert full.lines("engine", r"WARNING .* operation given back") == 1
    full.scratch.free()
    assert "парк" in full.user.wait(job)["transcription_text"]
    assert engine.poll() is None


@inside
@pytest.mark.parametrize("where", ["form", "store or database"])
def test_an_upload_that_finds_no_room_is_refused_and_leaves_nothing(
    full: Full, tmp_path: Path, where: str
) -> None:
    before = full.service.stored_files()
    recordings = full.service.rows("SELECT id FROM recordings")
    file = tone(tmp_path, seconds=60) if where == "form" else sample("hello_en.ogg")
    full.database.fill(0 if where == "form" else 60_000)
    refused = 0
    for _ in range(6):
        with file.open("rb") as body:
            answer = full.user.post(("secret-name.wav", body))
        if answer.status_code == 201:  # there was room for this one yet
            recordings = full.service.rows("SELECT id FROM recordings")
            before = full.service.stored_files()
            continue
        refused += 1
        assert answer.status_code == 507, answer.text
        assert set(answer.json()) == {"error_code", "message"}
        assert answer.json()["error_code"] == "no_space"
        assert full.service.stored_files() == before
        assert full.service.rows("SELECT id FROM recordings") == recordings
    assert refused
    assert not list(full.database.folder.glob("multipart-*"))
    full.database.free()
    job = full.user.upload(sample("hello_en.ogg"))
    assert "Friday" in full.user.wait(job)["transcription_text"]
    for each in recordings:  # what was taken before goes on, too
        assert full.user.wait(each["id"])["status"] == "done"
    assert "secret-name" not in full.service.printed()
    assert full.service.rows("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
    assert full.service.metrics()['transcriber_rejected_total{error_code="no_space",input="http"}']
