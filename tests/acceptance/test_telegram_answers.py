"""How senders in Telegram are told what became of their recordings."""

from __future__ import annotations

import random
import time

import pytest

from tests.acceptance.service import wait_until
from tests.acceptance.telegram_server import BLOCKED, Fault, too_many
from tests.acceptance.telegram_service import Bot
from worker.jobs import Advanced, Milestone, Transcript


def length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@pytest.mark.scenario("telegram", "The text is a reply to its message")
def test_the_text_is_a_plain_reply_to_its_message(bot: Bot):
    chat = bot.chat()
    message = bot.telegram.voice(chat, bot.sound)
    job = bot.taken(chat, message)["id"]
    text = "Съешь *ещё* _этих_ [мягких](булок) <b>да</b> выпей `чаю` 😀"
    bot.finish(job, text)
    [said] = bot.said(chat)
    assert (said.text, said.reply_to, said.parse_mode) == (text, message, None)
    assert bot.answer(job)["state"] == "sent"


@pytest.mark.scenario("telegram", "A long text arrives whole and in order")
@pytest.mark.parametrize("kind", ["sentences", "no spaces", "emoji"])
def test_a_long_text_arrives_whole_and_in_order(bot: Bot, kind):
    chat = bot.chat()
    job = bot.job(chat, 7)
    text = {
        "sentences": " ".join(f"Это предложение номер {n}, в нём шесть слов." for n in range(250)),
        "no spaces": "".join(random.Random(1).choices("абвгдежзиклмн", k=9000)),
        "emoji": "👩‍👩‍👧‍👦😀" * 600,
    }[kind]
    bot.finish(job, text)
    bot.answer(job)
    said = bot.said(chat)
    assert len(said) > 1
    assert all(length(each.text) <= 4096 for each in said)
    assert [each.reply_to for each in said] == [7] * len(said)
    together = "".join(each.text for each in said)
    assert together.replace(" ", "") == text.replace(" ", "")
    if kind == "sentences":
        assert all(each.text.endswith("слов.") for each in said)
    if kind == "emoji":
        assert not any(each.text.startswith("\u200d") for each in said)


@pytest.mark.scenario("telegram", "A very long text arrives as a file")
def test_the_text_of_five_hours_arrives_as_a_file_with_a_preview(bot: Bot):
    chat = bot.chat()
    job = bot.job(chat, 7)
    text = " ".join(f"Слово {n} пятичасовой лекции." for n in range(10_000))
    bot.finish(job, text)
    [said] = bot.said(chat)
    assert said.content.decode() == text
    assert said.file_name == f"{job}.txt"
    assert said.reply_to == 7
    assert said.text.startswith("Слово 0 пятичасовой лекции. Слово 1")
    assert length(said.text) <= 1024


def test_the_setting_decides_from_where_on_a_text_is_a_file(bot: Bot):
    chat = bot.chat()
    for number, size in enumerate((11_999, 12_000)):
        bot.finish(bot.job(chat, number + 1), ("слово " * 2000)[:size].strip().ljust(size, "!"))
    said = bot.said(chat, 4)
    assert [bool(each.file_name) for each in said] == [False, False, False, True]


@pytest.mark.scenario("telegram", "A failure is told in human words with the job's number")
@pytest.mark.parametrize("dead", [False, True])
def test_failure_and_death_are_told_in_human_words(bot: Bot, dead):
    chat = bot.chat()
    job = bot.job(chat, 7)
    bot.fail(job, dead=dead)
    [said] = bot.said(chat)
    assert said.text == (
        f"Не получилось расшифровать эту запись. Номер для владельца сервиса: {job}"
    )
    assert said.reply_to == 7


@pytest.mark.scenario("telegram", "A recording without speech is told so")
def test_a_recording_without_speech_is_told_so(bot: Bot):
    chat = bot.chat()
    bot.finish(bot.job(chat), "")
    assert bot.said(chat)[0].text == "В этой записи не слышно речи."


@pytest.mark.scenario("telegram", "The message to be replied to is gone")
def test_the_answer_to_a_message_that_is_gone_goes_without_the_reply_mark(bot: Bot):
    chat = bot.chat()
    bot.telegram.gone.add((chat, 7))
    job = bot.job(chat, 7)
    bot.finish(job, "текст")
    [said] = bot.said(chat)
    assert (said.text, said.reply_to) == ("текст", None)
    assert bot.answer(job)["state"] == "sent"


def test_a_server_that_insists_on_the_reply_gets_the_answer_without(bot: Bot):
    chat = bot.chat()
    refusal = Fault(400, "Bad Request: message to be replied not found", chat=chat, times=1)
    bot.telegram.fault("sendMessage", refusal)
    bot.finish(bot.job(chat, 7), "текст")
    assert bot.said(chat)[0].reply_to is None


