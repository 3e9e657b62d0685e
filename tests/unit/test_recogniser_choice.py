"""Who recognises: the owner's choice, the setting, the fallback, and the settings' own checks."""

from __future__ import annotations

import threading

import pytest
from prometheus_client import CollectorRegistry

from worker import settings
from worker.errors import ConfigurationError, RecogniserUnavailable
from worker.jobs import Recording, Step
from worker.metrics import Metrics
from worker.pipeline.leases import lease_seconds
from worker.processes import pb, pipeline
from worker.recognisers import choice, limits
from worker.recognisers.absences import AGAIN, LONG, Absences
from worker.recognisers.base import Unknown
from worker.recognisers.choice import Choice, Recognisers, patience
from worker.settings import Settings

REMOTE = {"openai_url": "http://127.0.0.1:9/v1", "speechkit_api_key": "k"}


@pytest.fixture(autouse=True)
def empty_surroundings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for key in settings.KEYS:
        monkeypatch.delenv(key, raising=False)


def config(**values) -> Settings:
    return settings.load(**{"telegram_enabled": False, **REMOTE, **values})


def recording(recogniser: str = "", duration: float = 60.0) -> Recording:
    return Recording("r" * 15, "a", "n", "wav", duration, "", "", recogniser)


def choose(
    settings: Settings, recording: Recording, attempts: int, absences: Absences | None = None
) -> Choice:
    return choice.choose(settings, recording, attempts, absences or Absences())


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_owners_choice_comes_before_the_setting():
    chosen = config(recogniser="openai")
    assert choose(chosen, recording(), 1) == Choice("openai")
    assert choose(chosen, recording("speechkit"), 1) == Choice("speechkit")


def test_the_fallback_stands_in_after_half_of_the_attempts():
    chosen = config(recogniser="openai", recogniser_fallback="local", max_attempts=10)
    assert patience(chosen) == 5
    names = [choose(chosen, recording(), attempt).name for attempt in range(1, 11)]
    assert names == ["openai"] * 5 + ["local"] * 5
    assert choose(chosen, recording(), 6).instead
    assert choose(config(recogniser="openai"), recording(), 9) == Choice("openai")


def test_the_fallback_takes_what_is_too_long_for_the_first():
    chosen = config(recogniser="speechkit", recogniser_fallback="openai")
    assert choose(chosen, recording(duration=4 * 3600 + 1), 1) == Choice("openai", instead=True)
    assert choose(chosen, recording(duration=4 * 3600), 1) == Choice("speechkit")


def test_the_fallback_is_given_nothing_that_is_too_long_for_it():
    """It would refuse for good what the first may yet take."""
    chosen = config(recogniser="openai", recogniser_fallback="speechkit")
    assert choose(chosen, recording(duration=4 * 3600 + 1), 9) == Choice("openai")
    assert choose(chosen, recording(duration=4 * 3600), 9) == Choice("speechkit", instead=True)


def test_the_fallback_stands_in_while_the_first_asks_for_a_long_pause():
    chosen = config(recogniser="openai", recogniser_fallback="local")
    absences = Absences(clock := Clock())
    absences.refused("openai", LONG)
    assert choose(chosen, recording(), 2, absences) == Choice("openai")
    absences.refused("openai", 3600)
    assert choose(chosen, recording(), 1, absences) == Choice("local", instead=True)
    clock.now += 3599
    assert choose(chosen, recording(), 1, absences) == Choice("local", instead=True)
    clock.now += 1
    assert choose(chosen, recording(), 1, absences) == Choice("openai")


def test_the_fallback_stands_in_when_the_first_has_been_refusing_for_long():
    """Whatever `MAX_ATTEMPTS` is; and the first is tried again now and then."""
    chosen = config(recogniser="openai", recogniser_fallback="local", max_attempts=1000)
    absences = Absences(clock := Clock())
    absences.refused("openai", 0)
    clock.now += LONG - 1
    absences.refused("openai", 0)
    assert choose(chosen, recording(), 3, absences) == Choice("openai")
    clock.now += 1
    absences.refused("openai", 0)
    assert choose(chosen, recording(), 1, absences) == Choice("local", instead=True)
    clock.now += AGAIN
    assert choose(chosen, recording(), 1, absences) == Choice("openai")
    absences.refused("openai", 0)
    assert choose(chosen, recording(), 1, absences) == Choice("local", instead=True)
    absences.took("openai")
    assert choose(chosen, recording(), 1, absences) == Choice("openai")
    absences.refused("openai", 0)
    assert choose(chosen, recording(), 1, absences) == Choice("openai"), "it begins anew"


