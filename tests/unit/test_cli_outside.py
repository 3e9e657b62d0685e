"""`doctor` about other people's servers: each answer means one thing, and shows no key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from worker import settings
from worker.cli import outside
from worker.cli.finding import Finding, Level

from .loopback import Loopback, serve

KEY = "sk-a-key-nobody-may-see"
MODELS = (200, {"data": [{"id": "whisper-1"}, {"id": "corrector"}]})
RESULT = f"GET /stt/v3/getRecognition?operation_id={outside.NOBODY}"
OPERATION = f"GET /operations/{outside.NOBODY}"


@pytest.fixture
def server() -> Iterator[Loopback]:
    with serve() as loopback:
        yield loopback


def load(**values: str) -> settings.Settings:
    return settings.Settings(_env_file=None, telegram_enabled=False, **values)


def remote(server: Loopback, name: str) -> settings.Settings:
    url = f"http://{server.address}/v1"
    if name == "proofreading":
        return load(proofread_url=url, proofread_api_key=KEY, proofread_model="corrector")
    return load(recogniser="openai", openai_url=url, openai_api_key=KEY)


def kit(server: Loopback, **values: str) -> settings.Settings:
    url = f"http://{server.address}"
    keys = values or {"speechkit_api_key": KEY}
    return load(recogniser="speechkit", speechkit_url=url, speechkit_operations_url=url, **keys)


def found(config: settings.Settings, subject: str) -> list[Finding]:
    findings = list(outside.look(config))
    assert not any(KEY in each.text for each in findings)
    return [each for each in findings if each.subject == subject]


def test_nothing_is_asked_where_nothing_is_set_up(server):
    [only] = outside.look(load())
    assert (only.level, only.text) == (Level.OK, "local, and nobody instead of it")
    assert server.seen == []


@pytest.mark.parametrize("name", ["openai", "proofreading"])
def test_a_server_that_lets_us_in_and_has_the_model(server, name):
    server.routes = {"GET /v1/models": MODELS}
    [line] = found(remote(server, name), name)
    assert line.level is Level.OK
    assert "lets us in, and has" in line.text
    assert server.seen == [("GET /v1/models", None, f"Bearer {KEY}")], "and nothing else is sent"


@pytest.mark.parametrize("name", ["openai", "proofreading"])
@pytest.mark.parametrize(
    ("answer", "level", "words"),
    [
        ((401, {"error": {"message": f"wrong: {KEY}"}}), Level.FAULT, "look at {}_API_KEY"),
        ((403, b""), Level.FAULT, "look at {}_API_KEY"),
        ((429, {"error": f"{KEY}"}), Level.WARNING, "no quota"),
        ((402, b""), Level.WARNING, "no quota or no money"),
        ((404, {"error": f"{KEY}"}), Level.NOTE, "shows with the first recording"),
        ((405, b""), Level.NOTE, "shows with the first recording"),
        ((503, b"away"), Level.WARNING, "out of order"),
        ((302, b""), Level.WARNING, "look at {}_URL"),
        ((200, {"data": [{"id": "other"}]}), Level.WARNING, "look at {}_MODEL"),
        ((200, b"no list"), Level.OK, "answers and lets us in"),
        ((200, {"data": [1, {"x": 2}]}), Level.OK, "answers and lets us in"),
        ((200, b" " * (outside.LARGEST + 1)), Level.OK, "answers and lets us in"),
    ],
)
def test_each_answer_means_one_thing(server, name, answer, level, words):
    server.routes = {"GET /v1/models": answer}
    [line] = found(remote(server, name), name)
    assert line.level is level, line
    assert words.format({"openai": "OPENAI", "proofreading": "PROOFREAD"}[name]) in line.text


def test_nobody_there_is_a_fault_that_names_the_setting(server):
    config = remote(server, "openai")
    server.shutdown()
    server.server_close()
    [line] = found(config, "openai")
    assert line.level is Level.FAULT
    assert "not reachable (ConnectError): look at OPENAI_URL" in line.text


@pytest.mark.parametrize(
    ("values", "authorization"),
    [
        ({"speechkit_api_key": KEY}, f"Api-Key {KEY}"),
        ({"speechkit_iam_token": KEY, "speechkit_folder_id": "f"}, f"Bearer {KEY}"),
    ],
)
def test_speechkit_is_asked_for_what_there_is_not(server, values, authorization):
    lines = found(kit(server, **values), "speechkit")
    assert [line.level for line in lines] == [Level.OK, Level.OK]
    assert all("does not refuse the key" in line.text for line in lines)
    assert server.seen == [(RESULT, None, authorization), (OPERATION, None, authorization)]


def test_speechkit_that_knows_the_key_at_one_address_only(server):
    server.routes = {OPERATION: (401, {"message": f"no: {KEY}"})}
    first, second = found(kit(server), "speechkit")
    assert first.level is Level.OK
    assert second.level is Level.FAULT
    assert "look at SPEECHKIT_API_KEY" in second.text


def test_the_fallback_is_named_and_looked_at(server):
    server.routes = {"GET /v1/models": MODELS}
    url = f"http://{server.address}/v1"
    config = load(recogniser_fallback="openai", openai_url=url, openai_api_key=KEY)
    who, line = outside.look(config)
    assert who.text == "local, and openai where that one stays away"
    assert line.level is Level.OK
