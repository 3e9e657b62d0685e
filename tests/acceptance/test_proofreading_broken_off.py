"""Proofreading with nobody there, with its worker stopped and killed, and for Telegram."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance import chat_server
from tests.acceptance.bench import Bench
from tests.acceptance.chat_server import KEY, MODEL, ChatServer, corrected
from tests.acceptance.proofreading_service import LONG, TEXT, Desk
from tests.acceptance.service import wait_until
from tests.acceptance.telegram_service import Bot


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Where each test starts and kills a pipeline of its own."""
    with ChatServer() as chat:
        desk = Desk(tmp_path_factory.mktemp("place"), chat)
        desk.service.env["PROOFREAD_TIMEOUT_SECONDS"] = "300"
        try:
            desk.start()
            yield desk
            desk.quiet(LONG)
        finally:
            desk.service.close()


@pytest.fixture
def spare(place: Desk) -> Iterator[Desk]:
    place.chat.calls.clear()
    yield place
    if "pipeline" in place.service.processes:
        place.service.stop("pipeline")
    place.chat.reply = chat_server.corrects


def test_a_wrong_key_costs_the_correction(spare: Desk):
    spare.service.start("pipeline", PROOFREAD_API_KEY=f"{KEY}-wrong")
    job = spare.job()
    assert spare.done(job) == ""
    [line] = spare.warnings(job)
    assert "answered 401 invalid_api_key" in line
    assert spare.chat.calls == []


def test_nobody_at_the_address_costs_the_correction(spare: Desk):
    spare.service.start("pipeline", PROOFREAD_URL="http://127.0.0.1:9/v1")
    job = spare.job()
    assert spare.done(job) == ""
    [line] = spare.warnings(job)
    assert "not reachable (ConnectError)" in line


# It is broken off


def test_killed_and_stopped_in_the_middle(spare: Desk):
    """Nothing is lost, and what each time takes the worker along is no longer tried."""
    chat, service = spare.chat, spare.service
    chat.reply = chat_server.hangs
    service.start("pipeline")
    job = spare.job()
    wait_until(lambda: chat.asked(TEXT) == 1, what="the first request")
    # A stop waits for no answer, and costs no attempt.
    assert service.stop("pipeline", signal.SIGTERM, 5) == 0
    assert spare.bench.row(job)["attempts"] == 0
    assert spare.bench.row(job)["lease_token"] == ""
    assert "Traceback" not in service.printed("pipeline")
    for attempt in (1, 2):
        service.start("pipeline")
        wait_until(lambda n=attempt: chat.asked(TEXT) == n + 1, what="the next request")
        assert spare.bench.row(job)["attempts"] == attempt
        service.kill("pipeline")
    other = spare.job("другая запись у которой всё идёт хорошо")
    chat.reply = chat_server.corrects
    service.start("pipeline")
    assert spare.done(job) == ""
    assert spare.done(other) == "Другая запись у которой всё идёт хорошо."
    assert chat.asked(TEXT) == 3
    [line] = spare.warnings(job)
    assert "tried before, without a result" in line


def test_killed_once_in_the_middle_it_is_done_anew(spare: Desk):
    spare.chat.reply = chat_server.only_for("номер 11,", chat_server.hangs)  # the last piece
    spare.service.start("pipeline")
    job = spare.job(LONG)
    wait_until(lambda: spare.chat.asked("номер 11,") == 1, what="the last piece's request")
    spare.service.kill("pipeline")
    assert spare.text(job, "proofread") == ""
    spare.chat.reply = chat_server.corrects
    spare.service.start("pipeline")
    assert spare.done(job) == LONG
    assert spare.warnings(job) == []


# Telegram


def test_telegram_is_answered_with_the_corrected_text(tmp_path: Path):
    with ChatServer() as chat:
        bot = Bot(tmp_path, PROOFREAD_URL=chat.url, PROOFREAD_API_KEY=KEY, PROOFREAD_MODEL=MODEL)
        try:
            bot.start("pb", "media", "telegram", "pipeline")
            desk = Desk.__new__(Desk)
            desk.service, desk.chat = bot.service, chat
            desk.bench = Bench(bot.service, bot.service.client(), tmp_path)
            for text, reply, said in (
                (TEXT, chat_server.corrects, corrected(TEXT)),
                ("и ещё " + TEXT, chat_server.says("Sorry."), "и ещё " + TEXT),
            ):
                chat.reply = reply
                where = bot.chat()
                job = desk.job(text, source="telegram", chat_id=str(where), message_id="7")
                [answer] = bot.said(where)
                assert answer.text == said
                assert bot.answer(job)["state"] == "sent"
        finally:
            bot.close()
