"""A speaker in each channel, and other things that two channels can hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance import speech
from tests.acceptance.service import Service, User
from tests.acceptance.speech import Sound, noise, pause, said
from worker.engine import audio, channels
from worker.jobs import Recording
from worker.media.normalise import normalise
from worker.pipeline.steps import _apart
from worker.settings import Settings

SHARED = Path(__file__).parents[3] / "shared" / "samples"
RATE = speech.RATE


def even(*sounds: Sound) -> list[Sound]:
    """The same length for all."""
    length = max(map(len, sounds))
    return [np.concatenate([each, np.zeros(length - len(each), np.int16)]) for each in sounds]


def conversation() -> list[Sound]:
    """English on the left, Russian on the right, in turns and for a moment both."""
    english, russian = said("en"), said("ru")
    left = np.concatenate([english, pause(6), english])
    right = np.concatenate([pause(9), russian, pause(4), russian])
    return even(left, right)


Cut = Callable[..., list[channels.Unit]]


@pytest.fixture
def cut(tmp_path: Path) -> Cut:
    """The units of a recording after normalising and decoding, as the service does it."""

    def run(left: Sound, right: Sound) -> list[channels.Unit]:
        source = speech.write(tmp_path / "source.flac", left, right)
        normalise(source, tmp_path / "normal.flac", 3600, apart=True)
        for _ in audio.decode(tmp_path / "normal.flac", tmp_path / "pcm"):
            pass
        sound = audio.channels(tmp_path / "pcm")
        assert [len(each) for each in sound] == [len(left)] * 2
        units = channels.units(sound)
        while True:
            try:
                next(units)
            except StopIteration as end:
                return end.value

    return run


def test_each_speaker_is_cut_alone(cut: Cut) -> None:
    units = cut(*conversation())
    assert {unit[2] for unit in units} == {0, 1}
    assert units == sorted(units)
    spoken = [(start / RATE, end / RATE) for start, end, channel in units if channel == 1]
    assert spoken[0][0] == pytest.approx(9, abs=0.6)


@pytest.mark.parametrize(
    "other",
    [
        np.zeros_like,
        lambda voice: noise(len(voice) / RATE, 3)[: len(voice)],
        lambda voice: (voice * 0.03).astype(np.int16),  # what leaks from the other receiver
        lambda voice: voice,
        lambda voice: -voice,
        lambda voice: (voice * 0.5).astype(np.int16),
    ],
    ids=["silence", "hiss", "leak", "same", "opposite phase", "same but softer"],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_channel_without_a_voice_of_its_own_gives_nothing(
    cut: Cut, other: Callable[[Sound], Sound], swapped: bool
) -> None:
    voice = np.concatenate([said("en"), pause(2), said("ru")])
    pair = [voice, other(voice)]
    units = cut(*(reversed(pair) if swapped else pair))
    assert len({unit[2] for unit in units}) == 1
    heard = sum(end - start for start, end, _ in units)
    assert heard > 0.8 * len(voice)


def test_a_leak_does_not_hide_a_soft_voice(cut: Cut) -> None:
    """One who speaks softly, over the other's leak, is heard in the other's pauses."""
    left = np.concatenate([said("en"), pause(8)])
    right = np.concatenate([pause(10), (said("ru") * 0.4).astype(np.int16)])
    left, right = even(left, right)
    units = cut(left, right + (left * 0.08).astype(np.int16))
    assert [unit[2] for unit in units] == [0, 1]


def test_a_conversation_through_the_whole_service(whole: Service, tmp_path: Path) -> None:
    left, right = conversation()
    path = speech.write(tmp_path / "call.flac", left, right)
    user: User = whole.user()
    job = user.upload(path, channels="split")
    text = user.wait(job)["transcription_text"]
    [row] = whole.rows("SELECT segments FROM transcripts WHERE recording = ?", job)
    segments = json.loads(row["segments"])
    assert [s["start"] for s in segments] == sorted(s["start"] for s in segments)
    for channel, words, others in ((0, "before Friday", "парк"), (1, "гулять в парк", "Friday")):
        spoken = " ".join(s["text"] for s in segments if s["channel"] == channel)
        assert spoken.count(words) == 2
        assert others not in spoken
    assert re.search(r"Friday.*парк.*Friday.*парк", text)


def test_two_channels_are_mixed_unless_asked(whole: Service, tmp_path: Path) -> None:
    voice = said("en")
    user = whole.user()
    path = speech.write(tmp_path / "wide.flac", voice, -voice)  # opposite phase: no silence
    job = user.upload(path)
    assert "before Friday" in user.wait(job)["transcription_text"]
    [row] = whole.rows("SELECT segments FROM transcripts WHERE recording = ?", job)
    assert "channel" not in row["segments"]


def test_the_owners_setting_counts_where_the_sender_says_nothing() -> None:
    def apart(setting: str, hint: str) -> bool:
        settings = Settings(_env_file=None, telegram_enabled=False, channels=setting)
        return _apart(settings, Recording("", "", "", "", 1, "", "", "", hint))

    assert [apart("mix", ""), apart("mix", "split"), apart("mix", "mix")] == [False, True, False]
    assert [apart("split", ""), apart("split", "split"), apart("split", "mix")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("hint", ["stereo", "split mix", "2"])
def test_a_hint_that_means_nothing_is_refused(shelf: Service, user: User, hint: str) -> None:
    answer = user.post(("a.flac", b"x"), channels=hint)
    assert answer.status_code == 400
    assert "channels" in answer.json()["message"]


@pytest.mark.skipif(not SHARED.exists(), reason="needs the real recordings beside the repository")
def test_a_real_recording_with_two_speakers(whole: Service) -> None:
    user = whole.user()
    job = user.upload(SHARED / "fw_stereo.wav", channels="split", language="en")
    user.wait(job)
    [row] = whole.rows("SELECT segments FROM transcripts WHERE recording = ?", job)
    segments = json.loads(row["segments"])
    for channel, name in ((0, "left"), (1, "right")):
        spoken = " ".join(s["text"] for s in segments if s["channel"] == channel)
        wanted = words((SHARED / f"stereo_{name}.txt").read_text())
        heard = words(spoken)
        assert len(set(wanted) & set(heard)) >= 0.7 * len(set(wanted)), spoken


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def test_a_recording_that_changes_language_keeps_both(whole: Service, tmp_path: Path) -> None:
    parts = [said("en"), pause(5), said("ru"), pause(5), said("en")]
    user = whole.user()
    job = user.upload(speech.write(tmp_path / "both.flac", np.concatenate(parts)))
    text = user.wait(job)["transcription_text"]
    assert re.search(r"before Friday.*гулять в парк.*before Friday", text)
