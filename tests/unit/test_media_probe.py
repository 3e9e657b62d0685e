"""What a file is, said in bounded time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.media_corpus import (
    channels,
    encode,
    m4a,
    mp3,
    noise,
    repeated,
    silent_video,
    tone,
    wav,
    webm_without_duration,
)
from worker.errors import UnreadableMedia
from worker.media import probe as module
from worker.media.probe import Probe, probe


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "секретное-слово.mp3"


def test_an_empty_file_is_readable_and_lasts_nothing(source: Path) -> None:
    source.write_bytes(b"")

    assert probe(source) == Probe(0.0, has_audio=False, format="")


@pytest.mark.parametrize("name", ["a.mp3", "a.txt", "a", "a.m3u8", "a.jpg", "%03d.png", "-", "fd:"])
def test_the_name_does_not_matter(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(m4a())

    seen = probe(tmp_path / name)

    assert seen.duration == pytest.approx(3, abs=0.1)
    assert seen.has_audio
    assert "m4a" in seen.format


def test_a_video_without_sound_is_readable(source: Path) -> None:
    source.write_bytes(silent_video())

    assert probe(source) == Probe(2.0, has_audio=False, format="mov,mp4,m4a,3gp,3g2,mj2")


@pytest.mark.parametrize(
    "data",
    [noise(60_000), b"text " * 1000, wav(b"", 16000), wav(b"", 16000)[:20], b"\0", mp3()[:100]],
    ids=["noise", "text", "header", "half a header", "a byte", "a tenth of a frame"],
)
def test_what_holds_no_sound_is_unreadable(data: bytes, source: Path) -> None:
    source.write_bytes(data)

    with pytest.raises(UnreadableMedia) as caught:
        probe(source)

    assert "секретное" not in str(caught.value)
    assert str(source.parent) not in str(caught.value)


def test_a_header_without_anything_behind_it_is_called_that(source: Path) -> None:
    source.write_bytes(wav(b"", 16000))

    with pytest.raises(UnreadableMedia, match="no samples behind the header"):
        probe(source)


def test_packets_that_do_not_decode_are_unreadable(source: Path) -> None:
    data = bytearray(m4a())
    start, end = data.index(b"mdat") + 4, data.index(b"moov") - 4
    data[start:end] = noise(end - start)
    source.write_bytes(data)

    with pytest.raises(UnreadableMedia, match="nothing in it can be decoded"):
        probe(source)


def test_a_damaged_beginning_is_still_a_recording(source: Path) -> None:
    source.write_bytes(noise(3000) + mp3(6)[3000:])

    assert probe(source).has_audio


@pytest.mark.parametrize(
    "data",
    [
        webm_without_duration(7),
        encode("adts", "aac", channels(tone(7, 44100)), 44100),
        # Loud after silence: a bit rate taken from the beginning would be far off.
        encode("adts", "aac", channels(tone(4, 44100, 0)), 44100)
        + encode("adts", "aac", channels(tone(3, 44100)), 44100),
    ],
    ids=["browser webm", "raw aac", "raw aac of two loudnesses"],
)
def test_a_length_that_nobody_wrote_down_is_counted(data: bytes, source: Path) -> None:
    source.write_bytes(data)

    assert probe(source).duration == pytest.approx(7, abs=0.15)


def test_counting_ends_and_the_rest_is_estimated(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.write_bytes(repeated("adts", "aac", 8000, 8 * 3600))
    times = []
    for seconds in (60.0, 0.0):
        monkeypatch.setattr(module, "SCAN_SECONDS", seconds)
        started = time.perf_counter()
        assert probe(source).duration == pytest.approx(8 * 3600, rel=0.05)
        times.append(time.perf_counter() - started)

    assert times[1] < times[0] / 3
