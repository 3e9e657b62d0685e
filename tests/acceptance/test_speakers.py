"""Who spoke when, through the whole service, with a real model file made for two voices."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_asr.preprocessors.numpy_preprocessor import KaldiPreprocessorNumpy

from tests.acceptance import speech
from tests.acceptance.service import ALL, Service, wait_until
from tests.unit import onnx_writer
from worker.engine.voices import KEY, _spoken

TURNS = ("en", "ru", "ru", "en", "ru", "en")
LABELS = {"en": "1", "ru": "2"}


def moves(name: str) -> np.ndarray:
    """How much each band moves in a sample's voice."""
    sound = _spoken(speech.said(name)).astype(np.float32)[None]
    features, _ = KaldiPreprocessorNumpy("wespeaker")(sound, np.array([sound.shape[1]]))
    return features[0].std(axis=0)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tells the samples' two voices apart, as one trained on many would tell any."""
    path = tmp_path_factory.mktemp("model") / "two-voices.onnx"
    path.write_bytes(onnx_writer.speakers(((moves("en") + moves("ru")) / 2).tolist()))
    return path


@pytest.fixture
def conversation(tmp_path: Path) -> Path:
    """The two in turns, near and far from the microphone, with some hiss."""
    parts = []
    for n, name in enumerate(TURNS):
        loud = (1.0, 0.5, 0.8)[n % 3]
        parts += [(speech.said(name) * loud).astype(np.int16), speech.pause(5)]
    sound = np.concatenate(parts)
    return speech.write(tmp_path / "talk.flac", sound + speech.noise(len(sound) / speech.RATE, 5))


def segments(service: Service, job: str) -> list[dict[str, Any]]:
    [row] = service.rows("SELECT segments FROM transcripts WHERE recording = ?", job)
    found: list[dict[str, Any]] = json.loads(row["segments"])
    assert KEY not in row["segments"]
    return found


def speaker_of(text: str) -> str:
    return LABELS["ru" if re.search("[а-я]", text) else "en"]


def test_each_voice_has_its_label_also_after_a_kill(
    own: Service, conversation: Path, model: Path
) -> None:
    own.env["SPEAKERS_MODEL"] = str(model)
    own.start(*ALL)
    user = own.user()
    job = user.upload(conversation)
    user.wait(job)
    undisturbed = segments(own, job)
    assert [each["speaker"] for each in undisturbed] == [
        speaker_of(each["text"]) for each in undisturbed
    ]
    assert {each["speaker"] for each in undisturbed} == {"1", "2"}
    assert len(undisturbed) >= len(TURNS)

    again = user.upload(conversation)
    written = (
        "SELECT s.segments FROM segments s JOIN operations o ON o.id = s.operation "
        "WHERE o.recording = ?"
    )
    wait_until(lambda: own.rows(written, again), 30, "the first slice")
    own.kill("engine")
    [kept] = own.rows("SELECT id, state FROM operations WHERE recording = ?", again)
    slices = own.rows(written, again)
    assert kept["state"] == "queued"
    assert 0 < len(slices) < len(TURNS)
    assert KEY in slices[0]["segments"]  # so that it need not be heard again
    own.start("engine")
    user.wait(again)
    assert segments(own, again) == undisturbed
    wait_until(lambda: not own.rows("SELECT * FROM segments"), 10, "the end of all voices kept")


def test_without_a_model_nobody_is_told_apart(whole: Service, tmp_path: Path) -> None:
    user = whole.user()
    job = user.upload(speech.write(tmp_path / "en.flac", speech.said("en")))
    user.wait(job)
    found = segments(whole, job)
    assert found
    assert not any("speaker" in each for each in found)


@pytest.mark.parametrize("content", [None, b"no model"], ids=["missing", "unusable"])
def test_an_engine_without_the_model_it_is_told_of_does_not_start(
    own: Service, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "speakers.onnx"
    if content is not None:
        path.write_bytes(content)
    own.start("pb")
    own.start("engine", SPEAKERS_MODEL=str(path))
    assert own.processes["engine"].wait(60) == 78
    assert "SPEAKERS_MODEL" in own.printed("engine")
