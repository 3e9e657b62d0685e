"""Every odd recording of the cases ends as sound or as a clear failure, in bounded time and memory.

Each goes the way that the service sends it: through the probe, and through a sandboxed normalise.
"""

from __future__ import annotations

import time
from pathlib import Path

import av
import numpy as np
import pytest

from tests.media_corpus import CORPUS, Row, long_recording
from tests.media_inside import measured
from worker.errors import UnreadableMedia
from worker.media import sandbox
from worker.media.normalise import Normalised, normalise
from worker.media.probe import probe

MEGABYTE = 2**20
SECONDS = 10
"""For a row of the corpus on a machine with other work; alone each takes less than 0.1 s, the hour
3 s."""
MEMORY = 120 * MEGABYTE
"""Resident, of the decoding process, libraries included: 50 to 75 MB here."""


def normalised(source: Path, destination: Path, timeout: float = SECONDS) -> tuple[Normalised, int]:
    result, memory = sandbox.run(
        measured, normalise, source, destination, 12 * 3600.0, timeout=timeout
    )
    assert isinstance(result, Normalised)
    return result, memory


def loudness(path: Path) -> float:
    """Root mean square of the first minute of a FLAC, of its form."""
    with av.open(str(path)) as container:
        context = container.streams.audio[0].codec_context
        assert (context.name, context.sample_rate, context.layout.name) == ("flac", 16000, "mono")
        parts, total = [], 0
        for frame in container.decode(audio=0):
            parts.append(frame.to_ndarray()[0])
            total += frame.samples
            if total > 60 * 16000:
                break
    return float(np.sqrt((np.concatenate(parts).astype("f4") ** 2).mean())) / 32768


@pytest.mark.parametrize("row", CORPUS, ids=[row.name for row in CORPUS])
def test_an_odd_recording(row: Row, tmp_path: Path) -> None:
    source, destination = tmp_path / row.name, tmp_path / "out.flac"
    source.write_bytes(row.make())
    expected = row.seconds if row.probed is None else row.probed

    started = time.monotonic()
    if row.refused:
        with pytest.raises(UnreadableMedia) as refusal:
            sandbox.run(probe, source, timeout=SECONDS)
        assert row.name not in str(refusal.value)
    else:
        seen = sandbox.run(probe, source, timeout=SECONDS)
        assert seen.duration == pytest.approx(expected, rel=0.1, abs=0.15)
        assert seen.has_audio == (row.error is None)
    assert time.monotonic() - started < 2

    if row.error is not None:
        with pytest.raises(row.error) as failure:
            normalised(source, destination)
        assert row.name not in str(failure.value)
        assert str(tmp_path) not in str(failure.value)
    else:
        result, memory = normalised(source, destination)
        assert result.duration == pytest.approx(row.seconds, rel=0.1, abs=0.15)
        assert loudness(destination) > 0.01
        assert memory < MEMORY
    left = {each.name for each in tmp_path.iterdir()}
    assert left == {row.name} | ({"out.flac"} if row.error is None else set())


def test_ten_hours_take_the_memory_of_a_minute(tmp_path: Path) -> None:
    peaks = {}
    for name, seconds in (("minute", 60.0), ("ten-hours", 36_000.0)):
        source, destination = tmp_path / name, tmp_path / "out.flac"
        source.write_bytes(long_recording(seconds))

        seen = sandbox.run(probe, source, timeout=SECONDS)
        result, peaks[name] = normalised(source, destination, timeout=120)

        assert seen.duration == pytest.approx(seconds, rel=0.01)
        assert result.duration == pytest.approx(seconds, rel=0.01)
    # The constant: an mp4 carries its whole index, 24 bytes for each of 281,250 packets and again
    # as much for its tables.
    assert peaks["ten-hours"] < 1.1 * peaks["minute"] + 16 * MEGABYTE
