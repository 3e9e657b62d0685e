"""The queue on a workbench: a real PocketBase, rows set as a scene, runners in this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import av
import numpy as np
from loguru import logger
from prometheus_client import CollectorRegistry

from tests.acceptance.service import Service
from worker.jobs import Job, Step, Transcript
from worker.metrics import Metrics
from worker.notify import Answers, Kind, Notifier
from worker.pipeline.runner import Runner
from worker.pipeline.steps import Context, StepFunction
from worker.pocketbase.client import Client
from worker.pocketbase.queue import Queue
from worker.pocketbase.realtime import Listener
from worker.recognisers.base import Finished, Recogniser, Verdict
from worker.settings import Settings

TEXT = Transcript("сказанное вслух", [{"start": 0, "end": 1, "text": "сказанное вслух"}], "ru", "x")


class Sender:
    """A way back to the senders that only remembers what it was to say."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Kind]] = []

    def deliver(self, job: Job, kind: Kind) -> None:
        self.told.append((job.id, kind))


class Scripted:
    """A recogniser that answers what the test says."""

    def __init__(self, verdict: Verdict | Callable[[], Verdict] | None = None) -> None:
        self.verdict = verdict or Finished(TEXT)
        self.submitted: list[str] = []
        self.cancelled: list[str] = []

    def submit(self, recording: Any, audio: Callable[[], Path]) -> str:
        self.submitted.append(recording.id)
        return f"operation-{len(self.submitted)}-{recording.id}"

    def check(self, operation: str) -> Verdict:
        return self.verdict() if callable(self.verdict) else self.verdict

    def cancel(self, operation: str) -> bool:
        self.cancelled.append(operation)
        return True


class Restless(Listener):
    """Looks again soon by itself, as if a lookout woke it."""

    def wait(self, timeout: float) -> None:
        super().wait(min(timeout, 0.05))


