"""The nightly sweep, with more recordings than it holds the names of at once."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance.bench import Bench
from tests.acceptance.service import wait_until

MANY = 1_050
"""More than two looks' worth (`TOGETHER` in lib/sweep.js)."""


@pytest.fixture
def root(bench: Bench) -> Iterator[Path]:
    """Where recordings' folders lie, empty; none of them stays."""
    root = bench.file("x", "x").parents[1]
    shutil.rmtree(root)
    root.mkdir()
    try:
        yield root
    finally:
        shutil.rmtree(root)


def known(bench: Bench, *ids: str) -> None:
    """Recordings, by the database alone."""
    with bench.service.database() as database:
        database.executemany(
            """INSERT INTO recordings (id, source, audio, normalized)
               VALUES (?, 'http', 'a.wav', 'n.flac')""",
            [(each,) for each in ids],
        )
        database.commit()


def lay(folder: Path, *names: str, hours: float = 3) -> None:
    """A folder and files in it, of that age: the sweep takes what is older than two hours."""
    folder.mkdir(exist_ok=True)
    for path in (*(folder / name for name in names), folder):
        if path != folder:
            path.touch()
        os.utime(path, (time.time() - hours * 3600,) * 2)


def sweep(bench: Bench) -> None:
    assert bench.service.owner.post("/api/crons/transcriberSweep").status_code == 204


def test_a_recording_is_known_wherever_it_stands_among_many(bench: Bench, root: Path):
    """And what is not known goes, wherever it stands: the first and the last of each look, too."""
    folders = [root / f"{number:04}recordings0" for number in range(MANY)]
    orphans, young = set(folders[49::50]), set(folders[1::50])
    recordings = [each for each in folders if each not in orphans | young]
    known(bench, *(each.name for each in recordings))
    left, kept = set(orphans), {each / "left.wav" for each in young}
    for folder in folders[0::50]:
        lay(folder, "a.wav", "n.flac", "left.flac")
        left.add(folder / "left.flac")
        kept |= {folder / "a.wav", folder / "n.flac"}
    for folder in folders:
        lay(
            folder,
            *(["left.wav"] if folder in orphans | young else []),
            hours=1 if folder in young else 3,
        )
    sweep(bench)
    wait_until(lambda: not any(path.exists() for path in left), 20, "the end of what is left")
    assert [path for path in (*recordings, *kept) if not path.exists()] == []


def test_a_recording_that_is_deleted_meanwhile_does_not_end_the_sweep(bench: Bench, root: Path):
    """Its folder was listed when the sweep began, and is gone when its turn comes."""
    for number in range(500):
        (root / f"{number:04}young").mkdir()  # one look's worth before it
    job = "deletedmeanwhil"
    known(bench, job)
    lay(root / job, "a.wav")
    lay(root / "zleft", "left.wav")
    lay(root / "-held", "left.wav")
    hold = root / "-held" / "left.wav.attrs"  # read before the file is removed
    os.mkfifo(hold)
    lay(root / "-held")
    sweep(bench)

    def held() -> int | None:
        with suppress(OSError):  # nobody reads it yet
            return os.open(hold, os.O_WRONLY | os.O_NONBLOCK)
        return None

    pipe = wait_until(held, 20, "the sweep's beginning")
    assert pipe is not None
    try:
        path = f"/api/collections/recordings/records/{job}"
        assert bench.service.owner.delete(path).status_code == 204
        wait_until(lambda: not (root / job).exists(), 10, "the folder's end")
    finally:
        os.close(pipe)
    wait_until(lambda: not (root / "zleft").exists(), 10, "the sweep's end")


def test_what_cannot_be_removed_keeps_no_other_leftover(bench: Bench, root: Path):
    """Somebody's own folder in a recording's, and folders named as what every object has."""
    known(bench, "0recordingwith0")
    lay(root / "0recordingwith0")
    lay(root / "0recordingwith0" / "own", "notes.txt")
    lay(root / "0recordingwith0" / "own")
    for name in ("__proto__", "constructor", "zleft"):
        lay(root / name, "left.wav")
        lay(root / name)
    sweep(bench)
    wait_until(
        lambda: {each.name for each in root.iterdir()} == {"0recordingwith0"},
        20,
        "the end of what is left",
    )
    assert (root / "0recordingwith0" / "own" / "notes.txt").exists()

    def told() -> list[dict[str, str]]:
        lines = bench.service.logged()
        return [json.loads(x["data"]) for x in lines if x["message"] == "leftover not removed"]

    [line] = wait_until(told, 10, "a word about it")
    # Nothing of what the folder that is not ours, and the files in it, are called.
    assert line == {"job_id": "0recordingwith0", "reason": "directory not empty"}
