"""Pauses and leases, as the pure functions that they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.jobs import Step
from worker.pipeline.backoff import JITTER, backoff, with_jitter
from worker.pipeline.leases import decode_limit, give_up_after, lease_seconds
from worker.settings import Settings

attempts = st.integers(min_value=-5, max_value=10_000)
bases = st.floats(min_value=0.001, max_value=3600)
ceilings = st.floats(min_value=0.001, max_value=86400)
draws = st.floats(min_value=0, max_value=1, exclude_max=True)
durations = st.floats(min_value=1, max_value=240 * 3600)


@given(attempts, bases, ceilings)
def test_a_pause_never_falls_with_the_attempts_nor_leaves_its_bounds(times, base, ceiling):
    pause = backoff(times, base, ceiling)
    assert 0 < pause <= ceiling
    assert pause >= min(base, ceiling)
    assert backoff(times + 1, base, ceiling) >= pause


@given(st.integers(min_value=1, max_value=60), bases, ceilings)
def test_a_pause_below_its_ceiling_doubles(times, base, ceiling):
    first, second = backoff(times, base, ceiling), backoff(times + 1, base, ceiling)
    if first < ceiling:
        assert second == min(2 * first, ceiling)
        assert second > first


@given(st.floats(min_value=0.001, max_value=86400), draws)
def test_jitter_only_stretches_and_stays_in_range(pause, draw):
    stretched = with_jitter(pause, draw)
    assert pause <= stretched <= pause * (1 + JITTER)


@given(st.integers(min_value=30, max_value=1000), draws, draws)
def test_jitter_comes_after_the_ceiling(times, one, other):
    """Jobs that all rest as long as is allowed still part."""
    first, second = (with_jitter(backoff(times, 5, 900), draw) for draw in (one, other))
    assert (first == second) == (one == other) or abs(one - other) < 1e-9
    assert max(first, second) <= 900 * (1 + JITTER)


def test_jitter_is_drawn_each_time():
    assert len({with_jitter(100) for _ in range(50)}) > 40


def test_the_defaults_outlive_a_recogniser_that_is_away():
    """Cases: three attempts burn in three seconds while it refuses for a minute."""
    settings = Settings(_env_file=None, telegram_enabled=False)
    pauses = [
        backoff(n, settings.backoff_seconds, settings.backoff_max_seconds)
        for n in range(1, settings.max_attempts + 1)
    ]
    assert sum(pauses[:5]) > 60
    assert sum(pauses) > 30 * 60
    assert pauses[0] <= 10, "and a blip does not keep anybody waiting"


@given(durations)
def test_a_lease_is_no_shorter_than_its_step_can_take(duration):
    """Download, decoding up to its limit, and upload, on the slowest line admitted."""
    transfer = duration / 5
    assert lease_seconds(Step.NORMALISE, duration) >= 2 * transfer + decode_limit(duration)
    assert lease_seconds(Step.SUBMIT, duration) >= transfer + 120
    for step in (Step.CHECK, Step.FINISH):
        assert lease_seconds(step, duration) >= 2 * 60, "some requests of 30 s at most"


@given(durations, durations, st.sampled_from(Step))
def test_a_longer_recording_never_has_a_shorter_lease(one, other, step):
    shorter, longer = sorted((one, other))
    assert lease_seconds(step, shorter) <= lease_seconds(step, longer)
    assert decode_limit(shorter) <= decode_limit(longer)


@pytest.mark.parametrize("hours", [0.1, 12, 240])
def test_decoding_may_take_longer_than_was_ever_measured(hours):
    """Measured: three hours of webm in 28 s. Ten times slower is still within the limit."""
    assert decode_limit(hours * 3600) > 10 * 28 * hours / 3


@given(durations)
def test_giving_up_comes_long_after_the_slowest_recognition(duration):
    assert give_up_after(duration) >= 24 * 3600
    assert give_up_after(duration) >= 10 * duration
