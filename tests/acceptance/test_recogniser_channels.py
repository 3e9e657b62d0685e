"""Remote recognisers know no channels: each is sent as a sound of its own, and told apart here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance import speech
from tests.acceptance.bench import Bench
from tests.acceptance.recogniser_rigs import OpenAiRig, Rig, SpeechKitRig, rig
from tests.acceptance.recogniser_servers import KEY, OpenAiServer, serving
from tests.acceptance.service import Service
from tests.acceptance.speech import Sound, pause, said
from worker.errors import RecogniserUnavailable
from worker.recognisers.base import Finished, Refused, Running, Unknown

Remote = OpenAiRig | SpeechKitRig


@pytest.fixture(params=["openai", "speechkit"])
def made(request: pytest.FixtureRequest, bench: Bench, tmp_path: Path) -> Iterator[Remote]:
    with rig(request.param, bench, tmp_path, **slow(request.param)) as one:
        yield one


@pytest.fixture
def kit(bench: Bench, tmp_path: Path) -> Iterator[SpeechKitRig]:
    with rig("speechkit", bench, tmp_path) as one:
        yield one


def slow(name: str) -> dict[str, float]:
    """A whole call in one piece."""
    return {"openai_max_seconds": 60.0} if name == "openai" else {}


def turns() -> tuple[Sound, Sound]:
    """English on the left, and Russian on the right once that is over."""
    english, russian = said("en"), said("ru")
    left = np.concatenate([english, pause(2 + len(russian) / speech.RATE)])
    right = np.concatenate([pause(len(english) / speech.RATE + 2), russian])
    return left[: len(right)], right[: len(left)]


def hand(made: Rig, left: Sound, right: Sound) -> None:
    made.file = speech.write(made.folder / "call.flac", left, right)
    made.recording = made.record(made.file)
    if isinstance(made, OpenAiRig):
        made.server.text = lambda call: f"piece {call.digest}."
    elif isinstance(made, SpeechKitRig):
        made.server.phrases = lambda operation: [f"piece {operation.digest}."]


def sent(made: Remote) -> list[tuple[np.ndarray, int]]:
    """What the other side heard, as samples and their rate."""
    if isinstance(made, OpenAiRig):
        return [(call.samples, speech.RATE) for call in made.server.calls]
    return [(operation.samples * 32768, 48_000) for operation in made.server.operations.values()]


def loud(samples: np.ndarray, rate: int) -> np.ndarray:
    """Which seconds of it hold a sound."""
    whole = samples[: len(samples) // rate * rate].reshape(-1, rate).astype(np.float64)
    return np.sqrt((whole**2).mean(axis=1)) > 30


def finish(made: Remote, operation: str) -> Finished:
    if isinstance(made, SpeechKitRig):
        for _, identifier in each(operation):
            made.server.finish(identifier)
    verdict = made.recogniser.check(operation)
    assert isinstance(verdict, Finished), verdict
    return verdict


def each(operation: str) -> list[tuple[str, str]]:
    """SpeechKit's operations in one of ours, by channel."""
    pairs = operation.removeprefix("speechkit:").split(",")
    return [(channel, identifier) for channel, _, identifier in (p.partition("=") for p in pairs)]


def test_each_channel_is_heard_alone_and_its_segments_say_so(made):
    hand(made, *turns())
    operation = made.hand_in()
    first, second = (loud(*one) for one in sent(made))
    if isinstance(made, SpeechKitRig):  # both are as long as the recording
        assert len(first) == len(second) >= 8
        assert first.any()
        assert not (first & second).any(), "neither hears the other"
        assert made.server.operations.keys() == {identifier for _, identifier in each(operation)}
    transcript = finish(made, operation).transcript
    assert [part["channel"] for part in transcript.segments] == [0, 1]
    assert transcript.text == " ".join(part["text"] for part in transcript.segments)
    assert len({part["text"] for part in transcript.segments}) == 2
    assert transcript.language == "ru"
    if isinstance(made, OpenAiRig):
        english = len(said("en")) / speech.RATE
        assert transcript.segments[1]["start"] == pytest.approx(english + 2, abs=1)
        assert transcript.segments[0]["end"] == pytest.approx(english, abs=1)
        assert [call.seconds < english + 1.5 for call in made.server.calls] == [True, True]


