"""The queue: claim and finish of jobs that do nothing, and hand-over from step to step.

Against Procrastinate on a local PostgreSQL with its default settings, the same number of processes
on each side and turns taken in one run; and against bare SQLite in one process, which is the limit
that any queue in SQLite has.
"""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import options, postgres
from benchmarks.processes import Side
from benchmarks.processor import spent as cpu_of
from benchmarks.table import Row, ratio, spread
from tests.acceptance.service import Service
from worker.errors import NoWork
from worker.jobs import Advanced, Milestone
from worker.pocketbase.realtime import Wakeups

FINISHED = (0, 100_000, 1_000_000)
WORKERS = (1, 2, 4, 8, 16)
ROUNDS = 3
SECONDS = 1.5
"""Of each measurement."""
WAITING = 5_000
LEASE = 600.0
NOW = "strftime('%Y-%m-%d %H:%M:%fZ', 'now')"
Contestant = Callable[[int], tuple[float, float]]
"""From a number of workers to jobs a second and CPU seconds a job, the server's included."""


def rows() -> list[Row]:
    """The queue's part of the table."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        service = Service(Path(folder))
        stack.callback(service.close)
        service.start("pb")
        own = stack.enter_context(side(sys.executable, "benchmarks.queue_own", service.url))
        peer = stack.enter_context(peer_side())
        found = []
        for finished in FINISHED:
            found += level(service, own, peer, finished, Path(folder))
        found += [twenty(service, own, Path(folder)), waiting(service, own, peer)]
        return [*found, *handing_over(service, peer)]


@contextlib.contextmanager
def side(python: str, module: str, *arguments: str) -> Iterator[Side]:
    """A side, ended with the block."""
    opened = Side(python, module, *arguments)
    try:
        yield opened
    finally:
        opened.close()


@contextlib.contextmanager
def peer_side() -> Iterator[tuple[Side, int] | None]:
    """Procrastinate on PostgreSQL, and PostgreSQL's process id; None where there is none."""
    programs = postgres.programs()
    if programs is None:
        yield None
        return
    with (
        postgres.python(options.given().peers) as python,
        postgres.cluster(programs) as (dsn, pid),
        side(python, "benchmarks.queue_peer", dsn) as peer,
    ):
        peer.ask("schema")
        yield peer, pid


def ours(
    service: Service, own: Side, finished: int, waiting: int = WAITING, **named: bool
) -> Contestant:
    """Claimers of ours."""

    def run(workers: int) -> tuple[float, float]:
        fill(service, waiting, finished)
        return measure(own, service.processes["pb"].pid, workers, **named)

    return run


def theirs(
    peer: tuple[Side, int], finished: int, waiting: int = WAITING, **named: bool
) -> Contestant:
    """Claimers of the peer."""

    def run(workers: int) -> tuple[float, float]:
        peer[0].ask("fill", waiting=waiting, finished=finished)
        return measure(peer[0], peer[1], workers, **named)

    return run


def measure(at: Side, server: int, workers: int, **named: int) -> tuple[float, float]:
    """Jobs a second, and CPU seconds a job of claimers and server together."""
    before = cpu_of([server])
    answer = at.ask("work", workers=workers, seconds=SECONDS, **named)
    spent = cpu_of([server]) - before + answer["cpu"]
    return answer["done"] / SECONDS, spent / answer["done"]


