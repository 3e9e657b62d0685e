"""From the model's tokens to lines, and speech that the model passed over."""

from __future__ import annotations

import numpy as np
import pytest
import tokenizers
from faster_whisper.tokenizer import Tokenizer
from hypothesis import given
from hypothesis import strategies as st

from worker.engine import RATE, cut, model, recognise
from worker.engine.recognise import Line

BEGIN = 1000
"""The first timestamp token; tokens below are text."""


def _at(seconds: float) -> int:
    return BEGIN + round(seconds / recognise.TICK)


def _decode(tokens: list[int]) -> str:
    return " ".join(map(str, tokens))


def _lines(*tokens: int, seconds: float = 20.0) -> list[Line]:
    return list(recognise.lines(tokens, BEGIN, seconds, _decode))


def test_timestamps_make_lines() -> None:
    assert _lines(_at(0), 1, 2, _at(2), _at(3), 3, _at(5)) == [
        Line(0.0, 2.0, "1 2"),
        Line(3.0, 5.0, "3"),
    ]


def test_text_without_an_end_lasts_to_the_end() -> None:
    assert _lines(_at(1), 7, seconds=4.0) == [Line(1.0, 4.0, "7")]


def test_text_without_timestamps_is_one_line() -> None:
    assert _lines(7, 8, seconds=4.0) == [Line(0.0, 4.0, "7 8")]


def test_times_never_leave_the_clip() -> None:
    assert _lines(_at(1), 7, _at(29), seconds=4.0) == [Line(1.0, 4.0, "7")]


@given(st.lists(st.integers(1, BEGIN + 1500)), st.floats(0.1, 30))
def test_no_token_is_lost_and_times_are_in_order(tokens: list[int], seconds: float) -> None:
    found = _lines(*tokens, seconds=seconds)
    assert _decode([t for t in tokens if t < BEGIN]) == " ".join(line.text for line in found)
    assert all(0 <= line.start <= line.end <= seconds for line in found)


