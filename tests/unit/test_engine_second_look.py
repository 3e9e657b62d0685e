"""Speech that the model passed over: where it is, and what becomes of what a second look finds."""

from __future__ import annotations

import numpy as np
import pytest

from worker.engine import RATE, cut, second_look
from worker.engine.line import Line


@pytest.fixture
def voice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The detector hears speech wherever the samples are not zero."""
    monkeypatch.setattr(
        cut, "hear", lambda clip: (clip[:: cut.FRAME] != 0).astype(np.float32) * 0.9
    )


def _clip(*runs: tuple[int, float]) -> np.ndarray:
    return np.concatenate([np.full(round(s * RATE), level, np.int16) for level, s in runs])


def _missed(clip: np.ndarray, found: list[Line]) -> list[tuple[int, int]]:
    return second_look.missed(clip, found, cut.stretches(cut.hear(clip), second_look.FINE))


@pytest.mark.usefixtures("voice")
def test_speech_that_no_line_covers_is_missed() -> None:
    clip = _clip((1, 4), (0, 1), (1, 3), (0, 1), (1, 3))
    assert _missed(clip, [Line(0, 4, "x"), Line(5, 8, "y"), Line(9, 12, "z")]) == []
    ((start, end),) = _missed(clip, [Line(0, 4, "x"), Line(9, 12, "z")])
    assert 4 < start / RATE < 5
    assert 8 < end / RATE < 9


@pytest.mark.usefixtures("voice")
def test_neighbouring_misses_are_read_as_one() -> None:
    clip = _clip((1, 4), (0, 1), (1, 3), (0, 1), (1, 3))
    ((start, end),) = _missed(clip, [Line(0, 4, "x")])
    assert 4 < start / RATE < 5
    assert end == len(clip)


@pytest.mark.usefixtures("voice")
def test_of_a_stretch_that_is_covered_in_part_only_the_rest_is_read_again() -> None:
    clip = _clip((1, 20))
    assert _missed(clip, [Line(0, 8, "x")]) == [(8 * RATE, 20 * RATE)]
    assert _missed(clip, [Line(0, 8, "x"), Line(15, 20, "y")]) == [(8 * RATE, 15 * RATE)]
    assert _missed(clip, [Line(0, 18.5, "x")]) == []  # its times are rough


@pytest.mark.usefixtures("voice")
def test_a_short_sound_is_not_worth_a_second_look() -> None:
    assert _missed(_clip((1, 4), (0, 1), (1, 0.3)), [Line(0, 4, "x")]) == []


def _thin(clip: np.ndarray, *found: Line) -> list[tuple[Line, tuple[float, float]]]:
    heard = cut.stretches(cut.hear(clip), second_look.FINE)
    return [
        (line, (start / RATE, end / RATE))
        for line, (start, end) in second_look.thin(clip, found, heard)
    ]


@pytest.mark.usefixtures("voice")
def test_a_line_with_too_few_words_for_its_speech_is_read_again_in_pieces() -> None:
    clip = _clip((1, 1), (0, 0.4), (1, 6), (0, 0.5), (1, 4))
    stretched = Line(0, 11.9, "Сегодня хорошая погода")
    (first, (start, end)), (second, (later, last)) = _thin(clip, stretched)
    assert first is second is stretched
    assert start == 0, "what is too short to be read alone stays with the next"
    assert 7.4 < end < later < 8
    assert last == len(clip) / RATE


@pytest.mark.usefixtures("voice")
@pytest.mark.parametrize(
    "text",
    [
        "Сегодня хорошая погода, и мы пойдем гулять в парк.",
        "1-0-0-0-1, 9-0-2",
        "今天天气很好我们去公园",
    ],
)
def test_a_line_with_words_enough_is_left_alone(text: str) -> None:
    assert _thin(_clip((1, 5)), Line(0, 5, text)) == []
    assert _thin(_clip((1, 5), (0, 20)), Line(0, 25, text)) == [], "silence is not speech"
    assert _thin(_clip((1, 3)), Line(0, 3, "да")) == [], "somebody may have drawn it out"


def _noted(**fields: object) -> list[Line]:
    return [Line(0, 2, "", left_out="no_speech"), Line(2, 4, "", **fields)]


def test_a_note_is_dropped_where_the_second_look_found_words() -> None:
    note, word = Line(0, 9, "", left_out="no_speech"), Line(3, 4, "да")
    assert second_look.settled([note, word]) == [word]
    later = Line(12, 13, "да")
    assert second_look.settled([later, note]) == [note, later]


def test_notes_of_one_kind_are_one() -> None:
    assert second_look.settled(_noted(left_out="no_speech")) == [
        Line(0, 4, "", left_out="no_speech")
    ]
    assert len(second_look.settled(_noted(left_out="loop"))) == 2


@pytest.mark.usefixtures("voice")
def test_what_is_read_again_stands_in_its_place_and_the_better_text_of_two_stays() -> None:
    """A stretch without text, a line that says too little, and one that says all there was."""
    gap, stretched, mumbled = _clip((1, 3), (0, 1), (1, 3)), _clip((1, 6)), _clip((1, 7))
    first = [
        [Line(0, 3, "the beginning of it")],
        [Line(0, 6, "too little")],
        [Line(0, 7, "nothing more")],
    ]
    again = {3: "and the end of it", 6: "what was said in all of these six seconds", 7: "no"}
    batches: list[int] = []

    def read(clips: list[np.ndarray]) -> list[list[Line]]:
        batches.append(len(clips))
        return [[Line(0, len(c) / RATE, again[round(len(c) / RATE)])] for c in clips]

    found = second_look.completed([gap, stretched, mumbled], first, read)

    assert [[line.text for line in lines] for lines in found] == [
        ["the beginning of it", again[3]],
        [again[6]],
        ["nothing more"],
    ]
    assert 3 < found[0][1].start < 4
    assert batches == [3]
    assert [len(lines) for lines in first] == [1, 1, 1]  # the first look's own are left alone


@pytest.mark.usefixtures("voice")
def test_a_second_look_reads_a_few_pieces_at_a_time() -> None:
    clips = [_clip((1, 2))] * (2 * second_look.TOGETHER + 1)
    batches: list[int] = []

    def read(some: list[np.ndarray]) -> list[list[Line]]:
        batches.append(len(some))
        return [[] for _ in some]

    assert second_look.completed(clips, [[] for _ in clips], read) == [[] for _ in clips]
    assert batches == [second_look.TOGETHER, second_look.TOGETHER, 1]
