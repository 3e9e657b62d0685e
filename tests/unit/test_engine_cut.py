"""Where recordings are cut: pure rules, and the detector fed in windows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.engine import RATE, cut
from worker.engine.cut import FRAME, RULES


def _voice(*runs: tuple[float, float]) -> np.ndarray:
    """Probabilities from (probability, seconds) runs."""
    return np.concatenate(
        [np.full(round(seconds * RATE / FRAME), value, np.float32) for value, seconds in runs]
    )


def _units(probabilities: np.ndarray) -> list[tuple[float, float]]:
    length = len(probabilities) * FRAME
    return [(a / RATE, b / RATE) for a, b in cut.units(probabilities, length)]


@pytest.mark.parametrize("level", [0.0, 0.1, 0.49])
def test_nothing_that_sounds_like_speech_gives_no_units(level: float) -> None:
    assert _units(_voice((level, 60))) == []


def test_a_click_is_no_speech() -> None:
    assert _units(_voice((0.0, 5), (0.9, 0.064), (0.0, 5))) == []


def test_an_empty_recording_has_no_units() -> None:
    assert cut.units(np.zeros(0, np.float32), 0) == []


def test_neighbours_are_merged_and_far_speech_is_not() -> None:
    found = _units(_voice((0.9, 3), (0.0, 1), (0.9, 3), (0.0, 10), (0.9, 3)))
    assert [round(b - a) for a, b in found] == [7, 3]


def test_a_unit_ends_at_the_pause_before_it_grows_too_long() -> None:
    found = _units(_voice((0.9, 15), (0.0, 1), (0.9, 15), (0.0, 1)))
    assert len(found) == 2
    assert 15 < found[0][1] < found[1][0] < 16


def test_speech_without_a_pause_is_cut_where_it_is_quietest() -> None:
    found = _units(_voice((0.9, 20), (0.45, 0.5), (0.9, 15)))
    assert len(found) == 2
    assert 20 <= found[0][1] <= 20.5


def test_a_lower_probability_keeps_speech_going_but_does_not_begin_it() -> None:
    assert _units(_voice((0.0, 1), (0.45, 10), (0.0, 1))) == []
    ((start, end),) = _units(_voice((0.0, 1), (0.9, 1), (0.45, 10), (0.0, 1)))
    assert end - start > 11


RUNS = st.lists(st.tuples(st.floats(0, 1, width=32), st.floats(0.04, 40)), min_size=1, max_size=25)


@settings(max_examples=80, deadline=None)
@given(RUNS)
def test_units_are_ordered_apart_short_enough_and_hold_all_speech(
    runs: list[tuple[float, float]],
) -> None:
    probabilities = _voice(*runs)
    length = len(probabilities) * FRAME
    units = cut.units(probabilities, length)
    assert all(0 <= a < b <= length for a, b in units)
    assert all(b - a <= RULES.longest * RATE for a, b in units)
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(units))
    held = np.zeros(length, dtype=bool)
    for a, b in units:
        held[a:b] = True
    for first, last in cut.stretches(probabilities):
        assert held[first * FRAME : last * FRAME].all()


class Counting:
    """A stand-in for the network: remembers the past, as that does."""

    def __init__(self) -> None:
        self.state = 0.0

    def hear(self, frames: np.ndarray) -> np.ndarray:
        heard = []
        for frame in frames:
            self.state = 0.5 * self.state + float(np.abs(frame).mean())
            heard.append(self.state)
        return np.array(heard, np.float32)


@pytest.mark.parametrize("window", [1, 7, 1000])
def test_windows_do_not_show_in_the_result(window: int) -> None:
    audio = np.random.default_rng(1).integers(-3000, 3000, 100 * FRAME + 17).astype(np.int16)
    whole = np.concatenate(list(cut.listen(audio, Counting(), window=101)))
    parts = np.concatenate(list(cut.listen(audio, Counting(), window=window)))
    assert len(whole) == 101
    assert np.array_equal(whole, parts)


def test_every_window_stands_in_the_same_place() -> None:
    """Ten hours have two thousand of them."""
    audio = np.random.default_rng(1).integers(-3000, 3000, 12 * FRAME + 17).astype(np.int16)
    found = list(cut.windows(audio, window=5))
    assert [len(window) for window in found] == [5, 5, 3]
    assert len({window.__array_interface__["data"][0] for window in found}) == 1
    copies = np.concatenate([window.copy() for window in cut.windows(audio, window=5)])
    padded = np.pad(audio, (0, FRAME - 17)).astype(np.float32) / 32768
    assert np.array_equal(copies.reshape(-1), padded)
    assert list(cut.windows(audio[:0])) == []


def test_the_network_itself_does_not_notice_windows() -> None:
    audio = np.random.default_rng(2).integers(-3000, 3000, 3 * RATE).astype(np.int16)
    whole = np.concatenate(list(cut.listen(audio, cut.Silero())))
    parts = np.concatenate(list(cut.listen(audio, cut.Silero(), window=5)))
    np.testing.assert_allclose(whole, parts, atol=1e-5)


def _noise(level: float) -> np.ndarray:
    return np.random.default_rng(3).normal(0, level, 20 * RATE)


def _hum() -> np.ndarray:
    at = np.arange(20 * RATE) / RATE
    return sum(4000 / n * np.sin(2 * np.pi * 50 * n * at) for n in (1, 2, 3))


@pytest.mark.parametrize(
    "sound",
    [np.zeros(20 * RATE), _noise(30), _noise(3000), _hum()],
    ids=["silence", "soft noise", "loud noise", "hum"],
)
def test_silence_noise_and_hum_hold_no_speech(sound: np.ndarray) -> None:
    audio = sound.astype(np.int16)
    heard = np.concatenate(list(cut.listen(audio, cut.Silero())))
    assert cut.units(heard, len(audio)) == []
