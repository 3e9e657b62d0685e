"""From the model's tokens to lines and segments, and what it is given to hear."""

from __future__ import annotations

import numpy as np
import pytest
import tokenizers
from faster_whisper.tokenizer import Tokenizer
from hypothesis import given
from hypothesis import strategies as st

from worker.engine import RATE, model, recognise
from worker.engine.line import Line, segment

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


@pytest.mark.parametrize(("seconds", "hearing"), [(0.1, 20), (19, 20), (19.1, 30), (28, 30)])
def test_a_clip_is_heard_for_no_longer_than_it_needs(seconds: float, hearing: int) -> None:
    assert recognise._hearing(np.zeros(round(seconds * RATE), np.int16)) == hearing * RATE


def test_threads_share_out_the_clips_and_are_never_too_many() -> None:
    shares = {threads: recognise.workers(threads) for threads in range(1, 65)}
    assert [shares[n] for n in (1, 2, 3, 4, 6, 8, 16)] == [
        (1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (4, 2), (4, 4),
    ]  # fmt: skip
    assert all(0 < many * each <= threads for threads, (many, each) in shares.items())
    assert all(many <= recognise.WORKERS for many, _ in shares.values())


def test_what_nobody_can_have_said_is_left_out_and_noted() -> None:
    assert recognise.judged(Line(0, 5, "Продолжение следует...")).left_out == "credits"
    assert recognise.judged(Line(0, 9, "и снова " * 30)).left_out == "loop"
    dense = " ".join(f"слово{n}" for n in range(20))
    assert recognise.judged(Line(0, 1, dense)).left_out == "too_dense"
    said = Line(0, 5, "Хорошая погода.", doubtful=True)
    assert recognise.judged(said) == said


def test_a_segment_says_what_is_doubtful_and_what_was_left_out() -> None:
    unit = (2 * RATE, 9 * RATE, 1)
    assert segment(Line(1, 2, "да", doubtful=True), unit) == {
        "start": 3.0, "end": 4.0, "text": "да", "channel": 1, "doubtful": True,
    }  # fmt: skip
    assert segment(Line(1, 2, "", doubtful=True, left_out="loop"), unit) == {
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
