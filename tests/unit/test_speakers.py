"""From voices to labels: who spoke when, the same however the recognition was broken off."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine.voices import KEY, pack, unpack
from worker.metrics import Metrics
from worker.recognisers import base, speakers
from worker.recognisers.choice import Recognisers
from worker.recognisers.speakers import grouped, labelled
from worker.settings import Settings

WIDTH = 32


def voice(speaker: int, seed: int = 0, spread: float = 0.05) -> np.ndarray:
    """A vector of one of up to sixteen speakers who have nothing in common."""
    vector = np.zeros(WIDTH)
    vector[2 * speaker] = 1
    vector += np.random.default_rng([speaker, seed]).normal(0, spread, WIDTH)
    return vector / np.linalg.norm(vector)


def said(
    start: float, seconds: float, speaker: int | None, model: str = "m", **fields: Any
) -> dict[str, Any]:
    """A segment; without a speaker it was too short to tell."""
    packed = "" if speaker is None else pack(model, voice(speaker, round(start * 100)))
    return {"start": start, "end": start + seconds, "text": "a", KEY: packed, **fields}


def who(*segments: dict[str, Any], most: int = 10, alike: float = 0.5) -> list[str | None]:
    return [each.get("speaker") for each in labelled(segments, most, alike)]


def test_numbers_go_by_first_appearance() -> None:
    turns = [said(n * 10, 5, speaker) for n, speaker in enumerate([7, 3, 7, 0, 3])]
    assert who(*turns) == ["1", "2", "1", "3", "2"]


def test_one_speaker_is_one() -> None:
    assert who(*(said(n * 10, 5, 4) for n in range(20))) == ["1"] * 20


def test_nothing_of_the_voices_is_left_and_the_rest_stays() -> None:
    [one] = labelled([said(0, 5, 1, doubtful=True, words=[])], 10, 0.5)
    assert one == {
        "start": 0, "end": 5, "text": "a", "doubtful": True, "words": [], "speaker": "1"
    }  # fmt: skip


def test_where_no_voice_was_looked_for_nothing_is_added() -> None:
    plain = [{"start": 0.0, "end": 1.0, "text": "a"}, {"start": 2.0, "end": 3.0, "text": "b"}]
    assert labelled(plain, 10, 0.5) == plain
    assert labelled([], 10, 0.5) == []


def test_a_short_one_has_the_speaker_of_the_nearest() -> None:
    segments = [
        said(0, 0.4, None),
        said(1, 5, 1),
        said(6.1, 0.5, None),
        said(9, 0.5, None),
        said(10, 5, 2),
        said(30, 0.5, None),
    ]
    assert who(*segments) == ["1", "1", "1", "2", "2", "2"]


def test_nobody_long_enough_is_one_speaker() -> None:
    assert who(said(0, 0.4, None), said(3, 0.4, None)) == ["1", "1"]


def test_what_was_left_out_has_no_speaker() -> None:
    nothing = {"start": 6.0, "end": 9.0, "text": "", "left_out": "no_speech"}
    assert who(said(0, 5, 1), nothing, said(10, 5, 2)) == ["1", None, "2"]


def test_channels_share_no_speaker() -> None:
    """The leak of one channel in the other is not the other's speaker."""
    segments = [
        said(0, 5, 1, channel=1),
        said(6, 5, 1, channel=0),
        said(12, 5, 1, channel=1),
        said(18, 5, 2, channel=1),
        said(24, 0.3, None, channel=0),
    ]
    assert who(*segments) == ["1", "2", "1", "3", "2"]


def test_voices_of_another_model_are_not_compared() -> None:
    """The owner changed the model while a recording was in work."""
    segments = [said(0, 5, 1), said(6, 5, 5, model="other"), said(20, 5, 2), said(26, 5, 2)]
    assert who(*segments) == ["1", "1", "2", "2"]
    segments[1][KEY] = pack("wider", np.ones(256, np.float32) / 16)
    assert who(*segments) == ["1", "1", "2", "2"]


def test_there_are_no_more_than_the_owner_says() -> None:
    """The one who said least goes to whoever is nearest, and the others stay apart, though they
    are more alike."""
    vectors = np.eye(WIDTH)[:3]
    vectors[1, :2] = 0.3, 0.954  # the first two are rather alike
    vectors[2, 1:3] = 0.1, 0.995  # the last one a little like the second
    seconds = [60.0, 60.0, 2.0]
    assert grouped(vectors, seconds, 3, 0.5) == [(0,), (1,), (2,)]
    assert grouped(vectors, seconds, 2, 0.5) == [(0,), (1, 2)]
    assert grouped(vectors, seconds, 1, 0.5) == [(0, 1, 2)]