class Bench:
    """One queue, empty at first, and what a test needs to work on it."""

    def __init__(self, service: Service, client: Client, folder: Path) -> None:
        self.service = service
        self.client = client
        self.folder = folder
        self.metrics = Metrics(CollectorRegistry())
        self.undelivered: list[str] = []
        self.sender = Sender()
        self.stop = threading.Event()
        for table in ("jobs", "transcripts", "segments", "operations", "recordings"):
            service.execute(f"DELETE FROM {table}")

    def job(self, state: str = "uploaded", source: str = "http", **columns: Any) -> str:
        """A recording and its job, in the database directly."""
        job_id = os.urandom(8).hex()[:15]
        for name in ("a.wav", "n.flac"):
            self.file(job_id, name).write_bytes(b"sound")
        self.service.execute(
            """INSERT INTO recordings (id, source, audio, normalized, extension, size, duration,
                 created, updated)
               VALUES (?, ?, 'a.wav', 'n.flac', 'wav', 1, 10, strftime('%Y-%m-%d %H:%M:%fZ'),
                 strftime('%Y-%m-%d %H:%M:%fZ'))""",
            job_id,
            source,
        )
        self.service.execute(
            """INSERT INTO jobs (id, recording, source, state, milestone, created, updated)
               VALUES (?, ?, ?, ?, ?, strftime('%Y-%m-%d %H:%M:%fZ'),
                 strftime('%Y-%m-%d %H:%M:%fZ'))""",
            job_id,
            job_id,
            source,
            state,
            state,
        )
        if columns:
            self.set(job_id, **columns)
        return job_id

    def file(self, job_id: str, name: str) -> Path:
        """Where a recording's file lies."""
        [row] = self.service.rows("SELECT id FROM _collections WHERE name = 'recordings'")
        folder = self.service.data / "pocketbase" / "storage" / row["id"] / job_id
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def set(self, job_id: str, **columns: Any) -> None:
        """Set a job's columns; a value that begins with `strftime` is an expression."""
        for name, value in columns.items():
            raw = isinstance(value, str) and value.startswith("strftime(")
            self.service.execute(
                f"UPDATE jobs SET {name} = {value if raw else '?'} WHERE id = ?",
                *(() if raw else (value,)),
                job_id,
            )

    def hold(self, job_id: str) -> str:
        """Claim this very job; the claim's token."""
        token = os.urandom(16).hex()
        now = "strftime('%Y-%m-%d %H:%M:%fZ', 'now')"
        self.set(job_id, lease_token=token, leased_at=now, leased_by="test")
        return token

    def due(self, job_id: str) -> None:
        """Let the job's pause be over."""
        self.set(job_id, not_before="")

    def pause(self, job_id: str) -> float:
        """Seconds until the job may be claimed, by the database's clock."""
        [row] = self.service.rows(
            """SELECT (julianday(not_before) - julianday('now')) * 86400.0 AS pause
               FROM jobs WHERE id = ? AND not_before <> ''""",
            job_id,
        ) or [{"pause": 0.0}]
        return float(row["pause"])

    def row(self, job_id: str) -> dict[str, Any]:
        return self.service.job(job_id)

    def queue(self, worker: str = "test") -> Queue:
        return Queue(self.client, worker)

    def settings(self, **overrides: Any) -> Settings:
        values = {
            "telegram_enabled": False,
            "data_dir": self.folder,
            "check_seconds": 20.0,
            "backoff_seconds": 10.0,
            "max_attempts": 3,
        }
        return Settings(_env_file=None, **{**values, **overrides})

    def runner(
        self,
        step: Step,
        function: StepFunction | None = None,
        *,
        recogniser: Recogniser | None = None,
        queue: Queue | None = None,
        telegram: Notifier | None = None,
        batch: int = 1,
        config: Settings | None = None,
        **settings: Any,
    ) -> Runner:
        """A runner with a step of the test's own, or the real one."""
        context = Context(
            config or self.settings(**settings),
            queue or self.queue(f"{step}@bench"),
            recogniser or Scripted(),
            self.stop,
        )
        return Runner(
            step,
            context,
            Restless(threading.Event(), self.stop),
            Answers(telegram, self.undelivered.append),
            self.metrics,
            self.folder,
            batch,
            function,
        )

    def runs(self, step: Step) -> dict[str, float]:
        """What the counter of runs says of a step, without zeros."""
        [family] = self.metrics.runs.collect()
        return {
            sample.labels["outcome"]: sample.value
            for sample in family.samples
            if sample.name.endswith("_total") and sample.labels["step"] == step and sample.value
        }


class Lines:
    """What was logged, and at which level."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self._sink = logger.add(lambda message: self.records.append(message.record), level=0)

    def close(self) -> None:
        logger.remove(self._sink)

    def at(self, *levels: str) -> list[Any]:
        """The records of these levels."""
        return [record for record in self.records if record["level"].name in levels]

    @property
    def owners(self) -> list[Any]:
        """Those that the owner reads: everything above debugging."""
        return [record for record in self.records if record["level"].no >= logger.level("INFO").no]

    def text(self) -> str:
        """Everything, with the fields."""
        return "\n".join(f"{record['message']} {record['extra']}" for record in self.records)


def long_recording(folder: Path, hours: float) -> Path:
    """Hours of a hum in a few megabytes: decoding it takes a while."""
    path = folder / "long.mp3"
    with av.open(str(path), "w", format="mp3") as file:
        stream = file.add_stream("mp3", rate=16000, layout="mono", bit_rate=8000)
        hum = (np.sin(np.arange(16000 * 60) / 7) * 9000).astype("int16")
        frame = av.AudioFrame.from_ndarray(hum[None], "s16", "mono")
        frame.sample_rate = 16000
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            file.mux(packet)
    minute = path.read_bytes()
    path.write_bytes(minute * int(60 * hours))
    return path


def decoding(service: Service) -> bool:
    """Whether the service's pipeline is in the middle of decoding something."""
    with suppress(OSError):
        written = (service.data / "run" / "pipeline").glob("*/normalized*")
        return any(file.stat().st_size > 100_000 for file in written)
    return False
