"""SpeechKit's results as pure text: whatever the server counts by, nothing twice, nothing lost."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.recognisers.remote import MALFORMED
from worker.recognisers.speechkit import Body
from worker.recognisers.speechkit_stream import understood


def final(text, start=0, index=None, channel="0", **more):
    alternative = {"text": text, "startTimeMs": str(start), "endTimeMs": str(start + 500), **more}
    cursors = {} if index is None else {"audioCursors": {"finalIndex": str(index)}}
    return {"result": {**cursors, "channelTag": channel, "final": {"alternatives": [alternative]}}}


def refinement(text, index, start=0, channel="0", **more):
    alternative = {"text": text, "startTimeMs": str(start), "endTimeMs": str(start + 500), **more}
    body = {"finalIndex": str(index), "normalizedText": {"alternatives": [alternative]}}
    return {"result": {"channelTag": channel, "finalRefinement": body}}


def text(*messages) -> str:
    return understood("\n".join(json.dumps(each, indent=2) for each in messages), "x").text


@pytest.mark.parametrize(
    "messages",
    [
        # Numbered by the server.
        [final("a", 0, 0), refinement("A", 0), final("b", 1000, 1), refinement("B", 1, 1000)],
        # A zero left out, as JSON of protocol buffers may.
        [final("a", 0), refinement("A", 0), final("b", 1000, 1), refinement("B", 1, 1000)],
        # Not numbered at all.
        [final("a", 0), final("b", 1000), refinement("A", 0), refinement("B", 1, 1000)],
        # Numbered from one, while refinements count from nought.
        [final("a", 0, 1), refinement("A", 0), final("b", 1000, 2), refinement("B", 1, 1000)],
        # A number that never grows.
        [final("a", 0, 0), refinement("A", 0), final("b", 1000, 0), refinement("B", 0, 1000)],
        # The first refined again, when the second has come.
        [final("a", 0, 0), refinement("x", 0), final("B", 1000, 1), refinement("A", 0)],
        # A refinement refined.
        [final("a", 0, 0), refinement("x", 0), refinement("A", 0), final("B", 1000, 1)],
    ],
)
def test_a_refinement_replaces_its_final_whatever_is_counted_by(messages):
    assert text(*messages) == "A B"


SPANS = st.tuples(st.integers(0, 5000), st.integers(1, 5000))


@given(st.lists(SPANS, min_size=2, max_size=6, unique=True), st.data(), st.sampled_from([None, 0]))
def test_of_finals_that_overlap_the_one_in_its_place_is_refined(spans, data, index):
    """Without numbers, or with one that never grows; refined in any order, once all are there."""
    spans.sort()
    names = [chr(ord("a") + n) for n in range(len(spans))]
    timed = [{"startTimeMs": str(start), "endTimeMs": str(start + long)} for start, long in spans]
    finals = [final(name, index=index, **times) for name, times in zip(names, timed, strict=True)]
    order = data.draw(st.permutations(range(len(spans))))
    refinements = [refinement(names[n].upper(), 0, **timed[n]) for n in order]
    assert sorted(text(*finals, *refinements).split()) == [name.upper() for name in names]


def test_of_finals_that_overlap_the_nearest_is_refined():
    ends = lambda end: {"endTimeMs": str(end)}  # noqa: E731
    first, second = final("one", 0, **ends(2000)), final("two", 1900, **ends(4000))
    refined = refinement("Two.", 0, 1950, **ends(4000))
    assert text(first, second, refined) == "one Two."


def test_no_time_is_before_the_beginning():
    words = [{"text": "a", "startTimeMs": "-900", "endTimeMs": "-100"}]
    stream = json.dumps(final("a", -5000, words=words))
    [segment] = understood(stream, "x").segments
    assert segment == {
        "start": 0.0, "end": 0.0, "text": "a", "words": [{"start": 0.0, "end": 0.0, "word": "a"}],
    }  # fmt: skip


def test_what_a_refinement_leaves_out_stays():
    words = [{"text": "two", "startTimeMs": "1000", "endTimeMs": "1400"}]
    stream = [
        final("two", 1000, 0, words=words),
        refinement("2", 0, 1000, words=[]),
    ]
    [segment] = understood("".join(map(json.dumps, stream)), "x").segments
    assert segment == {
        "start": 1.0,
        "end": 1.5,
        "text": "2",
        "words": [{"start": 1.0, "end": 1.4, "word": "two"}],
    }


def test_times_may_be_left_out_or_be_numbers():
    stream = json.dumps({"result": {"final": {"alternatives": [{"text": "a", "endTimeMs": 700}]}}})
    assert understood(stream, "x").segments == [{"start": 0.0, "end": 0.7, "text": "a"}]


def test_the_language_is_what_most_of_the_text_is_in():
    guesses = lambda code: [{"languageCode": code, "probability": 0.9}]  # noqa: E731
    stream = [
        final("short", 0, 0, languages=guesses("en-US")),
        final("a good deal longer", 1000, 1, languages=guesses("ru-RU")),
    ]
    assert understood("".join(map(json.dumps, stream)), "x").language == "ru"


@pytest.mark.parametrize(
    "stream",
    ["", " \n", '{"result": {}}', '{"result": null}', '{"result": "final"}', '{"result": {"a": 1}}',
     '{"result": {"final"', "[1]", "{}", '{"error": {"code": 13}}', '{"result": {"final": []}}',
     '{"result": {"final": {"alternatives": [{"text": "a", "startTimeMs": "soon"}]}}}'],
)  # fmt: skip
def test_anything_else_is_no_result(stream):
    with pytest.raises(MALFORMED):
        understood(stream, "x")


def test_text_has_nothing_that_cannot_be_stored_or_shown():
    odd = "\x1b[31mred\x00 \ud800word"
    words = [{"text": odd, "startTimeMs": "0", "endTimeMs": "700"}]
    stream = {"result": {"final": {"alternatives": [{"text": odd, "words": words}]}}}
    [segment] = understood(json.dumps(stream), "x").segments
    assert (segment["text"], segment["words"][0]["word"]) == ("[31mred word", "[31mred word")


def test_no_speech_is_an_empty_text():
    assert text({"result": {"statusCode": {"codeType": "WORKING"}}}, final("")) == ""


@given(st.binary(max_size=2000))
def test_the_body_is_json_with_the_audio_and_as_long_as_announced(tmp_path_factory, data):
    file = tmp_path_factory.getbasetemp() / "audio.ogg"
    file.write_bytes(data)
    body = Body(file, {"model": "general"})
    made = b"".join(body)
    assert len(made) == len(body)
    decoded = json.loads(made)
    assert base64.b64decode(decoded["content"]) == data
    assert decoded["recognition_model"] == {"model": "general"}


def test_the_body_is_made_on_the_way(tmp_path):
    file = tmp_path / "audio.ogg"
    file.write_bytes(bytes(10_000_000))
    assert max(map(len, Body(file, {}))) < 1.1 * 2**20
