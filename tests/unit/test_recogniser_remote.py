"""Calls to servers of others: pauses that they ask for, rates, and words that go no further."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from worker.errors import Cancelled, RecogniserRefused, RecogniserUnavailable, describe
from worker.recognisers.remote import LONGEST_PAUSE, Pace, Remote

SECRET = "sk-hush-hush"


@pytest.fixture
def remote():
    made = Remote("openai", "OPENAI_API_KEY", threading.Event())
    yield made
    made.close()


def judged(remote, status, headers=None, **body):
    with pytest.raises((RecogniserUnavailable, RecogniserRefused)) as caught:
        remote.judge(httpx.Response(status, headers=headers, json=body))
    return caught.value


@pytest.mark.parametrize(
    ("value", "pause"),
    [("7", 7), ("0.5", 0.5), ("", 0), ("soon", 0), ("-3", 0), ("999999999", LONGEST_PAUSE)],
)
def test_the_pause_that_is_asked_for(remote, value, pause):
    assert judged(remote, 429, {"Retry-After": value}).pause == pause


def test_the_pause_may_be_a_date(remote):
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert judged(remote, 503, {"Retry-After": date}).pause == pytest.approx(90, abs=2)


def test_codes_are_told_and_words_are_not(remote):
    error = judged(remote, 401, error={"code": "invalid_api_key", "message": f"no {SECRET}"})
    assert "invalid_api_key" in describe(error)
    assert SECRET not in describe(error)
    for code in (f"{SECRET} {SECRET}", {"x": SECRET}, [SECRET], "x" * 41):
        assert SECRET not in describe(judged(remote, 500, error={"code": code}))
    assert "x" * 41 not in describe(judged(remote, 500, error={"code": "x" * 41}))


def test_a_header_that_cannot_be_sent_is_not_shown(remote):
    with pytest.raises(RecogniserUnavailable) as caught:
        remote.send(
            lambda http: http.get(
                "http://127.0.0.1:9/", headers={"Authorization": f"Bearer {SECRET}\n"}
            )
        )
    assert SECRET not in describe(caught.value)
    assert caught.value.__cause__ is None


def test_a_stopping_process_calls_nobody(remote):
    stop = threading.Event()
    stop.set()
    stopping = Remote("openai", "OPENAI_API_KEY", stop)
    with pytest.raises(Cancelled):
        stopping.send(lambda http: pytest.fail("called"))
    with pytest.raises(Cancelled):
        stopping.rest(60)
    stopping.close()


def test_a_fault_of_ours_is_not_taken_for_the_servers(remote):
    with pytest.raises(ZeroDivisionError):
        remote.send(lambda http: 1 / 0)


def test_a_pace_admits_so_many_in_any_such_time():
    now = [100.0]
    pace = Pace(3, 10, clock=lambda: now[0])
    assert [pace.take() for _ in range(3)] == [0, 0, 0]
    now[0] += 4
    assert pace.take() == pytest.approx(6)
    now[0] += 6
    assert pace.take() == 0
