"""A ten-second message on an idle service: everything but recognition."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks import speech
from benchmarks.bare import Bare
from benchmarks.table import Row
from tests.acceptance.service import ALL, Service

TIMES = 11


def rows() -> list[Row]:
    """The message's part of the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = speech.make(Path(folder) / "message.wav", 10)
        service = Service(Path(folder))
        try:
            service.start(*ALL)
            user = service.user()
            user.wait(user.upload(path))  # loads everything
            bare = Bare(service.data)
            whole, engine = [], []
            for _ in range(TIMES):
                started = time.monotonic()
                user.wait(user.upload(path))
                whole.append(time.monotonic() - started)
                engine.append(bare.recognise(path)[0])
            bare.close()
        finally:
            service.close()
    rest = [a - b for a, b in zip(whole, engine, strict=True)]
    return [
        Row(
            "message of 10 s, idle service: upload to text",
            f"{statistics.median(whole):.2f} s median of {TIMES}",
            f"bare engine {statistics.median(engine):.2f} s",
            f"everything but recognition {statistics.median(rest) * 1000:.0f} ms median",
        )
    ]
