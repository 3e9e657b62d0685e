"""Any recording becomes 16 kHz mono FLAC, with its sound where it was in time."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from tests.media_corpus import (
    TONE,
    channels,
    damaged,
    encode,
    m4a,
    mp3,
    noise,
    pcm,
    tone,
    wav,
)
from worker.errors import NoAudioTrack, TooLong, UnreadableMedia
from worker.media import normalise as module
from worker.media.normalise import Normalised, normalise


def heard(path: Path) -> np.ndarray:
    """The samples of a FLAC, float, after checking its form."""
    with av.open(str(path)) as container:
        context = container.streams.audio[0].codec_context
        assert container.format.name == "flac"
        assert (context.sample_rate, context.layout.name, context.format.name) == (
            16000, "mono", "s16",
        )  # fmt: skip
        parts = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
    return np.concatenate(parts).astype("f4") / 32768


def loudness(samples: np.ndarray, start: float, end: float) -> float:
    """Root mean square between two times in seconds."""
    part = samples[int(start * 16000) : int(end * 16000)]
    return float(np.sqrt((part**2).mean()))


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[Normalised, np.ndarray]]:
    def call(data: bytes, limit: float = 3600) -> tuple[Normalised, np.ndarray]:
        source, destination = tmp_path / "source", tmp_path / "out.flac"
        source.write_bytes(data)
        result = normalise(source, destination, limit)
        samples = heard(destination)
        assert result.duration == len(samples) / 16000
        assert sorted(each.name for each in tmp_path.iterdir()) == ["out.flac", "source"]
        return result, samples

    return call


def test_the_sound_is_the_same_sound(run) -> None:
    _, samples = run(mp3(3))

    spectrum = np.abs(np.fft.rfft(samples))
    assert np.argmax(spectrum) * 16000 / len(samples) == pytest.approx(TONE, abs=1)
    assert loudness(samples, 0.5, 2.5) == pytest.approx(0.25 / 2**0.5, rel=0.05)


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000, 96000, 192000])
def test_not_a_sample_is_lost(rate: int, run) -> None:
    result, _ = run(wav(pcm(channels(tone(2, rate))), rate))

    assert result.duration == pytest.approx(2, abs=2 / 16000)


@pytest.mark.parametrize(
    ("left", "right", "level"),
    [
        (1, -1, 1),  # opposite phase: the mix would be silence
        (1, 1, 1),
        (1, 0, 0.5),
        (0, 1, 0.5),
    ],
)
def test_no_pair_of_channels_becomes_silence(run, left: int, right: int, level: float) -> None:
    sound = tone(4, 44100)

    _, samples = run(wav(pcm(channels(left * sound, right * sound)), 44100, 2))

    assert loudness(samples, 0, 4) == pytest.approx(level * 0.25 / 2**0.5, rel=0.05)
    assert max(np.abs(np.diff(samples))) < 0.1  # no click where one group meets the next


def test_a_missing_stretch_becomes_silence(run) -> None:
    def outside(packet: av.Packet) -> bool:
        return not 1.0 <= float(packet.pts * packet.time_base) < 3.0

    result, samples = run(
        encode("matroska", "libopus", channels(tone(5, 48000)), 48000, keep=outside)
    )

    assert result.duration == pytest.approx(5, abs=0.05)
    assert loudness(samples, 0.1, 0.9) > 0.1
    assert loudness(samples, 1.2, 2.8) < 0.001
    assert loudness(samples, 3.2, 4.8) > 0.1


class Frame:
    """As much of a frame as the timeline looks at."""

    def __init__(self, time: float | None) -> None:
        self.time = time


def placed(*times: float | None, start: float | None = 0.0, length: float = 1.0) -> list[float]:
    """Where frames of `length` seconds with these timestamps end up."""
    timeline, result = module._Timeline(start), []
    for time in times:
        timeline.place(Frame(time))
        result.append(round(timeline.position, 3))
        timeline.position += length
    return result


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((0, 1, 2), [0, 1, 2]),
        ((0, 1.05, 2.09), [0, 1, 2]),  # jitter
        ((0, 1.06, 2.12, 3.18), [0, 1, 2.12, 3.12]),  # a slow loss adds up, and is mended
        ((0, 5, 6), [0, 5, 6]),  # a gap
        ((0.5, 1.5), [0.5, 1.5]),  # it starts late
        ((0, 1, 0, 1), [0, 1, 2, 3]),  # the clock starts again: nothing is dropped
        ((0, 1e6, 1e6 + 1), [0, 1, 2]),  # no recording has such a gap
        ((0, -1e9, 5), [0, 1, 2]),
        ((0, None, 2), [0, 1, 2]),
    ],
)
def test_the_timeline(times: tuple[float | None, ...], expected: list[float]) -> None:
    assert placed(*times) == expected


def test_a_timeline_without_a_start_begins_with_its_first_frame() -> None:
    assert placed(700, 701, start=None) == [0, 1]


def test_gaps_cannot_add_up_beyond_the_limit(tmp_path: Path) -> None:
    """A small file of many far apart packets is stopped, and fills no disk on the way."""

    def rare(packet: av.Packet) -> bool:
        packet.pts = packet.dts = packet.pts * 25_000  # every 20 ms become 500 s
        return True

    source = tmp_path / "source"
    source.write_bytes(encode("matroska", "libopus", channels(tone(2, 48000)), 48000, keep=rare))

    with pytest.raises(TooLong):
        normalise(source, tmp_path / "out.flac", 3600)

    assert [each.name for each in tmp_path.iterdir()] == ["source"]


def test_what_goes_on_after_the_limit_is_too_long_and_found_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").write_bytes(mp3(20))
    decoded = []
    write = module._Flac.write
    monkeypatch.setattr(
        module._Flac,
        "write",
        lambda self, frame: (decoded.append(frame.samples), write(self, frame)),
    )

    with pytest.raises(TooLong):
        normalise(tmp_path / "source", tmp_path / "out.flac", 2)

    assert sum(decoded) < 5 * 16000
    assert [each.name for each in tmp_path.iterdir()] == ["source"]


def test_exactly_the_limit_is_not_too_long(run) -> None:
    result, _ = run(wav(pcm(channels(tone(2, 16000))), 16000), limit=2)

    assert result.duration == 2


@pytest.mark.parametrize("data", [b"", wav(b"", 16000)], ids=["empty", "header only"])
def test_no_samples_are_no_audio(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(data)

    with pytest.raises(NoAudioTrack):
        normalise(tmp_path / "source", tmp_path / "out.flac", 60)

    assert [each.name for each in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize("rate", [8000, 22050, 48000, 96000])
def test_sound_too_short_for_the_resampler_is_no_audio_and_not_an_empty_file(
    rate: int, tmp_path: Path
) -> None:
    (tmp_path / "source").write_bytes(wav(pcm(channels(tone(1, rate)[:20])), rate))

    with pytest.raises(NoAudioTrack):
        normalise(tmp_path / "source", tmp_path / "out.flac", 60)

    assert [each.name for each in tmp_path.iterdir()] == ["source"]


def test_damage_is_passed_over_and_counted(run) -> None:
    sound, _ = run(mp3(6))
    result, samples = run(damaged(mp3(6)))

    assert sound.damaged == 0
    assert result.damaged > 0
    assert result.duration == pytest.approx(6, abs=0.3)
    assert loudness(samples, 5, 5.8) > 0.1  # the end is there


def test_a_recording_of_nothing_but_damage_is_unreadable(tmp_path: Path) -> None:
    data = bytearray(m4a())
    start = data.index(b"mdat") + 4
    end = data.index(b"moov") - 4
    data[start:end] = noise(end - start)
    (tmp_path / "source").write_bytes(data)

    with pytest.raises(UnreadableMedia, match="nothing in it can be decoded"):
        normalise(tmp_path / "source", tmp_path / "out.flac", 60)


def test_a_change_of_rate_and_channels_in_the_middle(run) -> None:
    """As where a station puts its advertisement in front of a programme."""
    mono = encode("mp3", "libmp3lame", channels(tone(2, 22050)), 22050)

    result, samples = run(mp3(2) + mono)

    assert result.duration == pytest.approx(4, abs=0.2)
    assert loudness(samples, 0.2, 1.8) > 0.1
    assert loudness(samples, 2.3, 3.7) > 0.1


def test_both_durations_are_told(run) -> None:
    result, _ = run(mp3(4)[: len(mp3(4)) // 2])

    assert result.declared == pytest.approx(4, abs=0.1)
    assert result.duration == pytest.approx(2, abs=0.1)


def test_sound_that_starts_late_in_a_video_starts_late(run) -> None:
    def later(packet: av.Packet) -> bool:
        packet.pts = packet.dts = packet.pts + 2 * packet.time_base.denominator
        return True

    result, samples = run(
        encode("matroska", "libopus", channels(tone(2, 48000)), 48000, video_first=True, keep=later)
    )

    assert result.duration == pytest.approx(4, abs=0.05)
    assert loudness(samples, 0, 1.9) < 0.001
    assert loudness(samples, 2.1, 3.9) > 0.1


def test_a_full_disk_is_no_verdict_on_the_recording(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(mp3(6))
    (tmp_path / "out.flac.part").symlink_to("/dev/full")

    with pytest.raises(OSError, match=r".*") as caught:
        normalise(tmp_path / "source", tmp_path / "out.flac", 60)

    assert caught.value.errno == errno.ENOSPC
    assert [each.name for each in tmp_path.iterdir()] == ["source"]


def test_float_samples_without_bounds_are_cut_and_not_fatal(run) -> None:
    sound = channels(tone(1, 16000), tone(1, 16000))
    sound[:, 100] = np.inf
    sound[:, 200] = np.nan
    sound[:, 300] = 1e38

    result, _ = run(encode("wav", "pcm_f32le", sound, 16000, "stereo"))

    assert result.duration == 1