@pytest.fixture
def voice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The detector hears speech wherever the samples are not zero."""
    monkeypatch.setattr(
        cut, "hear", lambda clip: (clip[:: cut.FRAME] != 0).astype(np.float32) * 0.9
    )


def _clip(*runs: tuple[int, float]) -> np.ndarray:
    return np.concatenate([np.full(round(s * RATE), level, np.int16) for level, s in runs])


def _missed(clip: np.ndarray, found: list[Line]) -> list[tuple[int, int]]:
    return recognise.missed(clip, found, cut.stretches(cut.hear(clip), recognise.FINE))


@pytest.mark.usefixtures("voice")
def test_speech_that_no_line_covers_is_missed() -> None:
    clip = _clip((1, 4), (0, 1), (1, 3), (0, 1), (1, 3))
    assert _missed(clip, [Line(0, 4, "x"), Line(5, 8, "y"), Line(9, 12, "z")]) == []
    ((start, end),) = _missed(clip, [Line(0, 4, "x"), Line(9, 12, "z")])
    assert 4 < start / RATE < 5
    assert 8 < end / RATE < 9


@pytest.mark.usefixtures("voice")
def test_neighbouring_misses_are_read_as_one() -> None:
    clip = _clip((1, 4), (0, 1), (1, 3), (0, 1), (1, 3))
    ((start, end),) = _missed(clip, [Line(0, 4, "x")])
    assert 4 < start / RATE < 5
    assert end == len(clip)


@pytest.mark.usefixtures("voice")
def test_of_a_stretch_that_is_covered_in_part_only_the_rest_is_read_again() -> None:
    clip = _clip((1, 20))
    assert _missed(clip, [Line(0, 8, "x")]) == [(8 * RATE, 20 * RATE)]
    assert _missed(clip, [Line(0, 8, "x"), Line(15, 20, "y")]) == [(8 * RATE, 15 * RATE)]
    assert _missed(clip, [Line(0, 18.5, "x")]) == []  # its times are rough


@pytest.mark.usefixtures("voice")
def test_a_short_sound_is_not_worth_a_second_look() -> None:
    assert _missed(_clip((1, 4), (0, 1), (1, 0.3)), [Line(0, 4, "x")]) == []


def _thin(clip: np.ndarray, *found: Line) -> list[tuple[Line, tuple[float, float]]]:
    heard = cut.stretches(cut.hear(clip), recognise.FINE)
    return [
        (line, (start / RATE, end / RATE))
        for line, (start, end) in recognise.thin(clip, found, heard)
    ]


@pytest.mark.usefixtures("voice")
def test_a_line_with_too_few_words_for_its_speech_is_read_again_in_pieces() -> None:
    clip = _clip((1, 1), (0, 0.4), (1, 6), (0, 0.5), (1, 4))
    stretched = Line(0, 11.9, "Сегодня хорошая погода")
    (first, (start, end)), (second, (later, last)) = _thin(clip, stretched)
    assert first is second is stretched
    assert start == 0, "what is too short to be read alone stays with the next"
    assert 7.4 < end < later < 8
    assert last == len(clip) / RATE


@pytest.mark.usefixtures("voice")
@pytest.mark.parametrize(
    "text",
    [
        "Сегодня хорошая погода, и мы пойдем гулять в парк.",
        "1-0-0-0-1, 9-0-2",
        "今天天气很好我们去公园",
    ],
)
def test_a_line_with_words_enough_is_left_alone(text: str) -> None:
    assert _thin(_clip((1, 5)), Line(0, 5, text)) == []
    assert _thin(_clip((1, 5), (0, 20)), Line(0, 25, text)) == [], "silence is not speech"
    assert _thin(_clip((1, 3)), Line(0, 3, "да")) == [], "somebody may have drawn it out"


@pytest.mark.parametrize(("seconds", "hearing"), [(0.1, 20), (19, 20), (19.1, 30), (28, 30)])
def test_a_clip_is_heard_for_no_longer_than_it_needs(seconds: float, hearing: int) -> None:
    assert recognise._hearing(_clip((1, seconds))) == hearing * RATE


def _noted(**fields: object) -> list[recognise.Line]:
    return [Line(0, 2, "", left_out="no_speech"), Line(2, 4, "", **fields)]


def test_what_nobody_can_have_said_is_left_out_and_noted() -> None:
    assert recognise.judged(Line(0, 5, "Продолжение следует...")).left_out == "credits"
    assert recognise.judged(Line(0, 9, "и снова " * 30)).left_out == "loop"
    dense = " ".join(f"слово{n}" for n in range(20))
    assert recognise.judged(Line(0, 1, dense)).left_out == "too_dense"
    said = Line(0, 5, "Хорошая погода.", doubtful=True)
    assert recognise.judged(said) == said


def test_a_note_is_dropped_where_the_second_look_found_words() -> None:
    note, word = Line(0, 9, "", left_out="no_speech"), Line(3, 4, "да")
    assert recognise.settled([note, word]) == [word]
    later = Line(12, 13, "да")
    assert recognise.settled([later, note]) == [note, later]


def test_notes_of_one_kind_are_one() -> None:
    assert recognise.settled(_noted(left_out="no_speech")) == [Line(0, 4, "", left_out="no_speech")]
    assert len(recognise.settled(_noted(left_out="loop"))) == 2


def test_a_segment_says_what_is_doubtful_and_what_was_left_out() -> None:
    unit = (2 * RATE, 9 * RATE, 1)
    assert recognise._segment(Line(1, 2, "да", doubtful=True), unit) == {
        "start": 3.0, "end": 4.0, "text": "да", "channel": 1, "doubtful": True,
    }  # fmt: skip
    assert recognise._segment(Line(1, 2, "", doubtful=True, left_out="loop"), unit) == {
        "start": 3.0, "end": 4.0, "text": "", "channel": 1, "left_out": "loop",
    }  # fmt: skip


def test_a_vocabulary_gives_the_model_words_and_no_orders() -> None:
    tokens = tokenizers.Tokenizer.from_file(str(model._data(model.FIRST, "tokenizer.json")))
    tokenizer = Tokenizer(tokens, multilingual=True, task="transcribe", language="ru")
    first, *rest = recognise.hinted("<|startoftranscript|><|en|><|translate|> Ваулин", tokenizer)
    assert first == tokenizer.sot_prev
    assert tokenizer.decode(rest).strip() == "Ваулин"
    assert max(rest) < tokenizer.eot
    assert recognise.hinted("<|endoftext|>", tokenizer) == []
    assert recognise.hinted(" \n", tokenizer) == []
