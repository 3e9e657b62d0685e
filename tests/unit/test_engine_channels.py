"""Whose voice is in a channel: its own, the other's leak, or nobody's."""

from __future__ import annotations

import numpy as np
import pytest

from worker.engine import channels

FRAMES = 200


def _heard(own: float, other: float) -> float:
    """How much of a channel that the detector takes for speech is heeded."""
    probabilities = np.full(FRAMES, 0.9, np.float32)
    levels = (np.full(FRAMES, own), np.full(FRAMES, other))
    return float(np.mean(channels.heeded(probabilities, *levels) > 0.5))


@pytest.mark.parametrize(
    ("own", "other", "heard"),
    [
        (0.1, 0.0, 1),
        (0.1, 0.1, 1),
        (0.02, 0.1, 1),  # softer by 14 dB: a voice
        (0.008, 0.1, 0),  # by 22 dB: a leak
        (0.0002, 0.0, 0),  # a hiss
        (0.001, 0.0, 1),  # somebody far away
    ],
)
def test_a_channel_is_heeded_where_it_is_not_only_the_others(
    own: float, other: float, heard: float
) -> None:
    assert _heard(own, other) == heard


def test_a_soft_voice_is_heeded_in_the_others_pauses() -> None:
    own = np.full(FRAMES, 0.005)
    other = np.where(np.arange(FRAMES) < FRAMES // 2, 0.2, 0.0)
    heeded = channels.heeded(np.full(FRAMES, 0.9, np.float32), own, other) > 0.5
    assert not heeded[: FRAMES // 2].any()
    assert heeded[FRAMES // 2 + channels.AROUND :].all()


def test_a_gap_between_two_words_does_not_let_the_leak_through() -> None:
    other = np.where(np.arange(FRAMES) % 8 < 5, 0.2, 0.0)  # a frame is 32 ms
    heeded = channels.heeded(np.full(FRAMES, 0.9, np.float32), np.full(FRAMES, 0.005), other)
    assert not heeded[channels.AROUND : -channels.AROUND].any()