@pytest.mark.parametrize("other", ["silence", "leak", "same"])
def test_a_channel_without_a_voice_of_its_own_is_not_sent(made, other):
    voice = said("ru")
    left = {"silence": np.zeros_like(voice), "leak": (voice * 0.03).astype(np.int16),
            "same": (voice * 0.5).astype(np.int16)}[other]  # fmt: skip
    hand(made, left, voice)
    operation = made.hand_in()
    assert len(sent(made)) == 1
    assert [part["channel"] for part in finish(made, operation).transcript.segments] == [1]


def test_two_silent_channels_send_nothing_and_give_no_text(made):
    hand(made, pause(3), speech.noise(3, 4))
    operation = made.hand_in()
    assert sent(made) == []
    verdict = made.recogniser.check(operation)
    assert isinstance(verdict, Finished)
    assert (verdict.transcript.text, verdict.transcript.segments) == ("", [])
    assert verdict.transcript.engine
    made.recogniser.cancel(operation)


def test_a_leak_is_silenced_where_the_channel_has_a_voice_elsewhere(made):
    left, right = turns()
    hand(made, left, right + (left * 0.03).astype(np.int16))
    operation = made.hand_in()
    assert len(sent(made)) == 2
    if isinstance(made, SpeechKitRig):
        samples, rate = sent(made)[1]
        english = len(said("en")) / speech.RATE
        assert np.abs(samples[: int((english - 1) * rate)]).max() < 3
    assert [part["channel"] for part in finish(made, operation).transcript.segments] == [0, 1]


def test_both_operations_have_to_end(kit):
    hand(kit, *turns())
    operation = kit.hand_in()
    (_, one), (_, other) = each(operation)
    assert isinstance(kit.recogniser.check(operation), Running)
    kit.server.finish(one)
    assert isinstance(kit.recogniser.check(operation), Running)
    kit.server.fail(other, 3)
    assert isinstance(kit.recogniser.check(operation), Refused)
    kit.server.operations.pop(other)
    assert isinstance(kit.recogniser.check(operation), Unknown)


def test_what_is_refused_comes_before_what_is_under_way(kit):
    hand(kit, *turns())
    operation = kit.hand_in()
    kit.server.fail(each(operation)[1][1], 3)
    assert isinstance(kit.recogniser.check(operation), Refused)


def test_both_results_are_deleted(kit):
    hand(kit, *turns())
    operation = kit.hand_in()
    finish(kit, operation)
    kit.recogniser.cancel(operation)
    assert kit.server.deleted == [identifier for _, identifier in each(operation)]


def test_half_a_recording_is_not_left_behind(kit):
    """The second channel does not get through: the first one's operation is to be removed."""
    hand(kit, *turns())
    begun: list[str] = []
    answer = kit.server.answer

    def once(request):
        if request.path.endswith("recognizeFileAsync") and kit.server.operations:
            begun.extend(kit.server.operations)
            return 503, {"code": 14, "message": f"no: {KEY}", "details": []}
        return answer(request)

    kit.server.answer = once
    with pytest.raises(RecogniserUnavailable):
        kit.hand_in()
    assert kit.left == [f"speechkit:0={identifier}" for identifier in begun]
    assert len(begun) == 1


def test_a_call_is_turned_over_in_pieces_and_goes_on_after_a_turn(bench, tmp_path):
    """The pieces of both channels are kept with their channel and what is its own."""
    with rig("openai", bench, tmp_path) as made:
        left, right = turns()
        hand(made, np.concatenate([left, left]), np.concatenate([right, right]))
        made.plug(turn=0)
        transcript = finish(made, made.hand_in()).transcript
        assert [part["channel"] for part in transcript.segments] == [0, 1, 0, 1]
        assert len(made.server.calls) == 4
        units = json.loads(bench.service.rows("SELECT units FROM operations")[0]["units"])
        assert [unit[3] for unit in units] == [0, 1, 0, 1]


def test_a_senders_hint_reaches_a_remote_recogniser(tmp_path: Path) -> None:
    with serving(OpenAiServer()) as server:
        service = Service(tmp_path, RECOGNISER="openai", OPENAI_URL=f"{server.url}/v1",
                          OPENAI_API_KEY=KEY, POLL_SECONDS="0.1", CHECK_SECONDS="0.1")  # fmt: skip
        try:
            service.start("pb", "media", "pipeline")
            user = service.user()
            path = speech.write(tmp_path / "call.flac", *turns())
            for hints, channels in (({"channels": "split"}, {0, 1}), ({}, {None})):
                job = user.upload(path, **hints)
                assert user.wait(job)["transcription_text"]
                [row] = service.rows("SELECT segments FROM transcripts WHERE recording = ?", job)
                found = {part.get("channel") for part in json.loads(row["segments"])}
                assert found == channels
        finally:
            service.close()