def compete(
    contestants: dict[str, Contestant], workers: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Each one's turn in each round: speeds, and CPU seconds a job."""
    found: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for number in range(options.given().rounds or ROUNDS):
        for name in list(contestants)[:: 1 if number % 2 else -1]:
            speed, spent = contestants[name](workers)
            found[name][0].append(speed)
            found[name][1].append(spent)
    return found


def level(
    service: Service, own: Side, peer: tuple[Side, int] | None, finished: int, folder: Path
) -> list[Row]:
    """All numbers of workers, beside so many finished jobs."""
    contestants = {
        "ours": ours(service, own, finished),
        "apart": ours(service, own, finished, apart=True),
    }
    if peer:
        contestants["theirs"] = theirs(peer, finished)
        contestants["relaxed"] = theirs(peer, finished, durable=False)
    found = []
    for workers in WORKERS:
        part = {
            name: contestants[name]
            for name in contestants
            if name not in {"relaxed", "apart"} or workers == 4
        }
        results = compete(part, workers)
        speed, spent = results["ours"]
        notes = []
        if "apart" in results:
            apart, took = results["apart"]
            took_ms = statistics.median(took) * 1000
            notes.append(
                f"a claim and a finish by requests apart {spread(apart)}, {took_ms:.2f} ms"
            )
        if "relaxed" in results:
            relaxed = results["relaxed"][0]
            notes.append(
                f"with `synchronous_commit` off {spread(relaxed)}: {ratio(speed, relaxed)}"
            )
        if workers == 1:
            bare = bare_sqlite(folder / f"bare-{finished}.db", finished, 1)
            notes.append(f"bare SQLite, one process, no network: {bare:,.0f}")
        found.append(
            Row(
                f"queue: claim and finish, workers: {workers}, finished: {finished:,}",
                f"{spread(speed)} jobs/s, {statistics.median(spent) * 1000:.2f} ms CPU each",
                against(results) if peer else postgres.INSTALL,
                "; ".join(notes),
            )
        )
        print(found[-1], file=sys.stderr)
    return found


def against(results: dict[str, tuple[list[float], list[float]]]) -> str:
    """The peer's figure and the ratio of ours to it."""
    speed, spent = results["theirs"]
    return (
        f"Procrastinate {spread(speed)} jobs/s, {statistics.median(spent) * 1000:.2f} ms:"
        f" {ratio(results['ours'][0], speed)}"
    )


def twenty(service: Service, own: Side, folder: Path) -> Row:
    """Twenty at a time, which the peer cannot."""
    found = []
    for _ in range(options.given().rounds or ROUNDS):
        fill(service, 30_000, 0)
        found.append(measure(own, service.processes["pb"].pid, 4, batch=20))
    speeds, spent = zip(*found, strict=True)
    bare = bare_sqlite(folder / "bare-20.db", 0, 20)
    return Row(
        "queue: claim and finish by twenties, workers: 4",
        f"{spread(speeds)} jobs/s, {statistics.median(spent) * 1000:.2f} ms CPU each",
        f"bare SQLite the same way {bare:,.0f}",
    )


def waiting(service: Service, own: Side, peer: tuple[Side, int] | None) -> Row:
    """Ten times as many jobs that wait."""
    contestants = {
        "few": ours(service, own, 0),
        "many": ours(service, own, 0, 10 * WAITING),
    }
    if peer:
        contestants["their few"] = theirs(peer, 0)
        contestants["their many"] = theirs(peer, 0, 10 * WAITING)
    results = compete(contestants, 4)
    return Row(
        f"growth: {10 * WAITING:,} waiting jobs to {WAITING:,}, workers: 4",
        f"{ratio(results['many'][0], results['few'][0])} of the speed",
        f"Procrastinate {ratio(results['their many'][0], results['their few'][0])}" if peer else "",
    )


def fill(service: Service, waiting: int, finished: int) -> None:
    """Exactly so many jobs to do; more that are finished, up to so many."""
    with service.database() as database:
        database.execute("DELETE FROM jobs WHERE id >= 'u'")
        [there] = database.execute("SELECT count(*) FROM jobs").fetchone()
        for state, first, last in (("done", there, finished), ("uploaded", 0, waiting)):
            database.execute(
                f"""WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
                INSERT INTO jobs (id, recording, source, state, milestone, created, updated)
                SELECT printf('%s%014d', ?, i), printf('%s%014d', ?, i), 'http', ?, ?, {NOW}, {NOW}
                FROM n WHERE i < ?""",
                (first, last, state[0], state[0], state, state, last),
            )
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def bare_sqlite(path: Path, finished: int, batch: int) -> float:
    """Jobs a second that SQLite itself claims and finishes, in one process without a network."""
    jobs = 12_000
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("CREATE TABLE jobs (id TEXT PRIMARY KEY, state TEXT, token TEXT, at TEXT)")
    database.execute("CREATE INDEX by_state ON jobs (state, id)")
    for state, count in (("done", finished), ("uploaded", jobs)):
        database.execute("BEGIN")
        database.executemany(
            "INSERT INTO jobs VALUES (?, ?, '', '')",
            ((f"{state[0]}{n:014d}", state) for n in range(count)),
        )
        database.execute("COMMIT")
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
                "UPDATE jobs SET state = 'done', token = '' WHERE id = ? AND token = ?",
                (key, token),
            )
        database.execute("COMMIT")
        done += len(claimed)
    took = time.monotonic() - started
    database.close()
    path.unlink()
    return jobs / took


def handing_over(service: Service, peer: tuple[Side, int] | None, times: int = 100) -> list[Row]:
    """Ours, and the peer's: a job deferred, and its start in a worker that waits for one."""
    waits = hand_over(service, times)
    theirs = peer[0].ask("hand_over", times=times) if peer else []
    return [
        Row(
            "queue: from one step's write to the next one's claim",
            in_ms(waits),
            f"Procrastinate, from deferring a job to its start: {in_ms(theirs)}"
            if peer
            else postgres.INSTALL,
            f"of {times}; polling alone: 500 ms median",
        )
    ]


def in_ms(waits: list[float]) -> str:
    """Median, 90th percentile and longest."""
    middle, ninth = statistics.median(waits), statistics.quantiles(waits, n=10)[8]
    return f"{middle * 1e3:.1f} ms median, {ninth * 1e3:.1f} 90 %, {max(waits) * 1e3:.1f} longest"


def hand_over(service: Service, times: int) -> list[float]:
    """Seconds from the write that advances a job to the next step's claim."""
    fill(service, times, 0)
    first, second = service.queue("first"), service.queue("second")
    wakeups = Wakeups(service.client())
    wakeups.start()
    listener = wakeups.listen(Milestone.NORMALIZED)
    listener.wait(5)  # the connection's own wake-up
    claimed: list[float] = []
    news = threading.Semaphore(0)

    def follow() -> None:
        while len(claimed) < times:
            try:
                second.claim(Milestone.NORMALIZED, LEASE)
            except NoWork:
                listener.wait(10)
            else:
                claimed.append(time.monotonic())
                news.release()

    follower = threading.Thread(target=follow)
    follower.start()
    waits = []
    for number in range(times):
        [job] = first.claim(Milestone.UPLOADED, LEASE)
        started = time.monotonic()
        first.write(job, Advanced(Milestone.NORMALIZED))
        news.acquire()
        waits.append(claimed[number] - started)
        time.sleep(0.02)
    follower.join()
    wakeups.stop()
    return waits