def test_of_two_that_are_away_the_one_that_may_be_asked_sooner():
    chosen = config(recogniser="openai", recogniser_fallback="speechkit", max_attempts=4)
    absences = Absences(Clock())
    absences.refused("openai", 3600)
    absences.refused("speechkit", 7200)
    assert choose(chosen, recording(), 3, absences) == Choice("openai")
    absences.refused("openai", 9000)
    assert choose(chosen, recording(), 1, absences) == Choice("speechkit", instead=True)
    assert choose(config(recogniser="openai"), recording(), 9, absences) == Choice("openai")


def test_what_was_chosen_by_hand_is_sent_to_nobody_else():
    chosen = config(recogniser="openai", recogniser_fallback="speechkit")
    assert choose(chosen, recording("local"), 9) == Choice("local")
    assert choose(chosen, recording("openai"), 9) == Choice("openai")
    home = config(recogniser="openai", recogniser_fallback="local")
    assert choose(home, recording("speechkit"), 9) == Choice("local", instead=True)


def test_operations_go_by_their_name_and_those_of_strangers_are_unknown():
    with Recognisers(
        settings.load(telegram_enabled=False), None, threading.Event(), metrics()
    ) as known:
        for operation in ("openai:x", "speechkit:x", "another:x"):
            assert isinstance(known.check(operation), Unknown)
            known.cancel(operation)
        with pytest.raises(RecogniserUnavailable, match="not set up") as caught:
            known.submit(recording("speechkit"), lambda: pytest.fail("fetched"))
        assert caught.value.blameless


def metrics() -> Metrics:
    return Metrics(CollectorRegistry())


def problems(**values) -> dict[str, str]:
    with pytest.raises(ConfigurationError) as caught:
        settings.load(telegram_enabled=False, **values)
    return {problem.key: problem.message for problem in caught.value.problems}


@pytest.mark.parametrize("how", ["recogniser", "recogniser_fallback"])
def test_what_a_chosen_recogniser_needs_must_be_there(how):
    assert set(problems(**{how: "openai"})) == {"OPENAI_URL"}
    assert set(problems(**{how: "speechkit"})) == {"SPEECHKIT_IAM_TOKEN"}
    settings.load(telegram_enabled=False, **{how: "speechkit"}, speechkit_iam_token="t")


def test_a_fallback_is_another_one_and_a_key_can_be_sent():
    assert set(problems(recogniser_fallback="local")) == {"RECOGNISER_FALLBACK"}
    for key in ("two words", "ключ", "line\nline"):
        found = problems(openai_api_key=key)
        assert set(found) == {"OPENAI_API_KEY"}
        assert key not in found["OPENAI_API_KEY"]


def test_only_the_pipeline_sees_the_keys(monkeypatch):
    for key in ("OPENAI_API_KEY", "SPEECHKIT_API_KEY", "SPEECHKIT_IAM_TOKEN"):
        monkeypatch.setenv(key, "hush-hush")
    assert "hush-hush" not in pb.environment(config()).values()


def test_remote_recognisers_have_threads_of_their_own():
    local = settings.load(telegram_enabled=False)
    assert pipeline.threads(Step.SUBMIT, local) == (1, 8)
    assert pipeline.threads(Step.SUBMIT, config(recogniser_parallel=6)) == (6, 1)
    assert pipeline.threads(Step.NORMALISE, config()) == pipeline.threads(Step.NORMALISE, local)


@pytest.mark.parametrize("hours", [0.1, 1, 12, 240])
def test_the_lease_outlives_the_longest_turn(hours):
    seconds = hours * 3600
    longest = min(seconds, limits.LONGEST_PIECE)
    turn = 3 * limits.prepare_limit(seconds) + limits.TURN + limits.piece_limit(longest)
    assert lease_seconds(Step.SUBMIT, seconds) >= turn + 2 * seconds / 5
