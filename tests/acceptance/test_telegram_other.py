"""The Telegram input with other settings: English, a short reply, small limits, short patience."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.service import wait_until
from tests.acceptance.telegram_server import TOKEN, Fault, too_many
from tests.acceptance.telegram_service import Bot


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bot]:
    bot = Bot(
        tmp_path_factory.mktemp("other"),
        LOCALE="en",
        LOG_LEVEL="DEBUG",
        MAX_UPLOAD_MB="1",
        TELEGRAM_ACKNOWLEDGE="reply",
        TELEGRAM_TEXT_FILE_FROM="20",
        TELEGRAM_GIVE_UP_HOURS="0.0004",  # 1.4 s
    )
    try:
        bot.start()
        yield bot
    finally:
        bot.close()


def test_a_short_reply_acknowledges_where_the_owner_wants_one(other: Bot):
    chat = other.chat()
    message = other.telegram.voice(chat, other.sound)
    [said] = other.said(chat)
    assert (said.text, said.reply_to) == ("Got it, transcribing.", message)
    assert other.telegram.reactions == []


def test_a_file_over_the_owners_limit_is_told_with_it(other: Bot):
    chat = other.chat()
    other.telegram.voice(chat, other.sound + bytes(1 << 20))
    big = other.telegram.file(other.sound + bytes(1 << 20))
    other.telegram.message(chat, audio={"file_id": big, "file_unique_id": "u", "duration": 1})
    for said in other.said(chat, 2):
        assert said.text == ("The recording is larger than allowed: up to 1 MB and 12 h are taken.")
    wait_until(lambda: not other.telegram.updates, what="confirmed")
    assert other.jobs(chat) == []
    assert list((other.service.data / "run" / "telegram").iterdir()) == []


def test_the_words_are_english_and_a_text_of_the_settings_length_is_a_file(other: Bot):
    chat = other.chat(admitted=False)
    other.telegram.voice(chat, other.sound)
    assert other.said(chat)[0].text.startswith("This chat is not admitted yet.")
    other.admit(chat)
    failed, silent, short, long = (other.job(chat, number) for number in range(1, 5))
    other.fail(failed)
    other.finish(silent, " \n")
    other.finish(short, "nineteen characters")
    other.finish(long, "twenty characters ok")
    _, failure, no_speech, text, file = other.said(chat, 5)
    assert failure.text.startswith("This recording could not be transcribed.")
    assert no_speech.text == "There is no speech in this recording."
    assert text.text == "nineteen characters"
    assert file.content == b"twenty characters ok"


@pytest.mark.scenario("telegram", "Telegram stays away")
def test_an_answer_is_tried_for_a_bounded_time_and_then_undelivered(other: Bot):
    chat = other.chat()
    job = other.job(chat)
    with other.telegram.failing("sendMessage", Fault(502, chat=chat)):
        other.finish(job, "lost words")
        answer = other.answer(job)
    assert (answer["state"], answer["reason"]) == ("undelivered", "not_reachable")
    wait_until(lambda: other.undelivered("not_reachable") == 1)
    assert other.service.job(job)["state"] == "done"
    calls = [params for name, params in other.telegram.calls if name == "sendMessage"]
    tried = [params for params in calls if str(params.get("chat_id")) == str(chat)]
    assert len(tried) > 1


def test_a_limit_longer_than_that_time_does_not_lose_the_answer(other: Bot):
    chat = other.chat()
    job = other.job(chat)
    other.telegram.fault("sendMessage", too_many(1, chat=chat, times=3))
    other.finish(job, "kept words")
    assert other.answer(job)["state"] == "sent"
    assert other.said(chat)[0].text == "kept words"


@pytest.mark.scenario("telegram", "The token is never printed")
@pytest.mark.parametrize("method", ["getUpdates", "getFile", "download", "sendMessage"])
@pytest.mark.parametrize(
    "fault",
    [
        Fault(500, "Internal Server Error"),
        Fault(404, "Not Found"),
        Fault(404, page=f"no /bot{TOKEN}/ here".encode()),
        Fault(400, f"Bad Request: what is {TOKEN}"),
        Fault(409, "Conflict: terminated by other getUpdates request"),
        Fault(drop=True),
    ],
    ids=["500", "404", "page", "400", "409", "drop"],
)
def test_the_token_is_never_printed_whatever_fails(other: Bot, method: str, fault: Fault):
    chat = other.chat()
    fault.times = 1
    other.telegram.fault(method, fault)
    wait_until(lambda: other.telegram.called("getUpdates"))
    other.telegram.voice(chat, other.sound)
    other.telegram.message(chat, text="/help")
    wait_until(lambda: fault.times == 0, what="the fault to be met")
    other.telegram.lift()
    assert TOKEN not in other.service.printed()
    assert TOKEN not in str(other.service.metrics())


def test_the_token_is_in_no_log_of_pocketbases_either(other: Bot):
    assert TOKEN not in str(other.service.logged())
