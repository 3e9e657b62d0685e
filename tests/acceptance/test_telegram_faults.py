"""Nothing that Telegram brings is lost or told twice, whatever dies or is away meanwhile."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tests.acceptance.service import sample, wait_until
from tests.acceptance.telegram_server import Fault, TelegramServer
from tests.acceptance.telegram_service import Bot, sound_of


@pytest.mark.scenario("telegram", "The process dies between receiving and storing a message")
def test_a_kill_between_receipt_and_storage_loses_nothing(own_bot: Bot):
    own_bot.start()
    chat = own_bot.chat()
    own_bot.telegram.fault("download", Fault(silent=True))
    messages = [own_bot.telegram.voice(chat, own_bot.sound) for _ in range(3)]
    wait_until(lambda: own_bot.telegram.called("getFile") >= 3)
    own_bot.service.kill("telegram")
    assert own_bot.jobs(chat) == []
    assert len(own_bot.telegram.updates) == 3
    own_bot.telegram.lift()
    own_bot.service.start("telegram")
    for message in messages:
        own_bot.taken(chat, message)
    wait_until(lambda: not own_bot.telegram.updates, what="all confirmed")
    assert len(own_bot.jobs(chat)) == 3
    assert len(own_bot.service.stored_files()) == 3


@pytest.mark.scenario("telegram", "A message delivered again gives no second recording")
def test_a_kill_between_storage_and_confirmation_doubles_nothing(own_bot: Bot):
    own_bot.start()
    chat = own_bot.chat()
    # The poll under way brings the message; the one that would confirm it is never answered.
    wait_until(lambda: own_bot.telegram.called("getUpdates"))
    own_bot.telegram.fault("getUpdates", Fault(silent=True))
    message = own_bot.telegram.voice(chat, own_bot.sound)
    job = own_bot.taken(chat, message)
    own_bot.service.kill("telegram")
    assert len(own_bot.telegram.updates) == 1
    own_bot.telegram.lift()
    own_bot.service.start("telegram")
    wait_until(lambda: not own_bot.telegram.updates, what="confirmed")
    assert [each["id"] for each in own_bot.jobs(chat)] == [job["id"]]
    assert len(own_bot.service.stored_files()) == 1
    assert own_bot.telegram.called("getFile") == 1


@pytest.mark.scenario("telegram", "A crash between the saved state and the answer")
def test_a_kill_between_done_and_the_answer_does_not_lose_the_answer(own_bot: Bot):
    own_bot.start()
    chat = own_bot.chat()
    done, dead = own_bot.job(chat, 1), own_bot.job(chat, 2)
    own_bot.service.kill("telegram")
    own_bot.finish(done, "текст")  # and whoever wrote this dies here
    own_bot.fail(dead, dead=True)
    own_bot.service.start("telegram")
    said = own_bot.said(chat, 2)
    assert said[0].text == "текст"
    assert dead in said[1].text
    assert own_bot.answer(dead)["state"] == own_bot.answer(done)["state"] == "sent"
    assert len(own_bot.telegram.to(chat)) == 2


def test_a_kill_while_an_answer_is_on_its_way_does_not_double_it(own_bot: Bot):
    own_bot.start()
    chat = own_bot.chat()
    job = own_bot.job(chat)
    own_bot.telegram.fault("sendMessage", Fault(done=True, silent=True))
    own_bot.finish(job, "текст")
    own_bot.said(chat)
    own_bot.service.kill("telegram")
    own_bot.telegram.lift()
    own_bot.service.start("telegram")
    assert own_bot.answer(job)["state"] == "unsure"
    text, notice = own_bot.said(chat, 2)
    assert text.text == "текст"
    assert f"/text_{job}" in notice.text
    assert len(own_bot.telegram.to(chat)) == 2


def test_a_stop_lets_the_message_on_its_way_arrive(own_bot: Bot):
    own_bot.start()
    chat = own_bot.chat()
    job = own_bot.job(chat)
    fault = own_bot.telegram.fault("sendMessage", Fault(done=False, silent=True))
    own_bot.finish(job, "а" * 4000 + " " + "б" * 100)
    wait_until(lambda: own_bot.telegram.called("sendMessage"))
    fault.silent, fault.done, fault.times = False, True, 0  # the next one passes
    own_bot.telegram.lift()
    assert own_bot.service.stop("telegram") == 0
    own_bot.service.start("telegram")
    assert own_bot.answer(job)["state"] in {"sent", "unsure"}
    texts = [each.text for each in own_bot.telegram.to(chat)]
    assert texts.count("б" * 100) == 1
    assert texts.count("а" * 4000) <= 1


@pytest.mark.scenario("telegram", "PocketBase is away while messages come in")
def test_losing_pocketbase_while_messages_come_in_loses_none(own_bot: Bot):
    own_bot.start()
    chat = own_bot.chat()
    own_bot.taken(chat, own_bot.telegram.voice(chat, own_bot.sound))
    wait_until(lambda: not own_bot.telegram.updates, what="confirmed")
    before = own_bot.service.printed("telegram").count("pocketbase is away")
    own_bot.service.kill("pb")
    messages = [own_bot.telegram.voice(chat, own_bot.sound) for _ in range(12)]
    wait_until(lambda: own_bot.telegram.called("getUpdates") > 5, what="some polls")
    assert len(own_bot.telegram.updates) == 12
    own_bot.service.start("pb")
    for message in messages:
        own_bot.taken(chat, message, 60)
    wait_until(lambda: not own_bot.telegram.updates, what="all confirmed")
    assert len(own_bot.jobs(chat)) == 13
    printed = own_bot.service.printed("telegram")
    assert printed.count("pocketbase is away") == before + 1
    assert printed.count("pocketbase is back") == before + 1


@pytest.mark.scenario("telegram", "Two hundred voice messages within ten seconds")
def test_two_hundred_voice_messages_within_ten_seconds_all_arrive(own_bot: Bot):
    own_bot.start()
    chats = [own_bot.chat() for _ in range(20)]
    sent: list[tuple[int, int]] = []

    def send() -> None:
        for number in range(200):
            chat = chats[number % 20]
            sent.append((chat, own_bot.telegram.voice(chat, own_bot.sound)))
            time.sleep(0.04)

    sender = threading.Thread(target=send)
    started = time.monotonic()
    sender.start()
    sender.join()
    assert time.monotonic() - started < 10
    wait_until(lambda: not own_bot.telegram.updates, 60, "all confirmed")
    took = time.monotonic() - started
    rows = own_bot.service.rows("SELECT chat_id, message_id FROM jobs")
    assert sorted((int(row["chat_id"]), int(row["message_id"])) for row in rows) == sorted(sent)
    wait_until(lambda: len(own_bot.telegram.reactions) >= 200, 20, "all acknowledged")
    print(f"200 voice messages stored and confirmed within {took:.1f} s of the first")


def test_files_pass_through_in_constant_memory(own_bot: Bot):
    own_bot.start()
    chat = own_bot.chat()
    own_bot.taken(chat, own_bot.telegram.voice(chat, own_bot.sound))
    before = peak(own_bot)
    big = sound_of(20 << 20)
    for message in [own_bot.telegram.voice(chat, big) for _ in range(5)]:
        own_bot.taken(chat, message, 60)
    assert peak(own_bot) - before < 40 << 20
    wait_until(lambda: not own_bot.telegram.updates, what="all confirmed")
    assert list((own_bot.service.data / "run" / "telegram").iterdir()) == []


def peak(bot: Bot) -> int:
    status = Path(f"/proc/{bot.service.processes['telegram'].pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) << 10


def test_a_download_that_breaks_off_is_made_again(bot: Bot):
    chat = bot.chat()
    bot.telegram.fault("download", Fault(drop=True, times=1))
    sound = bot.sound + bytes(100_000)
    job = bot.taken(chat, bot.telegram.voice(chat, sound))
    [file] = [each for each in bot.service.stored_files() if each.parent.name == job["id"]]
    assert file.read_bytes() == sound


def test_an_update_that_cannot_be_understood_does_not_stop_the_others(bot: Bot):
    chat = bot.chat()
    secret = "личные слова"
    bot.telegram.raw({"message": {"text": secret, "chat": "nonsense"}})
    bot.telegram.raw({"something_new": {"text": secret}})
    bot.taken(chat, bot.telegram.voice(chat, bot.sound))
    wait_until(lambda: not bot.telegram.updates, what="all confirmed")
    assert "telegram update not understood" in bot.service.printed("telegram")
    assert secret not in bot.service.printed("telegram")


@pytest.mark.scenario("telegram", "Polling fails for a minute")
def test_the_input_counts_as_down_when_polling_has_failed_for_a_minute(own_bot: Bot):
    own_bot.start()
    wait_until(lambda: own_bot.telegram.called("getUpdates"))
    own_bot.telegram.fault("getUpdates", Fault(502, page=b"<html>Bad Gateway</html>"))
    own_bot.telegram.message(1, text="ends the poll under way")
    calls = own_bot.telegram.called("getUpdates")
    wait_until(lambda: own_bot.telegram.called("getUpdates") > calls)
    assert own_bot.input_up("telegram") == 1  # a blip is none
    then = time.time() - 61  # as if a minute had passed since
    os.utime(own_bot.service.data / "run" / "telegram.up", (then, then))
    assert own_bot.input_up("telegram") == 0
    assert own_bot.input_up("http") == 1
    own_bot.telegram.lift()
    own_bot.up()


@pytest.mark.scenario("telegram", "A local Bot API server lifts the limit")
def test_a_local_server_in_local_mode_gives_large_files_from_its_disk(tmp_path: Path):
    telegram = TelegramServer(local=True).start()
    telegram.folder = tmp_path / "bot-api"
    bot = Bot(tmp_path, telegram)
    try:
        bot.start()
        chat = bot.chat()
        big = sound_of(21 << 20)
        job = bot.taken(chat, telegram.document(chat, big, "talk.WAV", "audio/x-wav"), 60)
        assert (job["size"], job["extension"]) == (21 << 20, "WAV")
        assert telegram.downloads == []
        assert peak(bot) < 160 << 20
        [kept] = [each for each in telegram.folder.rglob("*") if each.is_file()]
        assert kept.stat().st_size == 21 << 20  # what is the server's is left alone
    finally:
        bot.close()


@pytest.mark.scenario("telegram", "A voice message is answered with its text")
def test_a_voice_message_with_real_speech_is_answered_with_its_text(own_bot: Bot):
    own_bot.start("pb", "media", "pipeline", "engine", "telegram")
    chat = own_bot.chat()
    message = own_bot.telegram.voice(chat, sample("hello_en.ogg").read_bytes())
    [said] = own_bot.said(chat, limit=60)
    assert said.reply_to == message
    words = set(sample("hello_en.txt").read_text().lower().replace(".", "").split())
    heard = set(said.text.lower().replace(".", "").replace(",", "").split())
    assert len(words & heard) >= 0.6 * len(words), said.text
    assert own_bot.service.printed("pipeline").count("answer not delivered") == 0
