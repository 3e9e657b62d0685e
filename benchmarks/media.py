"""The odd recordings of the cases through a whole service: what became of each, and at what cost.

`python -m benchmarks.media` prints the table of docs/media.md. Each file goes up by the API, alone,
and is waited for. Where the corpus has a tone, the repo's own sample speaks instead, so that the
last column tells whether the sound arrived.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

from tests import media_corpus
from tests.acceptance import speech
from tests.acceptance.service import ALL, Service, User, wait_until
from tests.media_inside import attempted
from worker.errors import MediaError
from worker.jobs import Step
from worker.media import sandbox
from worker.media.normalise import normalise
from worker.media.pool import Pool
from worker.media.probe import probe

TIMES = 5
"""Probes of each file, of which the median counts."""
SILENT = {"hour.ogg"}
"""Made of one packet over and over, which is no speech whatever it says."""
SECONDS = f'transcriber_step_seconds_sum{{step="{Step.NORMALISE}"}}'
COUNT = f'transcriber_step_seconds_count{{step="{Step.NORMALISE}"}}'


@dataclass(frozen=True, slots=True)
class Measured:
    """A row of the table; times in seconds, memory in bytes."""

    name: str
    size: int
    probed: float
    step: float | None
    """Of the normalise step in the service: download, decoding, upload. None: it came to none."""
    memory: int
    """The peak of a process of its own that does what the service's last decoder did with it."""
    outcome: str


def spoken(seconds: float, rate: int, level: float = 0.25) -> np.ndarray:
    """The sample, in place of the corpus's tone, as loud."""
    said = speech.said("en").astype("f4")
    said *= level / 0.25 * 0.9 / np.abs(said).max()
    at = np.arange(int(seconds * rate)) * (speech.RATE / rate)
    return np.interp(at, np.arange(said.size), said).astype("f4")


def files() -> Iterator[tuple[str, bytes]]:
    """The corpus, and what is too large for it."""
    for row in media_corpus.CORPUS:
        if row.name in SILENT:
            yield row.name, row.make()
        else:
            with patch.object(media_corpus, "tone", spoken):
                yield row.name, row.make()
    begun = media_corpus.pcm(media_corpus.channels(spoken(3, 16000)))
    yield "unfilled-100-mb.wav", media_corpus.wav(begun, 16000, size=32000) + bytes(100 * 2**20)
    yield "ten-hours.m4a", media_corpus.long_recording(36_000)


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder), CHECK_SECONDS="1")
        pool = Pool(1, 20)
        try:
            service.start(*ALL)
            user = service.user()
            user.wait(user.upload(speech.write(Path(folder) / "warm.flac", speech.said("en"))))
            rows = []
            for name, data in files():
                print(name, file=sys.stderr)
                rows.append(measure(service, user, pool, name, data))
        finally:
            pool.close()
            service.close()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print("| file | size, KB | probe, ms | normalise step, ms | decoder, MB | what became of it |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        step = "" if row.step is None else f"{row.step * 1000:,.0f}"
        print(
            f"| `{row.name}` | {row.size / 1024:,.0f} | {row.probed * 1000:,.1f} | {step}"
            f" | {row.memory / 2**20:.0f} | {row.outcome} |"
        )


def measure(service: Service, user: User, pool: Pool, name: str, data: bytes) -> Measured:
    """Send one file up, wait for its end, and look at it from outside, too."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        probed = statistics.median(seconds_to_probe(pool, path) for _ in range(TIMES))
        before = service.metrics()
        with path.open("rb") as body:
            answer = user.post((name, body))
        if answer.status_code != 201:
            reason, memory = sandbox.run(attempted, probe, path, timeout=20)
            outcome = f"refused at the upload, {answer.status_code}: {reason}"
            return Measured(name, len(data), probed, None, memory, outcome)
        outcome = end(service, user, answer.json()["job_id"])
        wait_until(lambda: service.metrics()[COUNT] > before[COUNT], 20, "the step's time")
        step = service.metrics()[SECONDS] - before[SECONDS]
        _, memory = sandbox.run(
            attempted, normalise, path, Path(folder) / "out.flac", 12 * 3600.0, timeout=600
        )
    return Measured(name, len(data), probed, step, memory, outcome)


def seconds_to_probe(pool: Pool, path: Path) -> float:
    """As the metadata source does it, in a process that is warm."""
    started = time.monotonic()
    with suppress(MediaError):
        pool.call(probe, path)
    return time.monotonic() - started


def end(service: Service, user: User, job_id: str) -> str:
    """What became of an accepted recording."""
    status = user.wait(job_id, 1200)
    if "halted" in status:
        return f"failed: {service.job(job_id)['error_text']}"
    text = status["transcription_text"]
    return f"text: {text}" if text else "no speech"


if __name__ == "__main__":
    main()