@pytest.mark.scenario("telegram", "The topic is gone")
def test_the_answer_to_a_topic_that_is_gone_goes_to_the_chat(bot: Bot):
    forum = bot.chat(kind="forum")
    bot.finish(bot.job(forum, 7, thread_id=6), "текст")
    [said] = bot.said(forum)
    assert (said.text, said.thread_id) == ("текст", None)


@pytest.mark.scenario("telegram", "The group became a supergroup")
def test_a_group_that_became_a_supergroup_is_followed_and_stays_admitted(bot: Bot):
    group = bot.chat(kind="group")
    new = bot.chat(kind="forum", admitted=False)
    first, second = bot.job(group, 7), bot.job(group, 8)
    bot.telegram.migrated[group] = new
    bot.finish(first, "первый")
    [said] = bot.said(new)
    assert (said.text, said.reply_to) == ("первый", None)
    bot.finish(second, "второй")
    assert bot.said(new, 2)[1].text == "второй"
    bot.taken(new, bot.telegram.voice(new, bot.sound))
    assert bot.telegram.to(group) == []


def test_the_service_message_of_the_move_is_understood_too(bot: Bot):
    group = bot.chat(kind="group")
    new = bot.chat(kind="forum", admitted=False)
    bot.telegram.message(group, migrate_to_chat_id=new)
    bot.taken(new, bot.telegram.voice(new, bot.sound))


def test_a_message_in_work_while_its_group_moves_is_taken_all_the_same(bot: Bot):
    """The old chat is admitted no more, and nothing said there arrives: it vanished."""
    group = bot.chat(kind="group")
    new = bot.chat(kind="forum", admitted=False)
    with bot.telegram.failing("getFile", Fault(500, "Internal Server Error")):
        fetched = bot.telegram.called("getFile")
        bot.telegram.voice(group, bot.sound)
        wait_until(lambda: bot.telegram.called("getFile") > fetched)
        bot.telegram.message(group, migrate_to_chat_id=new)
        bot.telegram.migrated[group] = new
        wait_until(lambda: bot.service.rows("SELECT id FROM chats WHERE chat_id = ?", str(new)))
    [job] = wait_until(lambda: bot.jobs(group), 30)
    bot.finish(job["id"], "сказанное")
    assert bot.said(new)[0].text == "сказанное"


@pytest.mark.scenario("telegram", "The bot is blocked or the chat is gone")
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault(403, BLOCKED), "blocked"),
        (Fault(403, "Forbidden: bot was kicked from the supergroup chat"), "blocked"),
        (Fault(403, "Forbidden: user is deactivated"), "gone"),
        (Fault(400, "Bad Request: chat not found"), "gone"),
        (Fault(400, "Bad Request: not enough rights to send text messages to the chat"), "blocked"),
        (Fault(400, "Bad Request: something that nobody expects"), "error"),
    ],
)
def test_who_cannot_be_told_is_logged_and_counted_by_reason(bot: Bot, fault, reason):
    chat = bot.chat()
    fault.chat = chat
    before = bot.undelivered(reason)
    job = bot.job(chat)
    with bot.telegram.failing("sendMessage", fault):
        bot.finish(job, "личный текст")
        answer = bot.answer(job)
    assert (answer["state"], answer["reason"]) == ("undelivered", reason)
    wait_until(lambda: bot.undelivered(reason) == before + 1)
    row = bot.service.job(job)
    assert (row["state"], row["attempts"], row["error_text"]) == ("done", 0, "")
    [line] = [
        each
        for each in bot.service.printed("telegram").splitlines()
        if job in each and "answer not delivered" in each
    ]
    assert ("ERROR" if reason == "error" else "WARNING") in line
    assert f"reason={reason}" in line
    assert "личный текст" not in bot.service.printed()


@pytest.mark.scenario("telegram", "One chat's limit does not hold up the others")
def test_one_chats_limit_does_not_hold_up_the_others(bot: Bot):
    slow, quick = bot.chat(), bot.chat()
    bot.telegram.fault("sendMessage", too_many(3, chat=slow, times=1))
    slow_jobs = [bot.job(slow, number) for number in (1, 2, 3)]
    quick_job = bot.job(quick)
    started = time.monotonic()
    for number, job in enumerate(slow_jobs, 1):
        bot.finish(job, f"ответ {number}")
    bot.finish(quick_job, "быстрый")
    [said] = bot.said(quick)
    assert said.at - started < 2
    late = bot.said(slow, 3)
    assert late[0].at - started >= 2.9
    assert [each.text for each in late] == ["ответ 1", "ответ 2", "ответ 3"]
    assert {bot.answer(job)["state"] for job in slow_jobs} == {"sent"}


@pytest.mark.scenario("telegram", "A network fault is tried again")
@pytest.mark.parametrize(
    "fault",
    [
        Fault(502, "Bad Gateway", page=b"<html>Bad Gateway</html>", times=2),
        Fault(500, "Internal Server Error", times=2),
        Fault(404, page=b"<html>sign in to the hotel's network</html>", times=2),
    ],
)
def test_what_certainly_did_not_arrive_is_sent_again(bot: Bot, fault):
    chat = bot.chat()
    fault.chat = chat
    job = bot.job(chat)
    bot.telegram.fault("sendMessage", fault)
    bot.finish(job, "текст")
    assert bot.answer(job)["state"] == "sent"
    assert [each.text for each in bot.telegram.to(chat)] == ["текст"]


