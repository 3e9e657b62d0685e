"""Invented text is told from said text."""

from __future__ import annotations

import pytest

from worker.engine import guard


@pytest.mark.parametrize(
    "text",
    [
        "Редактор субтитров А.Семкин Корректор А.Егорова",
        "Субтитры сделал DimaTorzok",
        "Продолжение следует...",
        "Thanks for watching!",
        "Thank you so much for watching.",
        "Subtitles by the Amara.org community",
    ],
)
def test_captions_of_films_are_nobodys_words(text: str) -> None:
    assert guard.credits(text)


@pytest.mark.parametrize(
    "text",
    [
        "Редактор журнала прочёл корректуру.",
        "Продолжение следует из первой теоремы.",
        "Спасибо за внимание к деталям.",
        "Thanks for watching the children yesterday.",
        "",
    ],
)
def test_speech_that_resembles_them_stays(text: str) -> None:
    assert not guard.credits(text)


@pytest.mark.parametrize("phrase", ["и так далее, ", "the same again "])
def test_a_phrase_over_and_over_is_a_loop(phrase: str) -> None:
    assert guard.looping(phrase * 12)


@pytest.mark.parametrize(
    "text",
    [
        "да да да",
        "Она советовала нам отнестись по сему предмету к одному почтенному мужу. " * 2,
        "Ask not what your country can do for you, ask what you can do for your country.",
    ],
)
def test_saying_something_twice_is_no_loop(text: str) -> None:
    assert not guard.looping(text)


def test_density() -> None:
    sentence = "Съешь ещё этих мягких французских булок, да выпей чаю."
    assert not guard.too_dense(sentence, 2.0)
    assert guard.too_dense(sentence * 3, 1.0)
    assert not guard.too_dense("Да, конечно.", 0.02)  # a short answer's times are often too tight
