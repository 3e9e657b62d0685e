"""What was accepted is on the disk: a power cut after the answer takes nothing back."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.acceptance.service import REPOSITORY, Service, tone

WATCH = """
import json, os, sqlite3, time

fsync, target, data = os.fsync, os.environ["WATCH_FSYNC"], os.environ["DATA_DIR"]


def watched(descriptor):
    name = os.readlink(f"/proc/self/fd/{descriptor}")
    fsync(descriptor)
    with sqlite3.connect(f"file:{data}/pocketbase/data.db?mode=ro", uri=True) as database:
        (jobs,) = database.execute("SELECT count(*) FROM jobs").fetchone()
    with open(target, "a") as log:
        log.write(json.dumps([name, jobs]) + chr(10))


os.fsync = watched
"""

FAIL = """
import os


def fail(descriptor):
    raise OSError(5, "input/output error")


os.fsync = fail
"""


def test_what_is_accepted_was_written_through_before_the_answer(
    own: Service, tmp_path: Path
) -> None:
    """The database's log last written to by the recording's own transaction, and its file."""
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(WATCH)
    log = tmp_path / "fsync.log"
    own.start("pb")
    own.start(
        "media",
        WATCH_FSYNC=str(log),
        PYTHONPATH=os.pathsep.join([str(tmp_path / "watch"), str(REPOSITORY)]),
    )
    user = own.user()
    user.upload(tone(tmp_path))
    written = [json.loads(line) for line in log.read_text().splitlines()]
    [stored] = own.stored_files()
    paths = {Path(name) for name, jobs in written if jobs == 1}
    assert {stored, stored.parent, own.data / "pocketbase" / "data.db-wal"} <= paths


def test_a_disk_that_does_not_confirm_is_told_of_and_nobody_is_turned_away(
    own: Service, tmp_path: Path
) -> None:
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(FAIL)
    own.start("pb")
    own.start("media", PYTHONPATH=os.pathsep.join([str(tmp_path / "watch"), str(REPOSITORY)]))
    user = own.user()
    job_id = user.upload(tone(tmp_path))
    assert user.status(job_id)["status"] == "uploaded"
    lines = [line for line in own.logged() if "not yet written through" in line["message"]]
    assert [json.loads(line["data"])["job_id"] for line in lines] == [job_id]
