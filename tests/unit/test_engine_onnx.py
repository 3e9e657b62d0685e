"""Models of onnx-asr: where they come from, what they are, and from their tokens to words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.unit import onnx_writer
from worker.engine import RATE, child, model, onnx_models
from worker.engine.onnx_models import OnnxRecogniser
from worker.errors import ModelMissing
from worker.settings import Settings


@dataclass
class Heard:
    """As onnx-asr returns it."""

    text: str
    tokens: list[str] | None = None
    timestamps: list[float] | None = None


def _settings(tmp_path: Path, name: str) -> Settings:
    return Settings(_env_file=None, telegram_enabled=False, data_dir=tmp_path, engine_model=name)


def _sound() -> np.ndarray:
    """A tone from 1 to 2 s, and one from 4 to 4.5 s."""
    time = np.arange(6 * RATE) / RATE
    loud = ((time >= 1) & (time < 2)) | ((time >= 4) & (time < 4.5))
    return (np.sin(time * 2 * np.pi * 440) * 9000 * loud).astype(np.int16)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return onnx_writer.write(tmp_path / "own-model")


def test_a_model_on_disk_is_loaded_and_recognises_with_times(tmp_path: Path, folder: Path) -> None:
    """The whole of onnx-asr on a real, if tiny, model."""
    settings = _settings(tmp_path, str(folder))
    assert model.install(settings) == folder
    assert model.label(settings) == "onnx-asr/own-model"
    recogniser = OnnxRecogniser(folder, threads=1)
    sound = _sound()
    silence = np.zeros_like(sound)
    [first, second] = recogniser.recognise(
        [silence, sound], [(0, 3 * RATE, 1), (3 * RATE, 6 * RATE, 1)], language="ru"
    )
    for lines, begin, end in ((first, 1.0, 2.0), (second, 4.0, 4.5)):
        [line] = lines
        assert line["text"] == "а"
        assert line["channel"] == 1
        assert line["words"][0]["start"] == pytest.approx(begin, abs=0.1)
        assert begin < line["end"] <= end + 0.3
    assert recogniser.recognise([silence], [(0, RATE)], language="ru") == [[]]
    alone = recogniser.recognise([silence, sound], [(3 * RATE, 6 * RATE, 1)], language="ru")
    assert alone == [second]


def test_the_engines_child_takes_either_kind(folder: Path) -> None:
    samples = folder.parent / "pcm"
    _sound().tofile(samples)
    handle = child._handler(folder, 1)
    work = handle(child.Recognise(samples, ((0, 3 * RATE), (3 * RATE, 6 * RATE)), "ru", True, ""))
    next(work)
    with pytest.raises(StopIteration) as end:
        next(work)
    assert [[line["text"] for line in unit] for unit in end.value.value] == [["а"], ["а"]]


@pytest.mark.parametrize(
    ("name", "files", "expected"),
    [
        ("gigaam-v3-rnnt", [], "gigaam-v3-rnnt"),
        ("alphacep--vosk-model-ru", [], "alphacep/vosk-model-ru"),
        ("mine", ["v3_e2e_rnnt_encoder.int8.onnx"], "gigaam-v3-e2e-rnnt"),
        ("mine", ["v2_ctc.onnx"], "gigaam-v3-ctc"),
        ("mine", ["v3_rnnt_encoder.onnx"], "gigaam-v3-rnnt"),
    ],
)
def test_what_a_folder_holds(tmp_path: Path, name: str, files: list[str], expected: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    for file in files:
        (folder / file).touch()
    assert onnx_models.name_of(folder) == expected


def test_a_folder_that_says_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "encoder-model.onnx").touch()
    with pytest.raises(ModelMissing, match=r"odd.*name its folder after it"):
        model.install(_settings(tmp_path, str(tmp_path / "odd")))


@pytest.mark.parametrize("name", ["gigaam-v3-ctc", "nemo-parakeet-tdt-0.6b-v3"])
def test_weights_that_cannot_be_fetched_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    import huggingface_hub  # noqa: PLC0415 - slow to import, for this test alone

    asked: list[str] = []

    def refuse(repository: str, *args: object, **options: object) -> str:
        asked.append(repository)
        raise ConnectionError("https://secret@hub.example")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(ModelMissing) as caught:
        model.install(_settings(tmp_path, name))
    message = str(caught.value)
    assert asked
    assert str(tmp_path / "models" / name) in message
    assert ("v?_ctc.onnx" if "gigaam" in name else "encoder-model.onnx") in message
    assert "secret" not in message
    assert model.label(_settings(tmp_path, name)) == f"onnx-asr/{name}"


def test_a_fetched_model_is_moved_in_whole_and_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub  # noqa: PLC0415 - slow to import, for this test alone

    fetched: list[str] = []

    def fetch(repository: str, *, local_dir: Path, **options: object) -> str:
        fetched.append(repository)
        local_dir.mkdir(parents=True, exist_ok=True)
        for file in ("v3_ctc.int8.onnx", "v3_vocab.txt"):
            (local_dir / file).touch()
        return str(local_dir)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    settings = _settings(tmp_path, "gigaam-v3-ctc")
    target = model.install(settings)
    assert target == tmp_path / "models" / "gigaam-v3-ctc"
    assert model.install(settings) == target
    assert fetched == ["istupakov/gigaam-v3-onnx"]
    assert [each.name for each in (tmp_path / "models").iterdir()] == ["gigaam-v3-ctc"]


@pytest.fixture
def words() -> Callable[..., list[tuple[str, float, float]]]:
    def run(*tokens: tuple[str, float]) -> list[tuple[str, float, float]]:
        heard = Heard("", [text for text, _ in tokens], [at for _, at in tokens])
        found: Iterator[onnx_models.Word] = onnx_models.words(heard, 10.0, 20.0)
        return [(each["word"], each["start"], each["end"]) for each in found]

    return run


def test_letters_become_words(words) -> None:
    """CTC on letters, as GigaAM v2 and v3: a space is a token of its own."""
    assert words(("а", 1.25), ("б", 1.35), (" ", 1.45), ("в", 2.25)) == [
        ("аб", 11.0, 11.3),
        ("в", 12.0, 12.2),
    ]


def test_pieces_become_words(words) -> None:
    """Sentence pieces, as Parakeet: a space begins a word, and a full stop ends one."""
    assert words((" Hel", 0.25), ("lo", 0.45), (".", 0.6), (" Why", 0.85)) == [
        ("Hello.", 10.0, 10.55),
        ("Why", 10.6, 10.8),
    ]


def test_times_never_leave_the_unit(words) -> None:
    assert words(("а", 0.0), (" б", 99.0)) == [("а", 10.0, 10.0), ("б", 20.0, 20.0)]


def test_lines_end_at_pauses_and_full_stops() -> None:
    tokens = [(" one.", 0.5), (" two", 1.0), (" three", 4.0)]
    heard = Heard("one. two three", [text for text, _ in tokens], [at for _, at in tokens])
    lines = onnx_models.segments(heard, 0.0, 10.0)
    assert [line["text"] for line in lines] == ["one.", "two", "three"]
    assert [line["start"] for line in lines] == [0.25, 0.75, 3.75]


def test_text_without_times_is_one_line_and_loops_are_none() -> None:
    [line] = onnx_models.segments(Heard("all of it"), 1.0, 5.0)
    assert line == {"start": 1.0, "end": 5.0, "text": "all of it", "words": []}
    assert onnx_models.segments(Heard("и снова " * 40), 1.0, 25.0) == []


@pytest.mark.parametrize(
    ("name", "hint", "known", "alone"),
    [
        ("gigaam-v3-ctc", "ru-RU", "ru", "ru"),
        ("gigaam-v3-ctc", "en", "", "ru"),
        ("nemo-parakeet-tdt-0.6b-v3", "EN", "en", ""),
        ("nemo-parakeet-tdt-0.6b-v2", "", "", "en"),
    ],
)
def test_languages(name: str, hint: str, known: str, alone: str) -> None:
    recogniser = OnnxRecogniser.__new__(OnnxRecogniser)
    recogniser._languages = onnx_models.LANGUAGES[name]
    assert recogniser.known(hint) == known
    assert recogniser.language([], []) == alone
