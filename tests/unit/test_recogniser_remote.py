"""Calls to servers of others: pauses that they ask for, rates, and words that go no further."""

from __future__ import annotations

import gzip
import socket
import threading
from contextlib import suppress
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


def test_a_date_is_read_by_the_clock_of_the_server_that_names_it(remote):
    wrong = datetime.now(UTC) + timedelta(days=3)
    headers = {
        "Date": format_datetime(wrong, usegmt=True),
        "Retry-After": format_datetime(wrong + timedelta(seconds=90), usegmt=True),
    }
    assert judged(remote, 503, headers).pause == 90


def test_a_year_beyond_all_years_asks_for_no_pause(remote):
    assert judged(remote, 429, {"Retry-After": f"Mon, 01 Jan {10**20} 00:00:00 GMT"}).pause == 0


def test_an_error_nested_without_end_has_no_code(remote):
    error = httpx.Response(500, content=b"[" * 200_000)
    with pytest.raises(RecogniserUnavailable, match=r"answered 500$"):
        remote.judge(error)


def told(remote, answer: bytes):
    """What comes of an answer's bytes, as a server on loopback sends them."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            with listening.accept()[0] as connection, suppress(OSError):
                connection.recv(65536)
                connection.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
            return remote.send(lambda http: http.get(url, timeout=10))
        finally:
            serving.join(10)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr("worker.recognisers.remote.LARGEST", 50_000)


def test_an_answer_without_end_is_not_kept(remote, small):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    with pytest.raises(RecogniserUnavailable, match="has no end") as caught:
        told(remote, head + b"x" * 1_000_000)
    assert not caught.value.blameless


def test_a_small_answer_that_unpacks_to_a_large_one_is_not_kept(remote, small):
    packed = gzip.compress(b"x" * 1_000_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    assert len(packed) < 50_000
    with pytest.raises(RecogniserUnavailable, match="has no end"):
        told(remote, head % len(packed) + packed)


def test_an_answer_that_trickles_is_waited_for_no_longer_than_others(remote, monkeypatch):
    monkeypatch.setattr("worker.recognisers.remote.WHOLE", -1.0)
    with pytest.raises(RecogniserUnavailable, match="no answer in time"):
        told(remote, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


def test_a_packed_answer_is_read_with_its_headers(remote):
    packed = gzip.compress('{"text": "да"}'.encode())
    head = (
        b"HTTP/1.1 429 No\r\nRetry-After: 7\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    )
    response = told(remote, head % len(packed) + packed)
    assert response.json() == {"text": "да"}
    assert (response.status_code, response.headers["Retry-After"]) == (429, "7")


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
