"""What a fault of Telegram's means for a message that was on its way, and how it is told."""

from __future__ import annotations

import datetime

import httpx
import pytest
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TimedOut,
)

from worker.telegram.api import ServerFault, explain, may_have_arrived, seconds_of

TOKEN = "12:secret"


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


NOT_SENT = [
    caused(NetworkError("x"), httpx.ConnectError("x")),
    caused(NetworkError("x"), httpx.WriteError("x")),
    caused(NetworkError("x"), httpx.ProxyError("x")),
    caused(TimedOut(), httpx.ConnectTimeout("x")),
    caused(TimedOut(), httpx.PoolTimeout("x")),
    caused(TimedOut(), httpx.WriteTimeout("x")),
    ServerFault(500, "answered 500"),
    ServerFault(502, "answered 502"),
    ServerFault(404, "a page"),
    BadRequest("message is too long"),
    Forbidden("blocked"),
    RetryAfter(3),
    InvalidToken("x"),
    ChatMigrated(-1001),
]
MAYBE_SENT = [
    caused(TimedOut(), httpx.ReadTimeout("x")),
    caused(NetworkError("x"), httpx.ReadError("x")),
    caused(NetworkError("x"), httpx.RemoteProtocolError("x")),
    ServerFault(504, "answered 504"),
    NetworkError("Unknown error in HTTP implementation"),
]


@pytest.mark.parametrize("error", NOT_SENT, ids=repr)
def test_what_certainly_did_not_arrive_may_be_sent_again(error):
    assert not may_have_arrived(error)


@pytest.mark.parametrize("error", MAYBE_SENT, ids=repr)
def test_what_may_have_arrived_is_known_as_such(error):
    assert may_have_arrived(error)


@pytest.mark.parametrize(
    "error",
    [
        InvalidToken(f"The token `{TOKEN}` was rejected by the server."),
        NetworkError(f"httpx.InvalidURL: https://host/bot{TOKEN}/getMe"),
        caused(TimedOut(f"/bot{TOKEN}/"), httpx.ReadTimeout(f"/bot{TOKEN}/")),
        Conflict(f"terminated {TOKEN}"),
        httpx.ConnectError(f"https://host/file/bot{TOKEN}/voice"),
        ValueError(f"bot{TOKEN}"),
    ],
)
def test_no_explanation_repeats_what_a_library_says(error):
    assert TOKEN not in explain(error)
    assert explain(error)


def test_the_two_causes_of_a_conflict_are_told_apart():
    assert "webhook" in explain(Conflict("can't use getUpdates method while webhook is active"))
    assert "only one may" in explain(Conflict("terminated by other getUpdates request"))


@pytest.mark.parametrize("form", ["0", "1"])
@pytest.mark.filterwarnings("ignore::telegram.warnings.PTBDeprecationWarning")
def test_the_wait_is_seconds_in_either_of_the_librarys_forms(monkeypatch, form):
    monkeypatch.setenv("PTB_TIMEDELTA", form)
    assert isinstance(RetryAfter(7).retry_after, datetime.timedelta) == (form == "1")
    assert seconds_of(RetryAfter(7)) == 7
