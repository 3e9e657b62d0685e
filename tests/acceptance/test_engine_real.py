"""The shipped model on real speech: a few seconds, recognised word for word."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest

from worker.engine import RATE, audio, cut, model, second_look
from worker.engine.recognise import Recogniser
from worker.settings import Settings

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    return model.install(Settings(_env_file=None, telegram_enabled=False, data_dir=folder))


@pytest.fixture(scope="module")
def recogniser(weights: Path) -> Recogniser:
    return Recogniser(weights, threads=2)


def _load(name: str, tmp_path: Path) -> audio.Samples:
    target = tmp_path / f"{name}.pcm"
    for _ in audio.decode(SAMPLES / f"{name}.ogg", target):
        pass
    return audio.samples(target)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower().replace("ё", "е"))


def _units(samples: audio.Samples) -> list[cut.Span]:
    return cut.units(cut.hear(samples), len(samples))


@pytest.mark.parametrize("language", ["en", "ru"])
def test_every_word_in_its_language(recogniser: Recogniser, tmp_path: Path, language: str) -> None:
    samples = _load(f"hello_{language}", tmp_path)
    units = _units(samples)
    assert recogniser.language([samples], units) == language
    segments = [
        segment
        for unit in recogniser.recognise([samples], units, language=language)
        for segment in unit
    ]
    said = (SAMPLES / f"hello_{language}.txt").read_text()
    assert _words(" ".join(segment["text"] for segment in segments)) == _words(said)
    assert all(0 <= s["start"] < s["end"] <= len(samples) / RATE for s in segments)


def test_a_language_that_changes_after_a_short_pause_is_not_lost(
    recogniser: Recogniser, tmp_path: Path
) -> None:
    """The model stretches the Russian line over the English before it."""
    english, russian = (_load(f"hello_{name}", tmp_path) for name in ("en", "ru"))
    samples = np.concatenate([english, np.zeros(RATE * 3 // 10, np.int16), russian])
    units = _units(samples)
    assert len(units) == 1
    (segments,) = recogniser.recognise(
        [samples], units, language=recogniser.language([samples], units)
    )
    text = " ".join(segment["text"] for segment in segments)
    for words in ("short message for the transcription service", "report", "хорошая погода"):
        assert words in text


def test_what_the_language_was_found_in_is_not_encoded_again(
    recogniser: Recogniser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []
    features = recogniser._features
    monkeypatch.setattr(
        recogniser, "_features", lambda clip: encoded.append(len(clip)) or features(clip)
    )
    samples = _load("hello_en", tmp_path)[: 4 * RATE]  # not heard by another test before
    units = [(0, 2 * RATE), (2 * RATE, 4 * RATE)]
    recogniser.language([samples], units)
    recogniser.recognise([samples], units, language="en")
    second_look = [length for length in encoded if length < 2 * RATE]
    assert len(encoded) - len(second_look) == 2


def test_a_unit_does_not_notice_its_company(recogniser: Recogniser, tmp_path: Path) -> None:
    english, russian = (_load(f"hello_{name}", tmp_path) for name in ("en", "ru"))
    both = np.concatenate([english, np.zeros(5 * RATE, np.int16), russian, english])
    units = [
        (0, len(english)),
        (len(english) + 5 * RATE, len(english) + 5 * RATE + len(russian)),
        (len(both) - len(english), len(both)),
    ]
    together = recogniser.recognise([both], units, language="en")
    alone = [recogniser.recognise([both], [unit], language="en")[0] for unit in reversed(units)]
    assert together == alone[::-1]
    assert _words(together[1][0]["text"])[0] == "сегодня"  # a unit in another language
    hinted = recogniser.recognise([both], units[1:2], language="ru", mixed=False)
    assert hinted[0] == together[1]


@pytest.mark.parametrize("threads", [1, 3, 5])
def test_a_text_does_not_depend_on_the_threads(
    recogniser: Recogniser, weights: Path, tmp_path: Path, threads: int
) -> None:
    """Nor on who reads what: five units that are heard for 20 s, and one for 30."""
    english, russian = (_load(f"hello_{name}", tmp_path) for name in ("en", "ru"))
    parts = [english, russian, english[RATE:], np.resize(russian, 25 * RATE), russian[RATE:]]
    ends = np.cumsum([len(part) for part in parts])
    units = [(int(end) - len(part), int(end)) for part, end in zip(parts, ends, strict=True)]
    units.append((0, 3 * RATE))
    samples = np.concatenate(parts)
    found = Recogniser(weights, threads).recognise([samples], units, language="ru")
    assert found == recogniser.recognise([samples], units, language="ru")
    assert all(found)


def test_units_are_read_side_by_side(
    recogniser: Recogniser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)
    shares: list[int] = []
    batch = recogniser._batch

    def met(clips: list[audio.Samples], **options: object) -> object:
        both.wait(60)
        shares.append(len(clips))
        return batch(clips, **options)

    monkeypatch.setattr(recogniser, "_batch", met)
    monkeypatch.setattr(second_look, "completed", lambda _clips, first, _read: first)
    samples = _load("hello_en", tmp_path)
    units = [(n * RATE, (n + 2) * RATE) for n in range(3)]
    assert len(recogniser.recognise([samples], units, language="en")) == 3
    assert sorted(shares) == [1, 2]


@pytest.mark.parametrize(
    ("hint", "code"), [("ru", "ru"), ("RU-ru", "ru"), ("en_US", "en"), ("klingon", ""), ("", "")]
)
def test_hints_are_taken_as_far_as_the_model_knows_them(
    recogniser: Recogniser, hint: str, code: str
) -> None:
    assert recogniser.known(hint) == code


def test_speech_that_the_model_passed_over_is_read_again(
    recogniser: Recogniser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = _load("hello_en", tmp_path)
    read = recogniser._read
    looks: list[int] = []

    def forgetful(clips: list[audio.Samples], **options: object) -> object:
        looks.append(len(clips))
        return read(clips, **options) if len(looks) > 1 else [[] for _ in clips]

    monkeypatch.setattr(recogniser, "_read", forgetful)
    ((first, *_),) = recogniser.recognise([samples], _units(samples), language="en")
    assert len(looks) == 2
    assert _words(first["text"])[:2] == ["good", "morning"]