@pytest.mark.scenario("telegram", "Nobody knows whether a message arrived")
def test_a_message_that_may_have_arrived_is_not_doubled_and_its_sender_can_ask(bot: Bot):
    chat = bot.chat()
    before = bot.undelivered("unsure")
    job = bot.job(chat, 7)
    # Telegram sends it and its answer is lost on the way.
    bot.telegram.fault("sendMessage", Fault(done=True, drop=True, chat=chat, times=1))
    bot.finish(job, "текст")
    answer = bot.answer(job)
    assert (answer["state"], answer["reason"]) == ("unsure", "unsure")
    text, notice = bot.said(chat, 2)
    assert text.text == "текст"
    assert f"/text_{job}" in notice.text
    wait_until(lambda: bot.undelivered("unsure") == before + 1)
    bot.telegram.message(chat, text=f"/text_{job}")
    assert bot.said(chat, 3)[2].text == "текст"


def test_a_lost_part_of_a_long_text_does_not_lose_the_others(bot: Bot):
    chat = bot.chat()
    job = bot.job(chat, 7)
    bot.telegram.fault("sendMessage", Fault(drop=True, chat=chat, times=1))
    bot.finish(job, ("а" * 4000 + " ") * 2 + "б" * 3000)
    assert bot.answer(job)["state"] == "unsure"
    second, third, notice = bot.said(chat, 3)
    assert (second.text, third.text) == ("а" * 4000, "б" * 3000)
    assert f"/text_{job}" in notice.text


def test_the_line_that_says_so_is_said_until_it_arrives(bot: Bot):
    chat = bot.chat()
    job = bot.job(chat, 7)
    # Neither the text nor the first of these lines arrives, and nobody can know that.
    bot.telegram.fault("sendMessage", Fault(drop=True, chat=chat, times=2))
    bot.finish(job, "текст")
    assert bot.answer(job)["state"] == "unsure"
    [notice] = bot.said(chat, 1)
    assert f"/text_{job}" in notice.text


def test_the_line_that_says_so_is_not_said_for_ever(bot: Bot):
    chat = bot.chat()
    job = bot.job(chat, 7)
    # Everything arrives, and nobody is ever told that it did.
    bot.telegram.fault("sendMessage", Fault(done=True, drop=True, chat=chat))
    bot.finish(job, "текст")
    assert bot.answer(job)["state"] == "unsure"
    text, *notices = bot.telegram.to(chat)
    assert text.text == "текст"
    assert 1 <= len(notices) <= 3
    bot.telegram.lift("sendMessage")


def test_a_chat_can_ask_for_its_own_recordings_only(bot: Bot):
    mine, other = bot.chat(), bot.chat()
    theirs, unfinished = bot.job(other), bot.job(mine, 1)
    bot.finish(theirs, "чужой текст")
    bot.said(other)
    for name in (theirs, unfinished, "", "nosuchrecording"):
        bot.telegram.message(mine, text=f"/text {name}")
    for said in bot.said(mine, 4):
        assert said.text.startswith("Такой записи в этом чате нет")
    assert len(bot.telegram.to(other)) == 1


def test_a_job_returned_to_work_is_told_anew(bot: Bot):
    chat = bot.chat()
    job = bot.job(chat, 7)
    bot.fail(job, dead=True)
    bot.said(chat)
    answer = bot.owner.patch(f"/api/collections/jobs/records/{job}", json={"state": "uploaded"})
    assert answer.status_code == 200, answer.text
    bot.finish(job, "всё-таки текст")
    assert bot.said(chat, 2)[1].text == "всё-таки текст"


def test_the_panel_cannot_send_an_answer_again_by_an_old_form(bot: Bot):
    chat = bot.chat()
    job = bot.job(chat)
    bot.finish(job, "текст")
    row = bot.answer(job)
    path = "/api/collections/answers/records"
    refused = bot.owner.patch(f"{path}/{row['id']}", json={"state": "pending"})
    assert refused.status_code == 400
    assert bot.owner.post(path, json={"recording": job, "cause": "x"}).status_code == 400
    assert bot.answer(job)["state"] == "sent"
    assert len(bot.telegram.to(chat)) == 1


def test_the_proofread_text_goes_where_there_is_one(bot: Bot):
    chat = bot.chat()
    job = bot.job(chat)
    for kind, text in (("raw", "сырой текст"), ("proofread", "Вычитанный текст.")):
        transcript = Transcript(text, [], "ru", "test", kind)
        to = Milestone.TRANSCRIBED if kind == "raw" else Milestone.DONE
        bot.end(job, Advanced(to, transcript=transcript))
    assert [each.text for each in bot.said(chat)] == ["Вычитанный текст."]
