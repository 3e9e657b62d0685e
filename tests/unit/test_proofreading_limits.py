"""Proofreading's settings, and the time that it may take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker import logs, settings
from worker.errors import Cancelled, ConfigurationError
from worker.jobs import Step, Transcript
from worker.pipeline.leases import lease_seconds, proofread_limit
from worker.processes.pipeline import threads
from worker.proofreading.proofreader import Proofreader
from worker.settings import Settings

timeouts = st.floats(min_value=0.1, max_value=3600)
durations = st.floats(min_value=0.1, max_value=240 * 3600)


@given(timeouts, durations, durations)
def test_the_lease_outlives_the_longest_proofreading(timeout, duration, longest):
    duration = min(duration, longest)
    lease = lease_seconds(Step.FINISH, longest, timeout)
    assert lease >= proofread_limit(duration, timeout) + 120, "and the requests around it"
    assert proofread_limit(duration, timeout) >= timeout, "one piece always has its time"


@given(durations)
def test_without_proofreading_no_lease_is_longer(longest):
    assert lease_seconds(Step.FINISH, longest) == lease_seconds(Step.CHECK, longest)
    for step in (Step.NORMALISE, Step.SUBMIT, Step.CHECK):
        assert lease_seconds(step, longest, 3600) == lease_seconds(step, longest)


def load(**values: object) -> Settings:
    return settings.load(telegram_enabled=False, **values)


def test_one_job_at_a_time_is_claimed_where_texts_are_proofread():
    """A lease covers one text, and not the eight of a batch."""
    on = load(proofread_url="http://127.0.0.1:1/v1", proofread_model="x")
    assert threads(Step.FINISH, on) == (8, 1)
    assert threads(Step.FINISH, load())[0] == 1
    assert threads(Step.CHECK, on) == threads(Step.CHECK, load())


def test_an_address_needs_a_model():
    for model in ("", "  "):
        with pytest.raises(ConfigurationError) as caught:
            load(proofread_url="http://127.0.0.1:1/v1", proofread_model=model)
        [problem] = caught.value.problems
        assert str(problem) == "PROOFREAD_MODEL: must be set when PROOFREAD_URL is"
    assert load().proofread_url == ""
    assert load(proofread_model="x").proofread_url == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("proofread_url", "api.example.com/v1"),
        ("proofread_timeout_seconds", 0),
        ("proofread_model", "x" * 151),
    ],
)
def test_a_malformed_setting_is_named(key, value):
    with pytest.raises(ConfigurationError) as caught:
        load(**{"proofread_model": "x", key: value})
    assert [problem.key for problem in caught.value.problems] == [key.upper()]


def test_the_key_is_blotted_out_of_everything():
    loaded = load(proofread_api_key="sk-0123456789abcdef")
    assert "sk-0123456789abcdef" not in f"{loaded!r} {loaded.model_dump_json()}"
    assert "sk-0123456789abcdef" not in logs.redact("refused: sk-0123456789abcdef")


def test_who_is_closed_takes_nothing_on():
    """A stop in the very moment before a text is handed over."""
    raw = Transcript("сказано", [], "ru", "test")
    with Proofreader(load(proofread_url="http://127.0.0.1:9/v1", proofread_model="x")) as reader:
        result = reader.proofread(raw, "", 0.0)
        assert result.transcript is None
        assert len(result.kept) == result.pieces == 1
    with pytest.raises(Cancelled):
        reader.proofread(raw, "", 10.0)
    reader.close()  # once more does no harm
