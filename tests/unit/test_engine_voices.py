"""The speaker model's file: found, tried, and asked about what is spoken in a segment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.acceptance import speech
from tests.unit import onnx_writer
from worker.engine import RATE, voices
from worker.engine.voices import KEY, Voices, unpack
from worker.errors import ConfigurationError, ModelMissing
from worker.settings import Settings


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "speakers.onnx"
    path.write_bytes(onnx_writer.speakers([0.0] * 80))
    return path


def _settings(name: str) -> Settings:
    return Settings(_env_file=None, telegram_enabled=False, speakers_model=name)


def test_it_is_off_unless_a_file_is_named(model: Path, tmp_path: Path) -> None:
    assert voices.find(_settings("")) is None
    assert voices.find(_settings(str(model))) == model
    for missing in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises(ConfigurationError, match=r"SPEAKERS_MODEL: no such file.*ONNX"):
            voices.find(_settings(str(missing)))


@pytest.mark.parametrize(
    "content",
    [b"", b"not a model", onnx_writer.model(), onnx_writer.speakers([0.0] * 80)[:-40]],
    ids=["empty", "something else", "of another kind", "cut short"],
)
def test_a_file_that_is_no_speaker_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelMissing, match=r"odd\.onnx.*SPEAKERS_MODEL.*\(batch, frames, 80\)"):
        Voices(path, 1)


def test_a_voice_is_of_its_clip_alone_and_of_length_one(model: Path) -> None:
    english, russian = speech.said("en"), speech.said("ru")
    one = Voices(model, 1)
    assert one.width == 80
    first = one.of(english)
    assert first
    assert one.of(russian) != first
    assert one.of(english) == Voices(model, 1).of(english) == first
    name, vector = unpack(first)
    assert len(name) == 8
    assert np.linalg.norm(vector) == pytest.approx(1, abs=0.01)


def test_silence_around_it_changes_little_and_too_little_speech_says_nothing(model: Path) -> None:
    english = speech.said("en")
    one = Voices(model, 1)
    inside = np.concatenate([speech.pause(3), english, speech.pause(3)])
    alike = float(np.dot(unpack(one.of(inside))[1], unpack(one.of(english))[1]))
    assert alike > 0.98
    assert one.of(speech.pause(5)) == ""
    assert one.of(english[: RATE // 2]) == ""
    assert one.of(english[:10]) == ""


def test_segments_are_marked_in_their_own_channel(model: Path) -> None:
    english, russian = speech.said("en"), speech.said("ru")
    length = min(len(english), len(russian))
    one = Voices(model, 1)
    end = length / RATE
    segments = [
        [{"start": 0.0, "end": end, "text": "привет"}],
        [{"start": 0.0, "end": end, "text": "", "left_out": "loop"}],
    ]
    one.mark([english, russian], [(0, length, 1), (0, length, 0)], segments)
    assert segments[0][0][KEY] == one.of(russian[:length])
    assert KEY not in segments[1][0]


def test_a_model_that_fails_on_a_clip_costs_no_text(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Voices(model, 1)

    class Broken:
        def run(self, *_: object) -> list[np.ndarray]:
            return [np.full((1, 80), np.nan, np.float32)]

    monkeypatch.setattr(one, "_session", Broken())
    assert one.of(speech.said("en")) == ""
    monkeypatch.setattr(one, "_session", None)
    assert one.of(speech.said("en")) == ""
