"""What an OpenAI-compatible server answers, as pure data: every shape that is known to occur."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.recognisers import languages
from worker.recognisers.openai import PROMPT, bounded, understood
from worker.recognisers.remote import MALFORMED


def texts(answer) -> list[str]:
    return [segment["text"] for segment in understood(answer, 100.0, 110.0)]


def test_segments_are_moved_to_where_the_piece_was():
    answer = {
        "language": "english",
        "text": "One. Two.",
        "segments": [
            {"start": 0.5, "end": 2.0, "text": " One."},
            {"start": 3.0, "end": 4.25, "text": " Two."},
        ],
        "words": [
            {"word": "One", "start": 0.5, "end": 1.9},
            {"word": "Two", "start": 3.1, "end": 4.2},
        ],
    }
    assert understood(answer, 100.0, 110.0) == [
        {"start": 100.5, "end": 102.0, "text": "One.", "language": "en",
         "words": [{"start": 100.5, "end": 101.9, "word": "One"}]},
        {"start": 103.0, "end": 104.25, "text": "Two.", "language": "en",
         "words": [{"start": 103.1, "end": 104.2, "word": "Two"}]},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"text": "All of it."}, ["All of it."]),
        ({"text": "All of it.", "segments": []}, ["All of it."]),
        ({"text": "All of it.", "segments": None}, ["All of it."]),
        ({"text": "", "segments": [{"start": 0, "end": 1, "text": "Said."}]}, ["Said."]),
        ({"segments": [{"start": 0, "end": 1, "text": "Said."}]}, ["Said."]),
        # Segments that leave out some of the text: the text is what is kept.
        ({"text": "One. Two.", "segments": [{"start": 0, "end": 1, "text": "One."}]},
         ["One. Two."]),
        ({"text": "One.Two.", "segments": [{"start": 0, "end": 1, "text": "One. "},
                                           {"start": 1, "end": 2, "text": " Two."}]},
         ["One.", "Two."]),
        ({"text": "", "segments": []}, []),
        ({"text": " \n"}, []),
        ({"text": None, "segments": [{"start": 0, "end": 1, "text": " "}]}, []),
    ],
)  # fmt: skip
def test_text_and_segments_in_any_company(answer, expected):
    assert texts(answer) == expected


@pytest.mark.parametrize("start", [None, "soon", float("nan"), float("inf"), -5, 999])
def test_times_that_cannot_be_are_the_pieces_own(start):
    [segment] = understood(
        {"segments": [{"start": start, "end": start, "text": "a"}]}, 100.0, 110.0
    )
    assert 100.0 <= segment["start"] <= segment["end"] <= 110.0


@pytest.mark.parametrize("answer", [None, [], "text", {}, {"error": {}}, {"text": 7},
                                    {"segments": ["x"]}, {"segments": 7}])  # fmt: skip
def test_anything_else_is_no_transcription(answer):
    with pytest.raises(MALFORMED):
        understood(answer, 0.0, 1.0)


def test_text_has_nothing_that_cannot_be_stored_or_shown():
    odd = "A \x1b[31mred\x00 \ud800word\x07.\tAnd"
    plain = "A [31mred word. And"
    [segment] = understood(
        {"segments": [{"text": odd}], "words": [{"word": odd, "start": 0, "end": 1}]}, 0.0, 1.0
    )
    assert (segment["text"], segment["words"][0]["word"]) == (plain, plain)
    assert texts({"text": odd}) == [plain]


def test_a_number_beyond_all_numbers_is_no_time():
    with pytest.raises(MALFORMED):
        understood({"segments": [{"start": 10**400, "end": 1, "text": "a"}]}, 0.0, 1.0)


@pytest.mark.parametrize(
    ("given_name", "code"),
    [("english", "en"), ("English", "en"), ("en", "en"), ("en-US", "en"), ("ru_RU", "ru"),
     ("russian", "ru"), ("Castilian", "es"), ("haitian creole", "ht"), ("auto", ""), ("", ""),
     (None, ""), (7, ""), ("klingon", ""), ("iw", "he")],
)  # fmt: skip
def test_languages_by_name_and_by_code(given_name, code):
    assert languages.code(given_name) == code


@given(st.text(max_size=3 * PROMPT))
def test_a_vocabulary_never_outgrows_the_prompt(vocabulary):
    prompt = bounded(vocabulary)
    assert len(prompt) <= PROMPT
    assert " ".join(vocabulary.split()).startswith(prompt)


def test_a_vocabulary_is_cut_between_terms():
    terms = [f"термин номер {n}" for n in range(100)]
    kept = bounded(", ".join(terms)).split(", ")
    assert kept == terms[: len(kept)]
    assert len(kept) > 20
    assert bounded("x" * 2000) == "x" * PROMPT
    assert bounded("слово " * 300).split(" ") == ["слово"] * 100
