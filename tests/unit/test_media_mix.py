"""One channel out of many, with the speech still in it."""

from __future__ import annotations

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.media_corpus import tone
from worker.media.mix import Mono, mix


@given(
    st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=9),
)
def test_a_mix_never_loses_a_sound_that_the_channels_share(gains: list[float]) -> None:
    sound = tone(0.1, 8000)

    mixed = mix(np.stack([np.float32(gain) * sound for gain in gains]))

    loudest = max(abs(gain) for gain in gains) ** 2 * (sound**2).sum()
    assert (mixed**2).sum() >= 0.099 * loudest
    assert mixed.shape == (1, len(sound))


def test_two_voices_are_mixed() -> None:
    one = np.random.default_rng(1).standard_normal(8000).astype("f4")
    other = np.random.default_rng(2).standard_normal(8000).astype("f4")

    assert np.allclose(mix(np.stack([one, other])), (one + other) / 2, atol=1e-6)


def test_opposite_phases_under_a_different_noise_keep_the_voice() -> None:
    voice = tone(1, 8000)
    hiss = np.random.default_rng(1).standard_normal((2, 8000)).astype("f4") * 0.01

    mixed = mix(np.stack([voice, -voice]) + hiss)

    assert np.corrcoef(mixed[0], voice)[0, 1] > 0.99


def test_the_choice_between_equals_does_not_flap() -> None:
    voice = tone(1, 8000)

    for factor in (0.9, 1.0, 1.1):
        mixed = mix(np.stack([voice, -np.float32(factor) * voice]))
        assert np.array_equal(mixed[0], voice)


ROOMS = [("mono", 1), ("stereo", 2), ("3.0", 3), ("5.1", 6), ("7.1", 8), ("hexadecagonal", 16)]
NAMELESS = [(f"{count}C", count) for count in (1, 2, 3, 7, 8, 9, 16, 24, 64)]


@pytest.mark.parametrize(("name", "count"), ROOMS + NAMELESS)
def test_any_number_of_channels(name: str, count: int) -> None:
    packed = np.repeat(tone(1, 16000, 0.1), count)[None]
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(packed), "flt", name)
    frame.sample_rate = 16000
    mono = Mono(16000)

    parts = [each.to_ndarray()[0] for part in (frame, None) for each in mono.convert(part)]

    samples = np.concatenate(parts) / 32768
    assert len(samples) == 16000
    assert np.abs(samples).max() == pytest.approx(0.1, rel=0.05)
