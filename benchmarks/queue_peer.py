"""The peer's side of the queue's benchmark. It runs with Procrastinate's Python, not the project's.

The same calls as on our side, one to claim and one to finish, below the loop, the logging and the
middleware of its worker: only the queues are compared.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import sys
import time
from collections.abc import Callable
from typing import Any

import procrastinate
import psycopg
from procrastinate.jobs import Status

from benchmarks.processes import crew, private, serve
from benchmarks.processor import spent as cpu_of


def app(dsn: str) -> procrastinate.App:
    """An app with one connection."""
    connector = procrastinate.PsycopgConnector(conninfo=dsn, min_size=1, max_size=1)
    return procrastinate.App(connector=connector)


def main(dsn: str) -> None:
    """Serve until nobody asks any more."""
    logging.disable()  # of no interest here, and work
    with psycopg.connect(dsn, autocommit=True) as database:

        def schema() -> None:
            connector = procrastinate.SyncPsycopgConnector(conninfo=dsn)
            with procrastinate.App(connector=connector).open() as opened:
                opened.schema_manager.apply_schema()

        def fill(waiting: int, finished: int) -> None:
            """Exactly so many jobs to do; more that are finished, up to so many."""
            database.execute("DELETE FROM procrastinate_jobs WHERE task_name = 'work'")
            [there] = database.execute("SELECT count(*) FROM procrastinate_jobs").fetchone() or (0,)
            database.execute("SET session_replication_role = replica")  # no history of theirs
            insert(database, "done", "succeeded", finished - there)
            database.execute("SET session_replication_role = origin")
            insert(database, "work", "todo", waiting)
            database.execute("VACUUM (ANALYZE) procrastinate_jobs")

        def work(workers: int, seconds: float, *, durable: bool = True) -> dict[str, float]:
            options = "" if durable else " options='-c synchronous_commit=off'"

            def member(gate: Callable[[], object], seconds: float) -> tuple[int, float]:
                return asyncio.run(claimer(dsn + options, gate, seconds))

            return crew(workers, seconds, member)

        def waits(times: int) -> list[float]:
            fill(0, 0)
            return hand_over(dsn, times)

        def idle(seconds: float) -> dict[str, float]:
            fill(0, 0)
            return idling(dsn, database, seconds)

        serve(schema=schema, fill=fill, work=work, hand_over=waits, idle=idle)


def insert(database: psycopg.Connection[Any], task: str, status: str, count: int) -> None:
    """So many jobs."""
    database.execute(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, priority, args, status)"
        " SELECT 'default', %s, 0, '{}', %s::procrastinate_job_status"
        " FROM generate_series(1, %s)",
        (task, status, count),
    )


async def claimer(dsn: str, gate: Callable[[], object], seconds: float) -> tuple[int, float]:
    """Claim and finish until the time is over."""
    opened = app(dsn)
    async with opened.open_async():
        manager = opened.job_manager
        worker = await manager.register_worker()
        gate()
        spent, end, done = time.process_time(), time.monotonic() + seconds, 0
        while time.monotonic() < end:
            job = await manager.fetch_job(None, worker)
            assert job
            await manager.finish_job(job, Status.SUCCEEDED, delete_job=False)
            done += 1
        return done, time.process_time() - spent


def hand_over(dsn: str, times: int) -> list[float]:
    """Seconds from deferring a job to its start in a worker that waits for one."""
    context = multiprocessing.get_context("fork")
    starts: Any = context.SimpleQueue()

    def wait_for_work() -> None:
        opened = app(dsn)
        opened.task(name="next")(lambda: starts.put(time.monotonic()))
        opened.run_worker(concurrency=1, install_signal_handlers=False)

    worker = context.Process(target=wait_for_work, daemon=True)
    worker.start()
    try:
        return asyncio.run(defer(dsn, times, starts.get))
    finally:
        worker.kill()
        worker.join()


def idling(dsn: str, database: psycopg.Connection[Any], seconds: float) -> dict[str, float]:
    """What a worker costs that has nothing to do: its CPU seconds, memory and transactions."""
    worker = multiprocessing.get_context("fork").Process(
        target=lambda: app(dsn).run_worker(install_signal_handlers=False), daemon=True
    )
    worker.start()
    try:
        assert worker.pid
        time.sleep(5)
        before, spent = transactions(database), cpu_of([worker.pid])
        time.sleep(seconds)
        return {
            "cpu": cpu_of([worker.pid]) - spent,
            "memory": private(worker.pid) >> 20,
            "transactions": transactions(database) - before,
        }
    finally:
        worker.kill()
        worker.join()


def transactions(database: psycopg.Connection[Any]) -> int:
    """How many there have been."""
    query = "SELECT sum(xact_commit)::int FROM pg_stat_database"
    [count] = database.execute(query).fetchone() or (0,)
    return int(count)


async def defer(dsn: str, times: int, started: Callable[[], float]) -> list[float]:
    """One job after the other; the first shows that the worker is there."""
    opened = app(dsn)
    opened.task(name="next")(lambda: None)
    waits = []
    async with opened.open_async():
        for _ in range(times + 1):
            before = time.monotonic()
            await opened.tasks["next"].defer_async()
            waits.append(started() - before)
            await asyncio.sleep(0.02)
    return waits[1:]


if __name__ == "__main__":
    main(sys.argv[1])
