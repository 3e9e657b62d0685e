"""Sounds without a word in them give no text, through the whole service."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.invented import sounds
from tests.acceptance import speech
from tests.acceptance.service import Service
from worker.engine import RATE, cut, model
from worker.engine.recognise import Recogniser
from worker.settings import Settings

SOUNDS = sounds()


@pytest.mark.parametrize("name", [name for name in SOUNDS if name != "syllables"])
def test_the_detector_hears_nobody(name: str) -> None:
    """So the model is never asked."""
    assert cut.units(cut.hear(SOUNDS[name]), len(SOUNDS[name])) == []


def test_what_the_detector_takes_for_speech_gives_no_sentence(tmp_path: Path) -> None:
    """Vowels four times a second, with a hiss before each."""
    settings = Settings(_env_file=None, telegram_enabled=False, data_dir=tmp_path)
    recogniser = Recogniser(model.install(settings), threads=2)
    sound = SOUNDS["syllables"]
    units = cut.units(cut.hear(sound), len(sound))
    assert units
    for language in ("ru", "en"):
        lines = [
            line
            for unit in recogniser.recognise([sound], units, language=language)
            for line in unit
        ]
        assert not [line["text"] for line in lines if line["text"]]
        assert {line["left_out"] for line in lines} <= {"no_speech", "loop", "too_dense", "credits"}


def test_music_before_and_after_speech_adds_nothing(whole: Service, tmp_path: Path) -> None:
    tune = (SOUNDS["melody"][: 8 * RATE] * 0.5).astype(np.int16)
    hold = SOUNDS["hold tone"][: 8 * RATE]
    parts = [hold, speech.said("ru"), tune]
    user = whole.user()
    job = user.upload(speech.write(tmp_path / "call.flac", np.concatenate(parts)), language="ru")
    text = user.wait(job)["transcription_text"].lower()
    assert text.startswith("сегодня хорошая погода")
    assert text.rstrip(" .!").endswith("парк")


def test_no_speech_is_said_to_the_sender(whole: Service, tmp_path: Path) -> None:
    user = whole.user()
    sound = np.concatenate([SOUNDS["noise"][: 5 * RATE], SOUNDS["chords"][: 5 * RATE]])
    job = user.upload(speech.write(tmp_path / "music.flac", sound), language="ru")
    status = user.wait(job)
    assert (status["transcription_text"], status["no_speech"]) == ("", True)
    [row] = whole.rows("SELECT segments FROM transcripts WHERE recording = ?", job)
    assert json.loads(row["segments"]) == []
