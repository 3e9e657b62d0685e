"""`openai`: pieces within the server's limits, joined with right times, none lost, none twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from tests.acceptance.bench import Bench
from tests.acceptance.recogniser_rigs import TEXT, OpenAiRig, flac, rig, seconds, speech
from tests.acceptance.recogniser_servers import KEY
from tests.acceptance.service import wait_until
from worker.errors import Cancelled, LeaseLost, RecogniserRefused, RecogniserUnavailable, describe
from worker.recognisers.base import Finished, Unfinished
from worker.recognisers.local import Rows


@pytest.fixture
def server_rig(bench: Bench, tmp_path: Path) -> Iterator[OpenAiRig]:
    with rig("openai", bench, tmp_path) as made:
        yield made


def long(made: OpenAiRig, phrases: int = 4, **hints: str) -> None:
    made.file = speech(made.folder, phrases)
    made.recording = made.record(made.file, **hints)
    made.server.text = lambda call: f"piece {call.digest}."


def heard(made: OpenAiRig) -> list[str]:
    """The texts that the server gave, in order."""
    return [f"piece {call.digest}." for call in made.server.calls]


def test_a_recording_over_the_limit_is_cut_at_pauses_and_joined_with_right_times(server_rig):
    made = server_rig
    long(made)
    transcript = made.outcome().transcript
    assert len(made.server.calls) == 4
    assert all(call.seconds <= 10 for call in made.server.calls)
    assert transcript.text == " ".join(heard(made))
    assert len(set(heard(made))) == 4, "every piece is another one"
    # Two phrases with their pauses, and the same two again: so much later they are found.
    later = made.recording.duration / 2
    for one, two in zip(transcript.segments[:2], transcript.segments[2:], strict=True):
        assert two["start"] - one["start"] == pytest.approx(later, abs=0.6)
        assert two["end"] - one["end"] == pytest.approx(later, abs=0.6)
    starts = [segment["start"] for segment in transcript.segments]
    assert starts[0] < 0.5
    assert starts[1] == pytest.approx(phrase(made, 1) + 1.5, abs=1.0)
    for segment in transcript.segments:
        first, last = segment["words"][0], segment["words"][-1]
        assert segment["start"] <= first["start"] < last["end"] <= segment["end"]


def phrase(made: OpenAiRig, count: int) -> float:
    """Where the first so many phrases end, without the pause after the last."""
    return seconds(speech(made.folder, count)) - 1.5


@pytest.mark.parametrize(
    ("limits", "pieces"),
    [({}, 1), ({"openai_max_mb": 1.0}, 5)],
)
def test_each_limit_of_the_server_is_kept_and_no_piece_smaller_than_need_be(
    limits, pieces, bench, tmp_path
):
    with rig("openai", bench, tmp_path, **{"openai_max_seconds": 1400.0, **limits}) as made:
        long(made, 18)
        made.server.max_bytes = int(made.settings.openai_max_mb * 2**20)
        made.server.max_seconds = made.settings.openai_max_seconds
        assert isinstance(made.outcome(), Finished)
        assert len(made.server.calls) == pieces


def test_speech_without_a_pause_and_noise_that_does_not_shrink_stay_within_the_limits(
    bench, tmp_path
):
    """Noise is what FLAC cannot make smaller: the limit in bytes holds for it all the same."""
    with rig("openai", bench, tmp_path, openai_max_mb=1.0, openai_max_seconds=600.0) as made:
        voice = speech(tmp_path, 1, pause=0)
        samples = np.tile(_samples(voice), 12)
        noise = np.random.default_rng(1).normal(0, 1000, len(samples))
        made.file = flac(tmp_path / "noisy.flac", (samples * 0.9 + noise).astype(np.int16))
        made.recording = made.record(made.file)
        made.server.max_bytes = 2**20
        made.server.text = lambda call: f"piece {call.digest}."
        assert isinstance(made.outcome(), Finished)
        assert 2 <= len(made.server.calls) <= 3
        assert min(call.size / call.seconds for call in made.server.calls) > 22_000


def test_the_call_is_neutral_and_carries_the_hints(server_rig):
    made = server_rig
    made.recording = made.record(made.file, language="ru-RU", vocabulary="Ваулин, PocketBase")
    made.outcome()
    [call] = made.server.calls
    assert call.name == "audio.flac"
    assert call.fields["language"] == ["ru"]
    assert call.fields["prompt"] == ["Ваулин, PocketBase"]
    assert call.fields["model"] == ["whisper-1"]
    assert call.fields["timestamp_granularities[]"] == ["segment", "word"]
    made.recording = made.record(made.file)
    made.outcome()
    assert {"language", "prompt"}.isdisjoint(made.server.calls[1].fields)


def test_a_model_that_knows_plain_json_only_is_asked_for_that_from_then_on(server_rig):
    made = server_rig
    made.server.json_only = True
    verdict = made.outcome()
    assert verdict.transcript.text == TEXT
    [segment] = verdict.transcript.segments
    assert "words" not in segment
    assert 0 <= segment["start"] < segment["end"] <= made.recording.duration
    refused = made.server.max_seconds
    made.server.order(500)  # a call that would be for verbose_json would meet it alone
    made.recording = made.record(made.file)
    assert made.outcome().transcript.text == TEXT
    assert [call.fields["response_format"] for call in made.server.calls] == [["json"]] * 2
    assert refused == made.server.max_seconds


@pytest.mark.parametrize("form", ["json", "verbose_json"])
def test_a_form_that_is_set_is_the_only_one_asked_for(form, bench, tmp_path):
    with rig("openai", bench, tmp_path, openai_response=form) as made:
        made.server.json_only = True
        if form == "json":
            assert made.outcome().transcript.text == TEXT
        else:
            with pytest.raises(RecogniserRefused):
                made.hand_in()
            assert made.server.calls == []


def test_a_server_of_ones_own_needs_no_key(bench, tmp_path):
    with rig("openai", bench, tmp_path, openai_api_key="") as made:
        made.server.key = ""
        assert made.outcome().transcript.text == TEXT


def test_what_was_cut_for_wider_limits_is_cut_anew(bench, tmp_path):
    with rig("openai", bench, tmp_path, openai_max_seconds=20.0) as made:
        long(made, 6)
        made.plug(turn=0)
        assert made.submit() == Unfinished()
        made.settings = made.settings.model_copy(update={"openai_max_seconds": 10.0})
        made.server.max_seconds = 10.0
        made.server.calls.clear()
        made.plug()
        assert made.outcome().transcript.text == " ".join(heard(made))
        assert len(made.server.calls) == 6


@pytest.mark.parametrize("status", [0, 500, 503, 529])
def test_a_piece_that_fails_is_asked_for_again_within_the_turn(status, server_rig):
    long(server_rig, 2)
    server_rig.server.order(status)
    assert server_rig.outcome().transcript.text == " ".join(heard(server_rig))
    assert len(server_rig.server.calls) == 2


def test_pieces_that_are_there_stay_when_the_next_one_fails(server_rig):
    made = server_rig
    long(made)
    made.plug(turn=0)
    assert made.submit() == Unfinished()
    made.server.order(500)
    with pytest.raises(RecogniserUnavailable) as caught:
        made.submit()
    assert not caught.value.blameless, "it may be this recording's fault: attempts count"
    made.plug()
    assert made.outcome().transcript.text == " ".join(heard(made))
    assert len(made.server.calls) == 4, "no piece was paid for twice"


@pytest.mark.parametrize(
    ("status", "code"), [(401, "invalid_api_key"), (403, ""), (402, ""), (404, "model_not_found"),
                         (429, "insufficient_quota"), (400, "model_not_found"), (307, "")]
)  # fmt: skip
def test_what_the_configuration_is_to_blame_for_kills_no_recording(status, code, server_rig):
    server_rig.server.order(status, code)
    with pytest.raises(RecogniserUnavailable) as caught:
        server_rig.hand_in()
    assert caught.value.blameless
    assert str(status) in caught.value.reason
    assert KEY not in describe(caught.value)
    assert server_rig.outcome().transcript.text == TEXT


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_what_the_recording_is_to_blame_for_is_final(status, server_rig):
    server_rig.server.order(status, "bad_audio", times=2)
    with pytest.raises(RecogniserRefused) as caught:
        server_rig.hand_in()
    assert str(status) in caught.value.reason
    assert KEY not in describe(caught.value)


def test_a_short_pause_that_is_asked_for_is_waited_for_at_once(server_rig):
    server_rig.server.order(429, Retry_After="1")
    assert server_rig.outcome().transcript.text == TEXT


@pytest.mark.parametrize("answer", [b"", b"<html>welcome</html>", [], {"error": "x"}, {"text": 7},
                                    {"segments": [7]}])  # fmt: skip
def test_an_answer_that_is_no_transcription_is_no_text(answer, server_rig):
    server_rig.server.shape = lambda good: answer
    server_rig.plug(turn=0)
    with pytest.raises(RecogniserUnavailable, match="no transcription"):
        server_rig.hand_in()


def test_a_piece_with_speech_and_no_text_is_asked_for_again_and_never_left_out(server_rig):
    """Cases: a recogniser that drops one chunk, or answers with empty segments."""
    made = server_rig
    long(made, 3)
    empty = {"text": "", "segments": []}
    answers = iter([None, empty])
    made.server.shape = lambda good: next(answers, None) or good
    transcript = made.outcome().transcript
    assert transcript.text == " ".join([*heard(made)[:1], *heard(made)[2:]])
    assert heard(made)[1] == heard(made)[2], "the same piece, asked for twice"
    assert len(transcript.segments) == 3

    long(made, 2)
    made.server.shape = lambda good: empty
    with pytest.raises(RecogniserUnavailable, match="no text in 4 s of speech"):
        made.hand_in()


def test_silence_is_not_sent_at_all(server_rig):
    server_rig.says("")
    assert server_rig.outcome().transcript.text == ""
    assert server_rig.server.calls == []


def test_a_stop_does_not_wait_for_the_server(server_rig):
    made = server_rig
    made.server.gate.clear()
    try:
        ended: list[BaseException] = []

        def run() -> None:
            try:
                made.submit()
            except Cancelled as error:
                ended.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        wait_until(lambda: made.server.calls, what="a call")
        made.stop.set()
        thread.join(3)
        assert ended
    finally:
        made.server.gate.set()


def test_a_later_holder_makes_a_former_ones_answer_void(server_rig):
    """The job was given out again while its first holder waits for the server."""
    made = server_rig
    long(made, 2)
    made.server.gate.clear()
    ended: list[object] = []

    def run() -> None:
        try:
            ended.append(made.hand_in())
        except LeaseLost as error:
            ended.append(error)

    first = threading.Thread(target=run)
    first.start()
    try:
        wait_until(lambda: made.server.calls, what="the first holder's call")
        later = replace(made.recording, lease_token=made.bench.hold(made.recording.id))
        taken = Rows(made.bench.client).take(later, "openai")
        assert taken["done"] == []
    finally:
        made.server.gate.set()
        first.join(20)
    assert isinstance(ended[0], LeaseLost)
    made.server.calls.clear()
    made.recording = later
    assert made.outcome().transcript.text == " ".join(heard(made))


def _samples(file: Path) -> np.ndarray:
    with av.open(str(file)) as container:
        return np.concatenate([f.to_ndarray().reshape(-1) for f in container.decode(audio=0)])
