"""Why a recording failed: told in Telegram where that helps, by a closed list; nowhere else."""

from __future__ import annotations

import pytest

from tests import media_corpus
from tests.acceptance.bench import Bench, Sender
from tests.acceptance.service import Service, tone
from tests.acceptance.telegram_service import Bot
from worker.jobs import Failed, Milestone, Step

SAID = {
    "no_sound": "В этой записи нет звука.",
    "unreadable": "Эта запись повреждена, и прочитать её не получилось.",
    "too_long": "Эта запись длиннее 12 ч: больше не принимается.",
    "": "Не получилось расшифровать эту запись.",
}


@pytest.mark.parametrize("why", SAID)
def test_telegram_is_told_why_and_nothing_of_the_machine(bot: Bot, why) -> None:
    chat = bot.chat()
    job = bot.job(chat, 7)
    bot.end(job, Failed("decode: sandbox died: /secret/path", why))
    [said] = bot.said(chat)
    assert said.text == f"{SAID[why]} Номер для владельца сервиса: {job}"
    assert said.reply_to == 7


@pytest.mark.parametrize("why", ["no_sound", "unreadable", "too_long"])
def test_the_step_that_judges_writes_why(bench: Bench, tmp_path, why) -> None:
    content = {
        "no_sound": media_corpus.silent_video,
        "unreadable": lambda: b"\0" * 5000,
        "too_long": tone(tmp_path, seconds=2).read_bytes,
    }[why]()
    job = bench.job("uploaded", "telegram", chat_id="7", message_id="1")
    bench.file(job, "a.wav").write_bytes(content)
    sender = Sender()
    hours = 1 / 3600 if why == "too_long" else 12
    bench.runner(Step.NORMALISE, telegram=sender, max_duration_hours=hours).poll()
    row = bench.row(job)
    assert (row["state"], row["why"]) == ("failed", why), row["error_text"]
    assert sender.told == [(job, "failure")]


def test_it_is_cleared_when_the_owner_returns_the_job(bench: Bench) -> None:
    job = bench.job("uploaded")
    [held] = bench.queue().claim(Milestone.UPLOADED, 60)
    bench.queue().write(held, Failed("no audio", "no_sound"))
    assert bench.row(job)["why"] == "no_sound"
    answer = bench.service.owner.patch(
        f"/api/collections/jobs/records/{job}", json={"state": "uploaded"}
    )
    assert answer.status_code == 200, answer.text
    assert bench.row(job)["why"] == ""


def test_what_is_not_on_the_list_is_not_kept(bench: Bench) -> None:
    job = bench.job("uploaded")
    [held] = bench.queue().claim(Milestone.UPLOADED, 60)
    bench.queue().write(held, Failed("no audio", "the /secret/path"))  # type: ignore[arg-type]
    assert bench.row(job)["why"] == ""


def test_the_status_shows_no_more_than_that_it_halted(shelf: Service, user) -> None:
    job = user.post(("a.wav", b"")).json()["job_id"]
    queue = shelf.queue()
    while True:
        held = next(iter(queue.claim(Milestone.UPLOADED, 60)))
        if held.id == job:
            break
    queue.write(held, Failed("no audio", "no_sound"))
    assert set(user.status(job)) == {"job_id", "status", "created_at", "halted"}
