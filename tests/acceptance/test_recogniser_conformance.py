"""What every recogniser does, whoever stands behind it: one suite for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.bench import Bench
from tests.acceptance.recogniser_rigs import TEXT, Rig, rig
from tests.acceptance.recogniser_servers import KEY
from worker.errors import PocketBaseUnavailable, RecogniserUnavailable, describe
from worker.recognisers.base import Abilities, Finished, Refused, Running, Unfinished, Unknown
from worker.recognisers.choice import ABILITIES

NAMES = ("local", "openai", "speechkit")
UNAVAILABLE = (RecogniserUnavailable, PocketBaseUnavailable)


@pytest.fixture(params=NAMES)
def other(request: pytest.FixtureRequest, bench: Bench, tmp_path: Path) -> Iterator[Rig]:
    with rig(request.param, bench, tmp_path) as made:
        yield made


def test_all_of_them_are_tested_and_described():
    assert tuple(ABILITIES) == NAMES
    for abilities in ABILITIES.values():
        assert isinstance(abilities, Abilities)
        assert not abilities.public_address, "none needs one: audio is sent, not fetched"
    assert [name for name in NAMES if ABILITIES[name].leaves_machine] == ["openai", "speechkit"]


def test_accepted_the_operation_has_an_id_that_names_the_recogniser(other):
    operation = other.hand_in()
    name, separator, identifier = operation.partition(":")
    assert name == other.recogniser.name if separator else other.recogniser.name == "local"
    assert identifier or not separator
    assert len(operation) <= 200, "the queue's column"


def test_running_it_says_so_and_gives_no_text(other):
    assert isinstance(other.underway(), Running | Unfinished)


def test_finished_the_text_comes_with_times_language_and_origin(other):
    verdict = other.outcome()
    assert isinstance(verdict, Finished), verdict
    transcript = verdict.transcript
    assert transcript.text == TEXT
    assert [segment["text"] for segment in transcript.segments] == [TEXT]
    [segment] = transcript.segments
    assert 0 <= segment["start"] < segment["end"] <= other.recording.duration
    assert transcript.language == "ru"
    assert transcript.engine
    if words := segment.get("words"):
        assert [word["word"].lower().strip(".") for word in words] == ["сказанное", "вслух"]
        assert segment["start"] <= words[0]["start"] <= words[-1]["end"] <= segment["end"]
    word_times = ABILITIES[other.recogniser.name].word_times
    assert bool(words) == word_times


def test_asking_twice_gives_the_same(other):
    operation = other.hand_in()
    other.work(operation)
    assert other.recogniser.check(operation) == other.recogniser.check(operation)


def test_refused_for_good_it_is_final_and_told_without_anybodys_words(other):
    other.refuses()
    verdict = other.outcome()
    assert isinstance(verdict, Refused)
    assert verdict.reason
    assert KEY not in verdict.reason


def test_over_quota_it_is_waited_for_and_then_done(other):
    other.busy()
    if other.recogniser.name != "local":
        with pytest.raises(RecogniserUnavailable) as caught:
            other.hand_in()
        assert caught.value.blameless, "no attempt of the recording's"
        assert caught.value.pause == pytest.approx(7, abs=0.1), "the pause that was asked for"
        assert KEY not in describe(caught.value)
    other.free()
    assert isinstance(other.outcome(), Finished)


def test_lost_the_operation_is_unknown_and_can_be_submitted_again(other):
    operation = other.hand_in()
    other.loses(operation)
    assert isinstance(other.recogniser.check(operation), Unknown)
    other.recogniser.cancel(operation)
    verdict = other.outcome()
    assert isinstance(verdict, Finished)
    assert verdict.transcript.text == TEXT


def test_nobody_there_it_is_unavailable_and_done_once_somebody_is(other):
    other.unplug()
    with pytest.raises(UNAVAILABLE) as caught:
        other.hand_in()
    assert getattr(caught.value, "blameless", True), "no attempt of the recording's"
    other.plug()
    verdict = other.outcome()
    assert isinstance(verdict, Finished)
    assert verdict.transcript.text == TEXT


@pytest.mark.parametrize("name", ["local", "speechkit"])
def test_nobody_there_to_ask_is_no_verdict(name, bench, tmp_path):
    """What `openai` made is kept here, and asking for it needs nobody there."""
    with rig(name, bench, tmp_path) as other:
        operation = other.hand_in()
        other.work(operation)
        other.unplug()
        with pytest.raises(UNAVAILABLE):
            other.recogniser.check(operation)
        with pytest.raises(UNAVAILABLE):
            other.recogniser.cancel(operation)
        other.plug()
        assert other.recogniser.check(operation).transcript.text == TEXT


def test_cancelled_a_late_answer_is_nobodys(other):
    operation = other.late()
    assert isinstance(other.recogniser.check(operation), Unknown)
    assert other.bench.service.rows("SELECT * FROM segments") == []


def test_cancelling_twice_or_what_never_was_is_fine(other):
    operation = other.hand_in()
    assert other.recogniser.cancel(operation), "nothing is left"
    assert other.recogniser.cancel(operation)
    prefix = operation.rpartition(":")[0]
    assert other.recogniser.cancel(f"{prefix}:neverwas0000000" if prefix else "neverwas0000000")
    assert isinstance(other.recogniser.check(operation), Unknown)


def test_nobody_spoke_it_is_an_empty_text_and_no_failure(other):
    other.says("")
    verdict = other.outcome()
    assert isinstance(verdict, Finished)
    assert (verdict.transcript.text, verdict.transcript.segments) == ("", [])
    assert verdict.transcript.language == ""
