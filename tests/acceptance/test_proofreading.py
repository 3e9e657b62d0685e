"""Proofreading by a real pipeline: its result stands beside the raw text, its faults in no way."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance import chat_server
from tests.acceptance.bench import Bench
from tests.acceptance.chat_server import KEY, MODEL, ChatServer, corrected
from tests.acceptance.service import Service, wait_until
from tests.acceptance.telegram_service import Bot
from worker.jobs import Step

TEXT = "завтра в девять утра мы ставим кубер нетис на новый сервер и потом обедаем все вместе"
LONG = " ".join(
    f"Это предложение номер {n}, в нём сказано про {topic} и больше ни про что другое."
    for n in range(12)
    for topic in ("погоду", "дорогу", "огород", "ремонт", "рыбалку", "соседей", "музыку", "еду")
)
SLOW = 1.0


class Desk:
    """A service whose pipeline proofreads with a server of the test's."""

    def __init__(self, folder: Path, chat: ChatServer, **settings: str) -> None:
        self.chat = chat
        self.service = Service(
            folder,
            PROOFREAD_URL=chat.url,
            PROOFREAD_API_KEY=KEY,
            PROOFREAD_MODEL=MODEL,
            PROOFREAD_TIMEOUT_SECONDS=str(SLOW),
            POLL_SECONDS="0.2",
            LOG_LEVEL="DEBUG",
            **settings,
        )

    def start(self, *names: str) -> None:
        self.service.start("pb")
        self.bench = Bench(self.service, self.service.client(), self.service.folder)
        self.service.start("pipeline", *names)

    def job(
        self,
        text: str = TEXT,
        vocabulary: str = "Kubernetes",
        source: str = "http",
        duration: float = 60,
        **columns: str,
    ) -> str:
        """A recording whose raw text is there."""
        job = self.bench.job("done", source, **columns)  # nobody takes it yet
        self.service.execute(
            "UPDATE recordings SET vocabulary = ?, duration = ? WHERE id = ?",
            vocabulary,
            duration,
            job,
        )
        half = text.find(" ", len(text) // 2)
        self.service.execute(
            """INSERT INTO transcripts
                 (id, recording, kind, text, segments, language, engine, created, updated)
               VALUES (?, ?, 'raw', ?,
                 json_array(json_object('start', 0, 'end', 2.5, 'text', ?),
                            json_object('start', 3, 'end', 5, 'text', ?)), 'ru', 'test', '', '')""",
            job, job, text, text[:half], text[half:],
        )  # fmt: skip
        self.bench.set(job, state="transcribed", milestone="transcribed")
        return job

    def done(self, job: str, limit: float = 20.0) -> str:
        """The proofread text, or empty, once the job is done."""
        wait_until(lambda: self.bench.row(job)["state"] == "done", limit, f"the end of {job}")
        assert self.text(job, "raw"), "the raw text stays"
        return self.text(job, "proofread")

    def text(self, job: str, kind: str) -> str:
        sql = "SELECT text FROM transcripts WHERE recording = ? AND kind = ?"
        [row] = self.service.rows(sql, job, kind) or [{"text": ""}]
        return row["text"]

    def warnings(self, job: str) -> list[str]:
        """What was told about the job at a level that the owner sees as trouble."""

        def lines() -> list[str]:
            return [line for line in self.service.printed("pipeline").splitlines() if job in line]

        wait_until(lambda: any("finish ok" in line for line in lines()), what="the job's line")
        return [line for line in lines() if " WARNING " in line or " ERROR " in line]

    def quiet(self, *texts: str) -> None:
        """No key and no text stands in any log."""
        logged = self.service.printed() + str(self.service.logged())
        assert KEY not in logged
        for text in (TEXT, corrected(TEXT), *texts):
            for words in re.findall(r"\S+ \S+ \S+", text)[:40]:
                assert words not in logged


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with ChatServer() as chat:
        desk = Desk(tmp_path_factory.mktemp("desk"), chat)
        try:
            desk.start()
            yield desk
            desk.quiet(LONG)  # whatever the tests of this module made it meet
        finally:
            desk.service.close()


@pytest.fixture(autouse=True)
def careful(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test finds a server that corrects."""
    yield
    if "desk" in request.fixturenames:
        request.getfixturevalue("desk").chat.reply = chat_server.corrects


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
    job = desk.job()
    assert desk.done(job) == ""
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


def test_nobody_at_the_address_costs_the_correction(tmp_path: Path):
    """And a wrong key: both with a pipeline of its own."""
    with ChatServer() as chat:
        desk = Desk(tmp_path, chat)
        try:
            desk.service.env["PROOFREAD_API_KEY"] = f"{KEY}-wrong"
            desk.start()
            job = desk.job()
            assert desk.done(job) == ""
            assert "answered 401 invalid_api_key" in desk.warnings(job)[0]
            assert chat.calls == []
            desk.service.stop("pipeline")
            desk.service.start("pipeline", PROOFREAD_URL="http://127.0.0.1:9/v1")
            job = desk.job()
            assert desk.done(job) == ""
            assert "not reachable (ConnectError)" in desk.warnings(job)[0]
            desk.quiet()
        finally:
            desk.service.close()


# It is broken off


def test_killed_and_stopped_in_the_middle(tmp_path: Path):
    """Nothing is lost, and what each time takes the worker along is no longer tried."""
    with ChatServer() as chat:
        desk = Desk(tmp_path, chat)
        desk.service.env["PROOFREAD_TIMEOUT_SECONDS"] = "300"
        service = desk.service
        try:
            chat.reply = chat_server.hangs
            desk.start()
            job = desk.job()
            wait_until(lambda: chat.asked(TEXT) == 1, what="the first request")
            # A stop waits for no answer, and costs no attempt.
            assert service.stop("pipeline", signal.SIGTERM, 5) == 0
            assert desk.bench.row(job)["attempts"] == 0
            assert desk.bench.row(job)["lease_token"] == ""
            for attempt in (1, 2):
                service.start("pipeline")
                wait_until(lambda n=attempt: chat.asked(TEXT) == n + 1, what="the next request")
                assert desk.bench.row(job)["attempts"] == attempt
                service.kill("pipeline")
            other = desk.job("другая запись у которой всё идёт хорошо")
            chat.reply = chat_server.corrects
            service.start("pipeline")
            assert desk.done(job) == ""
            assert desk.done(other) == "Другая запись у которой всё идёт хорошо."
            assert chat.asked(TEXT) == 3
            [line] = desk.warnings(job)
            assert "tried before, without a result" in line
            desk.quiet()
        finally:
            service.close()


def test_killed_once_in_the_middle_it_is_done_anew(tmp_path: Path):
    with ChatServer() as chat:
        desk = Desk(tmp_path, chat)
        desk.service.env["PROOFREAD_TIMEOUT_SECONDS"] = "300"
        try:
            chat.reply = chat_server.only_for("номер 11,", chat_server.hangs)  # the last piece
            desk.start()
            job = desk.job(LONG)
            wait_until(lambda: chat.asked("номер 11,") == 1, what="the last piece's request")
            desk.service.kill("pipeline")
            assert desk.text(job, "proofread") == ""
            chat.reply = chat_server.corrects
            desk.service.start("pipeline")
            assert desk.done(job) == LONG
            assert desk.warnings(job) == []
        finally:
            desk.service.close()


# Telegram


def test_telegram_is_answered_with_the_corrected_text(tmp_path: Path):
    with ChatServer() as chat:
        bot = Bot(tmp_path, PROOFREAD_URL=chat.url, PROOFREAD_API_KEY=KEY, PROOFREAD_MODEL=MODEL)
        try:
            bot.start("pb", "media", "telegram")
            desk = Desk.__new__(Desk)
            desk.service, desk.chat = bot.service, chat
            desk.bench = Bench(bot.service, bot.service.client(), tmp_path)
            bot.service.start("pipeline")
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
            desk.quiet()
        finally:
            bot.close()
