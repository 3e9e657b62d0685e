"""Answers that nobody will send: said by the pipeline, at once or when it starts again."""

from __future__ import annotations

from tests.acceptance.service import Service, wait_until
from tests.acceptance.telegram_service import Bot

SERIES = 'transcriber_undelivered_replies_total{reason="%s"}'


def said(service: Service) -> list[str]:
    return [
        line for line in service.printed("pipeline").splitlines() if "answer not delivered" in line
    ]


def test_with_the_input_off_a_working_pipeline_says_so_and_closes_the_answer(own_bot: Bot):
    own_bot.start()
    own_bot.service.stop("telegram")  # whoever took this recording is off from now on
    job = own_bot.job(5)
    own_bot.service.execute(
        "UPDATE jobs SET state = 'transcribed', milestone = 'transcribed' WHERE id = ?", job
    )
    own_bot.service.execute(
        """INSERT INTO transcripts (id, recording, kind, text, segments, language, created, updated)
           VALUES (?, ?, 'raw', 'личные слова', '[]', 'ru', '', '')""",
        job,
        job,
    )
    own_bot.service.start("pipeline", TELEGRAM_ENABLED="false")
    wait_until(lambda: said(own_bot.service), what="the line")
    answer = own_bot.answer(job)
    assert (answer["state"], answer["reason"]) == ("undelivered", "input_down")
    [line] = said(own_bot.service)
    assert "WARNING" in line
    assert job in line
    assert "личные слова" not in own_bot.service.printed()
    assert own_bot.service.metrics()[SERIES % "input_down"] == 1
    assert own_bot.service.job(job)["state"] == "done"


def test_what_a_killed_pipeline_left_is_said_by_the_next_one_once(own_bot: Bot):
    own_bot.start()
    own_bot.service.stop("telegram")
    known, nameless = own_bot.job(5), own_bot.job(6)
    own_bot.service.execute("UPDATE jobs SET chat_id = '' WHERE id = ?", nameless)
    for job in (known, nameless):
        own_bot.finish(job, "текст")  # and whoever wrote this dies before it says anything
    own_bot.service.start("pipeline", TELEGRAM_ENABLED="false")
    wait_until(lambda: len(said(own_bot.service)) == 2, what="both lines")
    [warning] = [line for line in said(own_bot.service) if known in line]
    [error] = [line for line in said(own_bot.service) if nameless in line]
    assert "WARNING" in warning
    assert "reason=input_down" in warning
    assert "ERROR" in error
    assert "reason=no_addressee" in error
    assert own_bot.answer(nameless)["reason"] == "no_addressee"
    own_bot.service.stop("pipeline")
    own_bot.service.start("pipeline", TELEGRAM_ENABLED="false")
    wait_until(lambda: own_bot.service.metrics()[SERIES % "no_addressee"] == 1)
    own_bot.service.stop("pipeline")
    assert len(said(own_bot.service)) == 2


def test_with_the_input_on_the_pipeline_leaves_answers_to_it(own_bot: Bot):
    own_bot.start()
    chat = own_bot.chat()
    own_bot.service.stop("telegram")
    job, nameless = own_bot.job(chat), own_bot.job(6)
    own_bot.service.execute("UPDATE jobs SET chat_id = '' WHERE id = ?", nameless)
    own_bot.finish(nameless, "текст")
    own_bot.finish(job, "текст")
    own_bot.service.start("pipeline")
    wait_until(lambda: said(own_bot.service), what="the line about the nameless one")
    [line] = said(own_bot.service)
    assert nameless in line
    assert "ERROR" in line
    own_bot.service.start("telegram")
    assert own_bot.said(chat)[0].text == "текст"
    assert own_bot.answer(job)["state"] == "sent"
