"""What ten times as many recordings cost where people and the service look through them.

The queue's own growth, with finished and with waiting jobs, is in `queue`, that of a file in
`intake`, that of recognition in `growth`.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from benchmarks.table import Row, ratio, spread
from tests.acceptance.service import Service, User, wait_until

FEW, MANY = 5_000, 50_000
ROUNDS = 3
NOW = "strftime('%Y-%m-%d %H:%M:%fZ', 'now')"
OLD = 30 * 86400
"""Seconds: older than any leftover that is kept."""


def rows() -> list[Row]:
    """Each figure with few recordings, and its growth with ten times as many."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder))
        try:
            service.start("pb")
            user = service.user()
            service.client().request("GET", "/api/queue/stats")
            looks = {
                "status of a recording": (lambda: status(user), 50),
                "a sender's own list, first page": (lambda: listing(user.http), 10),
                "the panel's list of recordings, first page": (lambda: listing(owner), 10),
                "the panel's list of jobs, first page": (lambda: listing(owner, "jobs"), 10),
                "numbers for the metrics page": (numbers(service), 10),
                "the nightly sweep": (lambda: sweep(service, owner), 1),
            }
            took: dict[tuple[str, int], list[float]] = {}
            owner = service.owner
            for count in (FEW, MANY):
                fill(service, user.id, count)
                for name, (look, times) in looks.items():
                    look()
                    took[name, count] = [timed(look, times) for _ in range(ROUNDS)]
        finally:
            service.close()
    return [
        Row(
            f"growth: {name}, {MANY:,} recordings to {FEW:,}",
            f"{ratio(sorted(took[name, MANY]), sorted(took[name, FEW]), '.1f')} times as long",
            "ten times as many",
            f"{spread([each * 1000 for each in took[name, FEW]], '.1f')} ms, then"
            f" {statistics.median(took[name, MANY]) * 1000:.1f} ms",
        )
        for name in looks
    ]


def timed(look: Callable[[], object], times: int) -> float:
    """Seconds that one look takes."""
    started = time.monotonic()
    for _ in range(times):
        look()
    return (time.monotonic() - started) / times


def fill(service: Service, owner: str, count: int) -> None:
    """So many recordings with their jobs, texts and files, all done."""
    with service.database() as database:
        [there] = database.execute("SELECT count(*) FROM recordings").fetchone()
        numbers = f"""WITH RECURSIVE n(i) AS (SELECT {there} UNION ALL
            SELECT i + 1 FROM n WHERE i + 1 < {count}), k AS (SELECT printf('r%014d', i) AS id,
            strftime('%Y-%m-%d %H:%M:%fZ', 'now', -i || ' minutes') AS at FROM n)"""
        for table, columns, values in (
            (
                "recordings",
                "id, source, owner, audio, normalized, extension, size, duration, created, updated",
                f"id, 'http', '{owner}', 'a.wav', 'n.flac', 'wav', 1, 10, at, at",
            ),
            (
                "jobs",
                "id, recording, state, milestone, created, updated",
                "id, id, 'done', 'done', at, at",
            ),
            (
                "transcripts",
                "recording, kind, text, segments, language, engine, created, updated",
                "id, 'raw', 'сказанное вслух', '[]', 'ru', 'x', at, at",
            ),
        ):
            database.execute(f"{numbers} INSERT INTO {table} ({columns}) SELECT {values} FROM k")
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    root = storage(service)
    for number in range(there, count):
        folder = root / f"r{number:014d}"
        folder.mkdir(parents=True)
        for name in ("a.wav", "n.flac"):
            (folder / name).touch()


def storage(service: Service) -> Path:
    """Where recordings' files lie."""
    [row] = service.rows("SELECT id FROM _collections WHERE name = 'recordings'")
    return service.data / "pocketbase" / "storage" / str(row["id"])


def status(user: User) -> None:
    """What a sender's program asks for again and again."""
    user.status(f"r{FEW // 2:014d}")


def listing(http: httpx.Client, collection: str = "recordings") -> None:
    """The newest forty, and how many there are in all: what the panel asks for at first."""
    answer = http.get(
        f"/api/collections/{collection}/records",
        params={"page": 1, "perPage": 40, "sort": "-@rowid"},
    )
    assert answer.is_success, answer.text
    assert len(answer.json()["items"]) == 40


def numbers(service: Service) -> Callable[[], object]:
    """What the metrics page asks PocketBase for."""
    client = service.client()
    return lambda: client.request("GET", "/api/queue/stats")


def sweep(service: Service, owner: httpx.Client) -> None:
    """Until it has removed the one leftover there is, which comes last."""
    leftover = storage(service) / "zzzzzzzzzzzzzzz"
    leftover.mkdir()
    (leftover / "left.wav").touch()
    old = time.time() - OLD
    os.utime(leftover / "left.wav", (old, old))
    os.utime(leftover, (old, old))
    assert owner.post("/api/crons/transcriberSweep").is_success
    wait_until(lambda: not leftover.exists(), 120, "the sweep")