def test_the_threshold_decides_how_alike_is_one() -> None:
    near = np.zeros(WIDTH)
    near[:2] = 0.6, 0.8
    vectors = np.array([np.eye(WIDTH)[0], near])  # a cosine of 0.6
    assert grouped(vectors, [1, 1], 10, 0.5) == [(0, 1)]
    assert grouped(vectors, [1, 1], 10, 0.7) == [(0,), (1,)]


def test_hours_are_grouped_in_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same speakers as all at once, though never more than a block is compared."""
    sequence = np.random.default_rng(5).integers(0, 6, 300)
    segments = [said(n * 10.0, 4, int(speaker)) for n, speaker in enumerate(sequence)]
    at_once = who(*segments)
    assert len(set(at_once)) == 6
    largest = []
    merged = speakers._merged

    def watched(sums: Any, *rest: Any) -> Any:
        largest.append(len(sums))
        return merged(sums, *rest)

    monkeypatch.setattr(speakers, "BLOCK", 40)
    monkeypatch.setattr(speakers, "CROWD", 12)
    monkeypatch.setattr(speakers, "_merged", watched)
    assert who(*segments) == at_once
    assert max(largest) <= 40


def test_a_crowd_of_strangers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where nobody is like anybody, the end comes and there are no more than asked for."""
    monkeypatch.setattr(speakers, "BLOCK", 40)
    monkeypatch.setattr(speakers, "CROWD", 12)
    strangers = np.random.default_rng(1).normal(size=(500, 192))
    strangers /= np.linalg.norm(strangers, axis=1)[:, None]
    groups = grouped(strangers, [1.0] * 500, 10, 0.9)
    assert len(groups) == 10
    assert sorted(n for group in groups for n in group) == list(range(500))


class Finished:
    """A PocketBase with one operation that is done."""

    def __init__(self, segments: list[dict[str, Any]]) -> None:
        self.answer = {
            "state": "done",
            "parts": [{"unit": n, "segments": [each]} for n, each in enumerate(segments)],
            "units": len(segments),
            "language": "ru",
            "engine": "e",
        }

    def request(self, method: str, path: str) -> dict[str, Any]:
        assert (method, path) == ("GET", "/api/operations/op")
        return self.answer


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        ({}, ["1", "2"]),
        ({"speakers_max": 1}, ["1", "1"]),
        ({"speakers_threshold": 0.0}, ["1", "1"]),
    ],
)
def test_the_owners_settings_count(given: dict[str, Any], labels: list[str]) -> None:
    settings = Settings(_env_file=None, telegram_enabled=False, **given)
    one, other = said(0, 5, 1), said(9, 5, 1)
    vector = np.zeros(WIDTH, np.float32)
    vector[1:3] = 1, 0.5
    other[KEY] = pack("m", vector / np.linalg.norm(vector))
    one[KEY] = pack("m", np.eye(WIDTH, dtype=np.float32)[2])
    registry = prometheus_client.CollectorRegistry()
    client: Any = Finished([one, other])
    with Recognisers(settings, client, threading.Event(), Metrics(registry)) as recognisers:
        verdict = recognisers.check("op")
    assert isinstance(verdict, base.Finished)
    assert [each["speaker"] for each in verdict.transcript.segments] == labels
    assert verdict.transcript.text == "a a"
    assert KEY not in json.dumps(verdict.transcript.segments)


turns = st.lists(st.integers(0, 5), min_size=1, max_size=40)


@given(turns, st.randoms(use_true_random=False))
def test_any_turns_give_their_own_labels(sequence: Sequence[int], chance: Any) -> None:
    segments = [said(n * 10.0, chance.uniform(1, 9), each) for n, each in enumerate(sequence)]
    numbers: dict[int, str] = {}
    expected = [numbers.setdefault(each, str(len(numbers) + 1)) for each in sequence]
    assert who(*segments) == expected
    # What came back from the database, in whatever parts it was written, is the same.
    assert who(*json.loads(json.dumps(segments))) == expected


@given(
    st.lists(st.lists(st.floats(-1, 1), min_size=4, max_size=4), max_size=25),
    st.integers(1, 5),
    st.floats(0, 0.99),
)
def test_whatever_the_vectors_everyone_is_in_one_group(
    rows: list[list[float]], most: int, alike: float
) -> None:
    vectors = np.array(rows, dtype=float).reshape(-1, 4)
    vectors[:, 0] += 2
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    groups = grouped(vectors, [1.0] * len(rows), most, alike)
    assert sorted(n for group in groups for n in group) == list(range(len(rows)))
    assert len(groups) <= most
    assert groups == sorted(groups) == grouped(vectors, [1.0] * len(rows), most, alike)


def test_a_voice_is_packed_small_and_whole() -> None:
    vector = voice(3, 1).astype(np.float32)
    packed = pack("0123abcd", vector)
    model, found = unpack(packed)
    assert model == "0123abcd"
    assert np.allclose(found, vector, atol=1e-3)
    assert len(pack("0123abcd", np.zeros(256, np.float32))) < 700
