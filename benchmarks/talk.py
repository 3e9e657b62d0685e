"""A ten-minute talk through the whole service, against the bare engine in the same run."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks import speech
from benchmarks.bare import Bare
from benchmarks.table import Row
from tests.acceptance.service import ALL, Service, User

TIMES = 3


def ask(user: User, job: str) -> str:
    """The text, asked for four times a second: asking is work, too, and not what is measured."""
    while "transcription_text" not in (status := user.status(job)):
        assert "halted" not in status
        time.sleep(0.25)
    return str(status["transcription_text"])


def rows() -> list[Row]:
    """The talk's part of the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = speech.make(Path(folder) / "talk.wav", 600)
        service = Service(Path(folder))
        try:
            service.start(*ALL)
            user = service.user()
            user.wait(user.upload(speech.make(Path(folder) / "warm.wav", 5)))
            bare = Bare(service.data)
            pairs = []
            for _ in range(TIMES):
                started = time.monotonic()
                text = ask(user, user.upload(path))
                took = time.monotonic() - started
                alone, same = bare.recognise(path)
                assert text == same
                pairs.append((took, alone))
            bare.close()
        finally:
            service.close()
    whole, engine = (statistics.median(each) for each in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    return [
        Row(
            "talk of 10 min: upload to text",
            f"{whole:.1f} s, {600 / whole:.1f} times real time",
            f"bare engine {engine:.1f} s ({ratio:.3f})",
            f"median of {TIMES} pairs, same text",
        )
    ]
