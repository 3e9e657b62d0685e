"""`speechkit`: what is sent, what is made of a result, its rates, its codes, its leavings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.bench import Bench
from tests.acceptance.recogniser_kit import SpeechKitServer, event, said
from tests.acceptance.recogniser_rigs import TEXT, SpeechKitRig, flac, rig
from tests.acceptance.recogniser_servers import KEY
from worker.errors import Cancelled, RecogniserRefused, RecogniserUnavailable, describe
from worker.recognisers.base import Finished, Refused, Running, Unknown
from worker.recognisers.speechkit import HOURLY


@pytest.fixture
def kit(bench: Bench, tmp_path: Path) -> Iterator[SpeechKitRig]:
    with rig("speechkit", bench, tmp_path) as made:
        yield made


def sent(kit: SpeechKitRig):
    [*_, operation] = kit.server.operations.values()
    return operation


def test_the_whole_recording_is_sent_as_ogg_opus_with_the_senders_language(kit):
    kit.recording = kit.record(kit.file, language="ru")
    kit.hand_in()
    assert sent(kit).seconds == pytest.approx(kit.recording.duration, abs=0.1)
    assert sent(kit).model["audio_format"] == {
        "container_audio": {"container_audio_type": "OGG_OPUS"}
    }
    assert sent(kit).model["language_restriction"]["language_code"] == ["ru-RU"]
    for hint in ("", "eo", "Klingon"):
        kit.recording = kit.record(kit.file, language=hint)
        kit.hand_in()
        assert sent(kit).model["language_restriction"]["language_code"] == ["auto"]


def test_a_token_goes_with_its_folder(bench, tmp_path):
    settings = {"speechkit_api_key": "", "speechkit_iam_token": KEY, "speechkit_folder_id": "f1"}
    with rig("speechkit", bench, tmp_path, **settings) as kit:
        assert kit.outcome().transcript.text == TEXT


def test_running_until_it_is_done(kit):
    operation = kit.hand_in()
    assert kit.recogniser.check(operation) == Running()
    kit.work(operation)
    assert kit.recogniser.check(operation).transcript.text == TEXT


def test_a_result_of_many_phrases_comes_whole_and_in_order(kit):
    kit.server.phrases = lambda operation: [f"Фраза номер {n}." for n in range(200)]
    transcript = kit.outcome().transcript
    assert transcript.text == " ".join(f"Фраза номер {n}." for n in range(200))
    assert transcript.segments[7] == {
        "start": 14.0,
        "end": 15.5,
        "text": "Фраза номер 7.",
        "words": [
            {"start": 14.0, "end": 14.5, "word": "фраза"},
            {"start": 14.5, "end": 15.0, "word": "номер"},
            {"start": 15.0, "end": 15.5, "word": "7"},
        ],
    }


def test_an_answer_of_nothing_is_no_text_and_asked_for_again(kit):
    """Of a proxy out of order, say: 200, and no word of whether anybody spoke."""
    operation = kit.hand_in()
    kit.server.finish(operation.removeprefix("speechkit:"), stream=[])
    with pytest.raises(RecogniserUnavailable, match="not understood") as caught:
        kit.recogniser.check(operation)
    assert not caught.value.blameless
    kit.work(operation)
    assert kit.recogniser.check(operation).transcript.text == TEXT


@pytest.mark.parametrize("spelling", ["operation_id", "operationId"])
def test_the_operation_is_named_as_the_server_spells_it(spelling, kit):
    kit.server.spelling = spelling
    for _ in range(2):
        kit.recording = kit.record(kit.file)
        assert kit.outcome().transcript.text == TEXT
    [*_, last] = kit.server.operations
    kit.recogniser.cancel(f"speechkit:{last}")
    assert kit.server.deleted == [last]


@pytest.mark.parametrize("code", [3, 9, 11])
def test_an_error_that_is_about_the_recording_is_final(code, kit):
    kit.failure = code
    verdict = kit.outcome()
    assert isinstance(verdict, Refused)
    assert str(code) in verdict.reason
    assert KEY not in verdict.reason


@pytest.mark.parametrize("code", [4, 8, 13, 14, 16])
def test_any_other_error_has_the_recording_submitted_again(code, kit):
    kit.failure = code
    verdict = kit.outcome()
    assert isinstance(verdict, Unknown)
    assert str(code) in verdict.reason
    assert KEY not in verdict.reason


@pytest.mark.parametrize(
    ("status", "blameless"), [(401, True), (403, True), (429, True), (500, False), (503, False)]
)
def test_whoever_asks_is_told_by_the_status_alone(status, blameless, kit):
    operation = kit.hand_in()
    for call in (kit.submit, lambda: kit.recogniser.check(operation)):
        kit.server.order(status)
        with pytest.raises(RecogniserUnavailable) as caught:
            call()
        assert caught.value.blameless is blameless
        assert KEY not in describe(caught.value)
    kit.work(operation)
    kit.server.faults.clear()
    assert isinstance(kit.recogniser.check(operation), Finished)


def test_a_wrong_key_names_the_setting(bench, tmp_path):
    with rig("speechkit", bench, tmp_path, speechkit_api_key="another") as kit:
        with pytest.raises(RecogniserUnavailable, match=r"401.*SPEECHKIT_API_KEY") as caught:
            kit.hand_in()
        assert caught.value.blameless
        assert "another" not in describe(caught.value)


def test_a_result_that_is_gone_or_broken_off_is_no_text(kit):
    operation = kit.hand_in()
    kit.work(operation)
    [held] = kit.server.operations.values()
    whole, held.stream = held.stream, None
    assert isinstance(kit.recogniser.check(operation), Unknown)
    for broken in ([*whole[:3], {"error": {"code": 13}}], [{"result": {"final": 7}}], [7]):
        held.stream = broken
        with pytest.raises(RecogniserUnavailable, match="broken off"):
            kit.recogniser.check(operation)
    held.stream = whole
    cut = SpeechKitServer._result  # half of the bytes
    kit.server._result = lambda request: (200, cut(kit.server, request)[1][:-200])
    with pytest.raises(RecogniserUnavailable, match="broken off"):
        kit.recogniser.check(operation)


def test_status_checks_keep_to_five_a_second(kit):
    operation = kit.hand_in()
    for _ in range(12):
        kit.recogniser.check(operation)
    asked = kit.server.asked
    assert all(later - earlier > 0.98 for earlier, later in zip(asked, asked[5:], strict=False))
    kit.stop.set()
    with pytest.raises(Cancelled):
        kit.recogniser.check(operation)


def test_recognitions_keep_to_five_hundred_an_hour_and_are_waited_for(kit, monkeypatch):
    for _ in range(HOURLY):
        assert kit.recogniser._hourly.take() == 0
    with pytest.raises(RecogniserUnavailable) as caught:
        kit.hand_in()
    assert caught.value.blameless
    assert 3500 < caught.value.pause <= 3600
    assert kit.server.operations == {}


def test_what_is_too_long_is_refused_before_anything_is_sent(kit, monkeypatch):
    kit.recording = replace(kit.recording, duration=4 * 3600 + 1.0)
    with pytest.raises(RecogniserRefused, match="4 h"):
        kit.hand_in()
    assert kit.server.operations == {}


def test_the_longer_the_recording_the_smaller_its_bit_rate(kit, tmp_path, monkeypatch):
    """Four hours have to fit into one body; a minute into one that is as much smaller."""
    monkeypatch.setattr("worker.recognisers.speechkit.CONTENT", 45_000_000 // 240)
    noise = np.random.default_rng(3).normal(0, 3000, 16000 * 60).astype(np.int16)
    kit.file = flac(tmp_path / "long.flac", noise)
    kit.recording = kit.record(kit.file)
    kit.hand_in()
    assert sent(kit).seconds == pytest.approx(60, abs=0.1)
    assert 45_000_000 // 240 * 0.7 < sent(kit).size < 45_000_000 // 240


def test_of_two_channels_a_refinement_replaces_its_own_final(kit):
    def raw(text: str, start: int) -> dict:
        return {"alternatives": [said(text, start, start + 900)]}

    kit.server.phrases = lambda operation: []
    operation = kit.hand_in()
    kit.server.finish(
        operation.removeprefix("speechkit:"),
        [
            event(0, "0", final=raw("раз", 0)),
            event(0, "1", final=raw("ноль", 500)),
            event(1, "0", final=raw("два", 1000)),
            event(1, "0", finalRefinement={"finalIndex": "1", "normalizedText": raw("2", 1000)}),
            event(1, "1", finalRefinement={"finalIndex": "0", "normalizedText": raw("0", 500)}),
        ],
    )
    assert kit.recogniser.check(operation).transcript.text == "раз 0 2"
