"""Proofreading by a real pipeline: its result stands beside the raw text, its faults in no way."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from tests.acceptance import chat_server
from tests.acceptance.bench import Bench
from tests.acceptance.chat_server import MODEL, ChatServer, corrected
from tests.acceptance.proofreading_service import LONG, SLOW, TEXT, Desk
from tests.acceptance.service import wait_until
from worker.jobs import Step


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """With a pipeline at work."""
    with ChatServer() as chat:
        desk = Desk(tmp_path_factory.mktemp("desk"), chat)
        try:
            desk.start("pipeline")
            yield desk
            desk.quiet(LONG)  # whatever the tests of this module made it meet
        finally:
            desk.service.close()


@pytest.fixture(autouse=True)
def careful(desk: Desk) -> Iterator[None]:
    """Each test finds a server that corrects."""
    yield
    desk.chat.reply = chat_server.corrects


# It works


def test_the_corrected_text_stands_beside_the_raw_one(desk: Desk):
    job = desk.job()
    assert desk.done(job) == corrected(TEXT)
    assert "Kubernetes" in corrected(TEXT)
    assert desk.text(job, "raw") == TEXT
    assert desk.warnings(job) == []
    call = next(call for call in desk.chat.calls if TEXT in call["messages"][-1]["content"])
    assert call["model"] == MODEL
    assert call["temperature"] == 0
    assert "Kubernetes" in call["messages"][0]["content"]
    assert desk.chat.asked(TEXT) == 1
    found = desk.bench.queue().transcript(job, "proofread")
    assert (found.language, found.engine) == ("ru", f"chat/{MODEL}")
    assert [(each["start"], each["end"]) for each in found.segments] == [(0, 2.5), (3, 5)]
    assert " ".join(each["text"] for each in found.segments) == found.text


def test_a_long_text_is_corrected_in_pieces(desk: Desk):
    job = desk.job(LONG)
    text = desk.done(job)
    assert text == LONG  # its sentences need no correction
    pieces = [
        content
        for call in desk.chat.calls
        if (content := call["messages"][-1]["content"]) and "про " in content
    ]
    assert len(pieces) > 2
    assert all(len(piece) < 3100 and piece.count("Это") > 20 for piece in pieces[:-1])


def test_a_text_without_words_is_not_sent(desk: Desk):
    before = len(desk.chat.calls)
    assert desk.done(desk.job(" ")) == ""
    assert desk.done(desk.job()) == corrected(TEXT)
    assert len(desk.chat.calls) == before + 1


def test_by_default_nothing_is_sent(bench: Bench):
    assert bench.settings().proofread_url == ""
    job = bench.job("transcribed")
    bench.service.execute(
        """INSERT INTO transcripts (id, recording, kind, text, segments)
           VALUES (?, ?, 'raw', ?, '[]')""",
        job,
        job,
        TEXT,
    )
    bench.runner(Step.FINISH).poll()
    assert bench.row(job)["state"] == "done"
    assert bench.service.rows("SELECT kind FROM transcripts") == [{"kind": "raw"}]


# It fails: the recording is done all the same, and one line says why


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (chat_server.refuses(400, "context_length_exceeded"), "400 context_length_exceeded"),
        (chat_server.refuses(403, "Do not; 'log' this"), "answered 403\n"),
        (chat_server.refuses(404, "model_not_found"), "answered 404 model_not_found"),
        (chat_server.refuses(429, "insufficient_quota"), "answered 429 insufficient_quota"),
        (chat_server.refuses(429, "rate_limit", Retry_After="3600"), "answered 429 rate_limit"),
        (chat_server.sends(b"<html>moved</html>", 302), "answered 302"),
        (chat_server.says(None), "an empty answer"),
        (chat_server.says(corrected, "length"), "cut off (length)"),
        (chat_server.says(None, "content_filter"), "cut off (content_filter)"),
        (chat_server.sends(b" " * (5 << 20)), "has no end"),
        (chat_server.says("Извините, я не могу помочь с этим."), "strays (length)"),
        (chat_server.says(lambda text: " ".join(text.split()[::-1])), "strays (words)"),
        (chat_server.says(lambda text: f"Конечно! {text}"), "strays (additions)"),
    ],
)
def test_a_fault_costs_the_correction_and_nothing_else(desk: Desk, reply, reason: str):
    desk.chat.reply = reply
    before = len(desk.chat.calls)
    job = desk.job()
    assert desk.done(job) == ""
    assert len(desk.chat.calls) == before + 1, "asking again would not help"
    [line] = desk.warnings(job)
    assert "WARNING" in line
    assert reason in f"{line}\n"
    assert desk.bench.row(job)["error_text"] == ""


PASSING = {
    "alpha": (chat_server.refuses(500, "server_error"), "answered 500 server_error"),
    "beta": (chat_server.sends(b"oops", 503), "answered 503"),
    "gamma": (chat_server.hangs_up, "not reachable (RemoteProtocolError)"),
    "delta": (chat_server.sends(b"<html>"), "something else than a completion"),
    "epsilon": (chat_server.sends(b"[" * 100_000), "something else than a completion"),
    "zeta": (chat_server.sends(b'{"choices": []}'), "something else than a completion"),
    "eta": (chat_server.refuses(429, "rate_limit_exceeded", Retry_After="1"), "answered 429"),
}


def test_a_fault_that_may_pass_is_tried_again(desk: Desk):
    """With success the second time."""
    desk.chat.reply = lambda call: chat_server.once(PASSING[call.text.split()[-1]][0])(call)
    jobs = {name: desk.job(f"{TEXT} {name}") for name in PASSING}
    for name, job in jobs.items():
        assert desk.done(job) == corrected(f"{TEXT} {name}")
        assert desk.chat.asked(f"вместе {name}") == 2
        assert desk.warnings(job) == []


def test_a_fault_that_does_not_pass_is_told_once(desk: Desk):
    desk.chat.reply = lambda call: PASSING[call.text.split()[-1]][0](call)
    jobs = {name: desk.job(f"{TEXT} и {name}") for name in PASSING}
    for name, job in jobs.items():
        assert desk.done(job) == ""
        assert desk.chat.asked(f"вместе и {name}") == 3
        [line] = desk.warnings(job)
        assert PASSING[name][1] in line


@pytest.mark.parametrize("reply", [chat_server.hangs, chat_server.drips])
def test_an_endpoint_that_hangs_holds_nobody_up(desk: Desk, reply):
    """Many recordings at once: some wait for as long as one piece may take, the others not."""
    desk.chat.reply = reply
    jobs = [desk.job() for _ in range(24)]
    for job in jobs:
        assert desk.done(job, 6 * SLOW) == ""
    told = [line for job in jobs for line in desk.warnings(job)]
    assert len(told) == len(jobs)
    assert 0 < sum(f"no answer within {SLOW:g} s" in line for line in told) <= 4
    wait_until(lambda: desk.chat.open == 0, what="the end of all requests")
    desk.chat.reply = chat_server.corrects
    assert wait_until(lambda: desk.done(desk.job()), 20, "corrections again") == corrected(TEXT)


def test_a_recording_has_a_time_limit_in_all(desk: Desk):
    """Each piece keeps to its own limit; together they would take three times theirs."""

    def unhurried(call):
        desk.chat.closing.wait(0.8 * SLOW)
        chat_server.corrects(call)

    desk.chat.reply = unhurried
    started = time.monotonic()
    job = desk.job(LONG, duration=2)
    assert desk.done(job) == ""
    assert time.monotonic() - started < 3 * SLOW
    [line] = desk.warnings(job)
    assert "reason=out of time" in line


def test_a_short_recording_is_not_held_up_by_long_ones(desk: Desk):
    def unhurried(call):
        if "Это предложение" in call.text:
            desk.chat.closing.wait(0.5)
        chat_server.corrects(call)

    wait_until(lambda: desk.chat.open == 0, what="the end of what an earlier test asked for")
    desk.chat.reply = unhurried
    desk.chat.most = 0
    lectures = [desk.job(LONG) for _ in range(3)]
    wait_until(lambda: desk.chat.open > 0, what="the lectures' first pieces")
    short = desk.job()
    assert desk.done(short) == corrected(TEXT)
    states = [desk.bench.row(each)["state"] for each in lectures]
    assert states == ["transcribed"] * 3
    assert desk.chat.most == 2
    for each in lectures:  # and these end, by the time that is theirs or before
        desk.done(each)


def test_a_piece_that_strays_stays_raw_among_the_others(desk: Desk):
    desk.chat.reply = chat_server.only_for("номер 0,", chat_server.says("Sorry, I cannot."))
    lower = LONG.replace("Это предложение номер 5,", "это предложение номер 5,", 1)
    job = desk.job(lower.lower().replace(" это", ". это"))
    text = desk.done(job)
    assert text.startswith("это предложение номер 0")  # raw
    assert "Это предложение" in text  # corrected
    [line] = desk.warnings(job)
    assert "text proofread in part" in line
    assert re.search(r"reason=strays \(length\) kept=1 of \d pieces", line)


def test_a_text_most_of_which_strays_has_no_correction(desk: Desk):
    desk.chat.reply = chat_server.only_for(
        "номер 11,", chat_server.corrects, chat_server.says("Нет.")
    )
    job = desk.job(LONG)
    assert desk.done(job) == ""
    [line] = desk.warnings(job)
    assert "text not proofread" in line


def test_a_model_that_knows_no_temperature_is_asked_without(desk: Desk):
    def choosy(call):
        if "temperature" in call.body:
            call.refuse(400, "unsupported_value", param="temperature")
        else:
            chat_server.corrects(call)

    desk.chat.reply = choosy
    assert desk.done(desk.job()) == corrected(TEXT)
