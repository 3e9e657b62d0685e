"""A text in pieces for Telegram: whole, in order, of the right size, cut where people pause."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.telegram.text import LIMIT, preview, split, units

WORDS = st.text(alphabet=" \nабв.!?…😀\u200d\U0001f3fde\u0301«»", max_size=400)


def wire_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@given(text=WORDS, limit=st.integers(min_value=4, max_value=60))
def test_nothing_is_lost_but_white_space_and_no_piece_is_too_long(text: str, limit: int):
    pieces = split(text, limit)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    for piece in pieces:
        assert piece == piece.strip() != ""
        assert wire_length(piece) <= limit


@given(text=st.text(max_size=200))
def test_the_length_is_counted_as_telegram_counts(text: str):
    assert units(text) == len(text.encode("utf-16-le", "surrogatepass")) // 2


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        ("", 10, []),
        (" \n ", 10, []),
        ("короткий", 10, ["короткий"]),
        ("Раз. Два три", 10, ["Раз. Два", "три"]),  # the sentence ends too early to be worth it
        ("Раз два. Три", 10, ["Раз два.", "Три"]),
        ("Он сказал: «да!» Ушёл", 18, ["Он сказал: «да!»", "Ушёл"]),
        ("абвгдежзий", 5, ["абвгд", "ежзий"]),
        ("абвгд ежзий", 5, ["абвгд", "ежзий"]),
        ("😀😀😀", 4, ["😀😀", "😀"]),
        ("😀😀😀", 5, ["😀😀", "😀"]),
        ("ab👍🏽cd", 5, ["ab", "👍🏽c", "d"]),  # the tone stays with its thumb
        ("первая\nвторая третья", 14, ["первая\nвторая", "третья"]),
    ],
)
def test_the_cuts(text: str, limit: int, pieces: list[str]):
    assert split(text, limit) == pieces


def test_a_long_text_is_cut_at_sentences_and_fills_its_messages():
    text = "Так говорят люди, когда их слушают. " * 1000
    pieces = split(text)
    assert all(piece.endswith(".") for piece in pieces)
    assert all(wire_length(piece) > LIMIT * 0.9 for piece in pieces[:-1])


def test_a_million_letters_are_split_at_once():
    assert sum(map(len, split("а" * 1_000_000))) == 1_000_000


def test_the_preview_is_a_beginning_that_fits_a_caption():
    assert preview("коротко и\n\nясно") == "коротко и ясно"
    shown = preview("Слово за словом. " * 1000)
    assert shown.startswith("Слово за словом.")
    assert shown.endswith(". …")
    assert units(preview("😀" * 10_000)) <= 310
