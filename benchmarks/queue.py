"""Claim and finish of jobs that do nothing: four Python claimers, one PocketBase.

Against bare SQLite in one process with the same two statements a job, which is the limit that any
queue in SQLite has.
"""

from __future__ import annotations

import multiprocessing
import sqlite3
import statistics
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.table import Row
from tests.acceptance.service import WORKER_PASSWORD, Service
from worker.errors import NoWork
from worker.jobs import Advanced, Failed, Milestone
from worker.pocketbase.client import Client
from worker.pocketbase.queue import Queue
from worker.pocketbase.realtime import Wakeups

CLAIMERS = 4
LEASE = 600.0
NOW = "strftime('%Y-%m-%d %H:%M:%fZ', 'now')"


def rows() -> list[Row]:
    """The queue's part of the table."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder))
        try:
            service.start("pb")
            speeds: dict[tuple[int, int], float] = {}
            for finished in (0, 100_000):
                for batch, jobs in ((1, 1_500), (20, 12_000)):
                    fill(service, jobs, finished)
                    speeds[batch, finished] = work_off(service, batch, jobs)
            for batch in (1, 20):
                bare = bare_sqlite(Path(folder) / f"bare-{batch}.db", 12_000, batch)
                empty, full = speeds[batch, 0], speeds[batch, 100_000]
                found.append(
                    Row(
                        f"queue: claim and finish, {batch} at a time",
                        f"{empty:,.0f} jobs/s",
                        f"bare SQLite in one process {bare:,.0f} ({empty / bare:.2f})",
                        f"with 100,000 finished jobs {full:,.0f} ({full / empty:.2f})",
                    )
                )
            median, longest = hand_over(service)
            found.append(
                Row(
                    "queue: hand-over from one step's write to the next one's claim",
                    f"{median * 1000:.1f} ms median, {longest * 1000:.1f} ms longest of 50",
                    "polling alone: 500 ms median",
                )
            )
        finally:
            service.close()
    return found


def fill(service: Service, jobs: int, finished: int) -> None:
    """Exactly so many jobs to do and so many done."""
    with service.database() as database:
        database.execute("DELETE FROM jobs")
        for state, count in (("uploaded", jobs), ("done", finished)):
            database.executemany(
                "INSERT INTO jobs (id, recording, state, milestone, created, updated)"
                f" VALUES (?, ?, ?, ?, {NOW}, {NOW})",
                ((f"{state[0]}{n:014d}", f"{state}{n}", state, state) for n in range(count)),
            )
        database.commit()


def work_off(service: Service, batch: int, jobs: int) -> float:
    """Jobs a second with all claimers at work."""
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(CLAIMERS + 1)
    claimers = [
        context.Process(target=claimer, args=(service.url, batch, gate)) for _ in range(CLAIMERS)
    ]
    for each in claimers:
        each.start()
    gate.wait()
    started = time.monotonic()
    for each in claimers:
        each.join()
    took = time.monotonic() - started
    [left] = service.rows("SELECT count(*) AS n FROM jobs WHERE state = 'uploaded'")
    assert left["n"] == 0, left
    return jobs / took


def claimer(url: str, batch: int, gate: threading.Barrier) -> None:
    """Claim and finish until there is nothing left."""
    with Client(url, lambda: WORKER_PASSWORD) as client:
        queue = Queue(client, f"bench-{multiprocessing.current_process().pid}")
        queue.give_back()  # logs in
        gate.wait()
        while True:
            try:
                jobs = queue.claim(Milestone.UPLOADED, LEASE, batch)
            except NoWork:
                return
            assert not queue.write_all((job, Failed("")) for job in jobs)


def bare_sqlite(path: Path, jobs: int, batch: int) -> float:
    """Jobs a second that SQLite itself claims and finishes, in one process without a network."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("CREATE TABLE jobs (id TEXT PRIMARY KEY, state TEXT, token TEXT, at TEXT)")
    database.execute("CREATE INDEX by_state ON jobs (state, id)")
    database.executemany(
        "INSERT INTO jobs VALUES (?, 'uploaded', '', '')", ((f"u{n:014d}",) for n in range(jobs))
    )
    started = time.monotonic()
    done = 0
    while done < jobs:
        claimed = database.execute(
            f"UPDATE jobs SET token = hex(randomblob(16)), at = {NOW} WHERE id IN ("
            "SELECT id FROM jobs WHERE state = 'uploaded' AND token = '' ORDER BY id LIMIT ?)"
            " RETURNING id, token",
            (batch,),
        ).fetchall()
        database.execute("BEGIN IMMEDIATE")
        for key, token in claimed:
            database.execute(
                "UPDATE jobs SET state = 'failed', token = '' WHERE id = ? AND token = ?",
                (key, token),
            )
        database.execute("COMMIT")
        done += len(claimed)
    took = time.monotonic() - started
    database.close()
    return jobs / took


def hand_over(service: Service, times: int = 50) -> tuple[float, float]:
    """Seconds from the write that advances a job to the next step's claim: median and longest."""
    fill(service, times, 0)
    first, second = service.queue("first"), service.queue("second")
    wakeups = Wakeups(service.client())
    wakeups.start()
    listener = wakeups.listen(Milestone.NORMALIZED)
    listener.wait(5)  # the connection's own wake-up
    claimed: list[float] = []

    def follow() -> None:
        while len(claimed) < times:
            try:
                second.claim(Milestone.NORMALIZED, LEASE)
            except NoWork:
                listener.wait(10)
            else:
                claimed.append(time.monotonic())

    follower = threading.Thread(target=follow)
    follower.start()
    waits = []
    for number in range(times):
        [job] = first.claim(Milestone.UPLOADED, LEASE)
        started = time.monotonic()
        first.write(job, Advanced(Milestone.NORMALIZED))
        while len(claimed) <= number:
            time.sleep(0.0005)
        waits.append(claimed[number] - started)
    follower.join()
    wakeups.stop()
    return statistics.median(waits), max(waits)
