"""An answer of another form than PocketBase's is an absence of PocketBase, to each who asks it.

Something else may listen at its address, or stand in between. Raised as a bare `KeyError` it ended
the process that had asked, let a lease run out, or spent a Telegram message's tries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.loopback import Loopback, serve
from worker.engine.operations import HttpOperations, Operation
from worker.errors import PocketBaseUnavailable, describe
from worker.jobs import Job, Milestone, Recording, Waiting, Wanted
from worker.pages import PocketBaseCollector
from worker.pocketbase.client import Client
from worker.pocketbase.queue import Queue
from worker.recognisers.local import Rows
from worker.telegram import outbox
from worker.telegram.store import Store

ID = "abcdefghijklmno"
LOGIN = "POST /api/collections/workers/auth-with-password"
OPERATION = Operation(ID, ID, "token", 1, 0, "", "", None, frozenset(), "")
JOB = Job(ID, Milestone.SUBMITTED, 1, "token", "", "", 0.0, 0, "http", "", "", "")
RECORDING = Recording(ID, "", "", "wav", 1.0, "", "", lease_token="token")

CALLS: dict[str, tuple[str, Callable[[Client], object]]] = {
    "due": ("POST /api/queue/due", lambda c: Queue(c, "w").due([Wanted(Milestone.UPLOADED, 5)])),
    "claim": ("POST /api/queue/claim", lambda c: Queue(c, "w").claim(Milestone.UPLOADED, 5)),
    "write": ("POST /api/queue/finish", lambda c: Queue(c, "w").write(JOB, Waiting(1.0))),
    "give back": ("POST /api/queue/restart", lambda c: Queue(c, "w").give_back()),
    "recording": (f"GET /api/queue/recording/{ID}", lambda c: Queue(c, "w").recording(ID)),
    "transcript": (f"GET /api/queue/transcript/{ID}/raw", lambda c: Queue(c, "w").transcript(ID)),
    "engine claim": ("POST /api/operations/claim", lambda c: HttpOperations(c, "w").claim()),
    "engine renew": (f"POST /api/operations/{ID}/renew",
                     lambda c: HttpOperations(c, "w").renew(OPERATION)),
    "engine write": (f"POST /api/operations/{ID}/segments",
                     lambda c: HttpOperations(c, "w").write(OPERATION, 0, [])),
    "engine restart": ("POST /api/operations/restart", lambda c: HttpOperations(c, "w").restart()),
    "submit": ("POST /api/operations", lambda c: Rows(c).queue(RECORDING)),
    "take": ("POST /api/operations/take", lambda c: Rows(c).take(RECORDING, "openai")),
    "check": (f"GET /api/operations/{ID}", lambda c: Rows(c).look(ID)),
    "chat": ("GET /api/queue/chats/1", lambda c: asyncio.run(Store(c, "w").chat(1))),
    "accept": ("POST /api/queue/recordings",
               lambda c: asyncio.run(Store(c, "w").accept(Path(__file__), 1, None, 1))),
    "jobs": ("GET /api/queue/chats/1/jobs", lambda c: asyncio.run(Store(c, "w").in_work(1))),
    "again": ("POST /api/queue/answers/again",
              lambda c: asyncio.run(Store(c, "w").again(ID, 1, 1))),
    "answers": ("POST /api/queue/answers/claim", lambda c: asyncio.run(Store(c, "w").claim(1))),
}  # fmt: skip
ODD = {
    "another object": {"private": "words"},
    "a list": ["private"],
    "a word": "private",
    "nothing": None,
    "depth": b"[" * 100_000 + b"]" * 100_000,
    "a page": b"<html>private</html>",
}


@pytest.fixture(scope="module")
def line() -> Iterator[tuple[Loopback, Client]]:
    with serve() as server, Client(f"http://{server.address}", lambda: "password") as client:
        yield server, client


@pytest.fixture
def server(line: tuple[Loopback, Client]) -> Loopback:
    line[0].routes = {LOGIN: (200, {"token": "a.session.token"})}
    return line[0]


@pytest.fixture
def client(line: tuple[Loopback, Client]) -> Client:
    """Without a session."""
    line[1]._token = ""
    return line[1]


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("call", CALLS)
def test_an_answer_of_another_form_is_an_absence(
    call: str, odd: Any, server: Loopback, client: Client
) -> None:
    route, ask = CALLS[call]
    server.routes[route] = (200, odd)

    with pytest.raises(PocketBaseUnavailable) as absence:
        ask(client)

    assert "private" not in describe(absence.value)


@pytest.mark.parametrize(
    ("route", "value"),
    [
        ("due", {"states": 7}),
        ("claim", {"jobs": 7}),
        ("claim", {"jobs": [{"id": ID, "state": "private"}]}),
        ("write", {"lost": None}),
        ("give back", {"returned": "private"}),
        ("give back", {"returned": 1e999}),
        ("transcript", {"transcript": "private"}),
        ("engine claim", {"operations": {"private": 1}}),
        ("check", {"state": "done", "parts": ["private"], "units": 1}),
        ("jobs", {"jobs": ["private"]}),
        ("answers", {"answers": [{"id": ID}]}),
    ],
)
def test_so_is_a_value_of_another_kind(
    route: str, value: object, server: Loopback, client: Client
) -> None:
    path, ask = CALLS[route]
    server.routes[path] = (200, value)

    with pytest.raises(PocketBaseUnavailable) as absence:
        ask(client)

    assert "private" not in describe(absence.value)


@pytest.mark.parametrize("token", [None, 7, "ключ", ["private"]])
def test_so_is_a_session_that_is_none(token: object, server: Loopback, client: Client) -> None:
    server.routes[LOGIN] = (200, {} if token is None else {"token": token})
    server.routes["POST /api/queue/restart"] = (200, {})

    with pytest.raises(PocketBaseUnavailable):
        Queue(client, "w").give_back()


def test_a_refusal_says_no_word_of_what_came(server: Loopback, client: Client) -> None:
    for code in ("words that are private", {"private": 1}, "private" * 20):
        server.routes["POST /api/queue/restart"] = (400, {"error_code": code})
        with pytest.raises(Exception, match="refused with 400") as refusal:
            Queue(client, "w").give_back()
        assert "private" not in describe(refusal.value)


@pytest.mark.parametrize(
    "stats",
    [
        {},
        [],
        {"states": 7, "counters": {}},
        {"states": [{}]},
        {"states": [], "counters": {"accepted|http|wav": "many"}},
    ],
)
def test_the_metrics_page_does_without(stats: object, server: Loopback, client: Client) -> None:
    server.routes["GET /api/queue/stats"] = (200, stats)

    [up] = PocketBaseCollector(client, lambda: True).collect()

    assert [sample.value for sample in up.samples] == [0.0, 1.0]


def test_answers_that_cannot_be_closed_are_for_the_next_start(
    server: Loopback, client: Client
) -> None:
    server.routes["POST /api/queue/answers/close"] = (200, {"private": 1})

    assert outbox.close(client, ID, "input_down")
