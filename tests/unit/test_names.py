"""One live process a name, on this machine and data folder."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from worker import names
from worker.errors import AlreadyRunning, ConfigurationError
from worker.settings import Settings


def settings(folder: Path) -> Settings:
    return Settings(_env_file=None, telegram_enabled=False, data_dir=folder)


def keep(folder: Path, ready) -> None:
    with names.hold(settings(folder), "pipeline"):
        ready.set()
        signal.pause()


@pytest.fixture
def holder(tmp_path: Path):
    """Another process that holds the name."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=keep, args=(tmp_path, ready))
    process.start()
    assert ready.wait(20)
    yield process
    process.kill()
    process.join()
    process.close()


def test_a_second_live_process_is_refused(tmp_path: Path, holder):
    with pytest.raises(AlreadyRunning, match=r"pipeline@.*another live process"):
        names.hold(settings(tmp_path), "pipeline", patience=0.3).__enter__()
    with names.hold(settings(tmp_path), "engine", patience=0):
        pass


def test_a_killed_process_frees_its_name_and_one_on_its_way_out_is_waited_for(
    tmp_path: Path, holder
):
    started = time.monotonic()
    os.kill(holder.pid, signal.SIGKILL)
    with names.hold(settings(tmp_path), "pipeline", patience=10) as name:
        assert name.startswith("pipeline@")
    assert time.monotonic() - started < 5


def test_a_name_stays_with_its_machine_and_folder(tmp_path: Path):
    """What a lease is given back by: the same after a restart, another for another folder."""
    seen = []
    for folder in ("one", "one", "two"):
        with names.hold(settings(tmp_path / folder), "pipeline") as name:
            seen.append(name)
    assert seen[0] == seen[1]
    assert seen[0] != seen[2]


def test_a_folder_that_cannot_be_written_is_a_problem_of_the_settings(tmp_path: Path):
    (tmp_path / "data").write_text("a file")
    with pytest.raises(ConfigurationError) as caught:
        names.hold(settings(tmp_path / "data"), "pipeline").__enter__()
    assert [problem.key for problem in caught.value.problems] == ["DATA_DIR"]
    assert str(tmp_path) not in str(caught.value)


def test_what_fails_under_the_name_is_no_problem_of_the_settings(tmp_path: Path):
    """A full disk in the middle of the work must not end the whole service."""
    with pytest.raises(OSError, match="full"), names.hold(settings(tmp_path), "pipeline"):
        raise OSError(28, "disk is full")
    with names.hold(settings(tmp_path), "pipeline", patience=0):
        pass
