"""What the Telegram input takes, from whom, and what it says."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.acceptance.service import wait_until
from tests.acceptance.telegram_service import Bot, sound_of


@pytest.mark.scenario("telegram", "Every kind of recording is taken")
@pytest.mark.parametrize(
    ("kind", "fields", "path", "extension"),
    [
        ("voice", {"mime_type": "audio/ogg"}, "voice/file_1.oga", "ogg"),
        ("audio", {"file_name": "lecture.MP3", "mime_type": "audio/mpeg"}, "music/f.mp3", "MP3"),
        ("audio", {}, "music/file_2.m4a", "m4a"),
        ("video", {"mime_type": "video/quicktime", "width": 1, "height": 1}, "videos/f.mov", "mov"),
        ("video_note", {"length": 240}, "video_notes/file_3.mp4", "mp4"),
        ("document", {"file_name": "call.wav", "mime_type": "audio/x-wav"}, "d/f.wav", "wav"),
        ("document", {"file_name": "x.ogg", "mime_type": "application/octet-stream"}, "d/f", "ogg"),
        ("document", {"mime_type": "video/mp4"}, "documents/file_4", "mp4"),
    ],
)
def test_every_kind_of_recording_is_taken(bot: Bot, kind, fields, path, extension):
    chat = bot.chat()
    media = {"file_id": bot.telegram.file(bot.sound, path), "file_unique_id": "u", "duration": 1}
    message = bot.telegram.message(chat, **{kind: media | fields})
    job = bot.taken(chat, message)
    assert (job["source"], job["owner"], job["state"]) == ("telegram", "", "uploaded")
    assert job["extension"] == extension
    assert job["size"] == len(bot.sound)
    [file] = [each for each in bot.service.stored_files() if each.parent.name == job["id"]]
    assert file.read_bytes() == bot.sound


@pytest.mark.scenario("telegram", "Each recording of an album is taken")
def test_each_recording_of_an_album_is_taken(bot: Bot):
    chat = bot.chat()
    origin = {"type": "hidden_user", "date": 1, "sender_user_name": "Somebody"}
    messages = [
        bot.telegram.document(
            chat, bot.sound, "a.wav", "audio/x-wav", media_group_id="9", forward_origin=origin
        )
        for _ in range(3)
    ]
    ids = {bot.taken(chat, message)["id"] for message in messages}
    assert len(ids) == 3


@pytest.mark.scenario("telegram", "The sender's file name is not kept")
def test_the_senders_file_name_is_kept_nowhere(bot: Bot):
    chat = bot.chat()
    name = "секретное-слово"
    message = bot.telegram.document(chat, bot.sound, f"{name}.wav", "audio/x-wav")
    job = bot.taken(chat, message)
    assert job["audio"].endswith(".wav")
    needle = name.encode()
    for path in bot.service.folder.rglob("*"):
        if path.is_file():
            assert needle not in path.read_bytes(), path
            assert name not in str(path)


def test_a_name_that_is_no_safe_path_gives_no_extension(bot: Bot):
    chat = bot.chat()
    for name in ("x./../../etc/passwd", "a.\u202egpj", ".mp3", "...", "a." + "b" * 300):
        message = bot.telegram.document(chat, bot.sound, name, "audio/x-wav")
        assert bot.taken(chat, message)["extension"] == "wav", name


@pytest.mark.scenario("telegram", "A stranger is told its chat id and nothing is stored")
def test_a_stranger_is_told_its_chat_id_once_and_nothing_is_stored(bot: Bot):
    chat = bot.chat(admitted=False)
    before = bot.service.stored_files()
    for _ in range(3):
        bot.telegram.voice(chat, bot.sound)
    bot.telegram.message(chat, text="/start")
    wait_until(lambda: not bot.telegram.updates, what="all confirmed")
    [said] = bot.said(chat)
    assert str(chat) in said.text
    assert bot.jobs(chat) == []
    assert bot.service.stored_files() == before
    assert not any(chat == reacted for reacted, _, _ in bot.telegram.reactions)


@pytest.mark.scenario("telegram", "The owner's change of a chat takes effect at once")
def test_the_owners_change_takes_effect_at_once(bot: Bot):
    chat = bot.chat(admitted=False)
    bot.telegram.voice(chat, bot.sound)
    bot.said(chat)
    bot.admit(chat)
    bot.taken(chat, bot.telegram.voice(chat, bot.sound))
    bot.admit(chat, admitted=False)
    message = bot.telegram.voice(chat, bot.sound)
    bot.said(chat, 2)
    assert bot.jobs(chat, message) == []


@pytest.mark.scenario("telegram", "In a group only what is meant for the bot is answered")
def test_in_a_group_only_what_is_meant_for_the_bot_is_answered(bot: Bot):
    group = bot.chat(kind="group")
    bot.telegram.message(group, text="hello everybody")
    bot.telegram.message(group, text="/status@another_bot")
    bot.telegram.message(
        group, photo=[{"file_id": "p", "file_unique_id": "u", "width": 1, "height": 1}]
    )
    bot.telegram.message(group, new_chat_members=[{"id": 5, "is_bot": False, "first_name": "X"}])
    bot.telegram.message(group, text="/status@Transcriber_Bot")
    message = bot.telegram.voice(group, bot.sound)
    bot.taken(group, message)
    [said] = bot.said(group)
    assert "ничего нет" in said.text


@pytest.mark.scenario("telegram", "A message of a forum topic is answered in its topic")
def test_a_message_of_a_topic_is_answered_in_its_topic(bot: Bot):
    forum = bot.chat(kind="forum")
    message = bot.telegram.voice(forum, bot.sound, message_thread_id=5, is_topic_message=True)
    job = bot.taken(forum, message)
    assert job["thread_id"] == "5"
    bot.finish(job["id"], "текст")
    [said] = bot.said(forum)
    assert (said.text, said.thread_id, said.reply_to) == ("текст", 5, message)


def test_a_thread_of_replies_is_no_topic(bot: Bot):
    group = bot.chat(kind="group")
    message = bot.telegram.voice(group, bot.sound, message_thread_id=5)
    job = bot.taken(group, message)
    assert job["thread_id"] == ""
    bot.finish(job["id"], "текст")
    assert bot.said(group)[0].reply_to == message


@pytest.mark.scenario("telegram", "Start and help say what the bot does")
@pytest.mark.parametrize("command", ["/start", "/help", "/HELP@transcriber_bot"])
def test_start_and_help_say_what_the_bot_does(bot: Bot, command):
    chat = bot.chat()
    bot.telegram.message(chat, text=command)
    [said] = bot.said(chat)
    assert "голосовое" in said.text
    assert "/status" in said.text


@pytest.mark.scenario("telegram", "Status lists the chat's recordings in work")
def test_status_lists_the_chats_recordings_and_no_others(bot: Bot):
    chat, other = bot.chat(), bot.chat()
    waiting, running = bot.job(chat, 1), bot.job(chat, 2)
    bot.job(other, 1)
    bot.finish(bot.job(chat, 3), "готово")
    bot.said(chat)
    bot.service.execute(
        "UPDATE jobs SET state = 'submitted', milestone = 'submitted', operation = ? WHERE id = ?",
        f"op{running[:10]}",
        running,
    )
    bot.service.execute(
        """INSERT INTO operations (id, recording, state, speech, recognised, created, updated)
           VALUES (?, ?, 'queued', 100, 42, '', '')""",
        f"op{running[:10]}",
        running,
    )
    bot.telegram.message(chat, text="/status")
    said = bot.said(chat, 2)[1].text.splitlines()
    assert said[0] == "В работе: 2"
    assert "ждёт очереди" in said[1]
    assert "распознаётся, 42 %" in said[2]
    assert len(said) == 3
    assert waiting not in "".join(said)


def test_what_is_no_recording_is_told_so_in_private(bot: Bot):
    chat = bot.chat()
    bot.telegram.message(chat, text="hello")
    bot.telegram.document(chat, b"%PDF", "x.pdf", "application/pdf")
    for said in bot.said(chat, 2):
        assert "нечего расшифровать" in said.text
    assert bot.jobs(chat) == []


@pytest.mark.scenario("telegram", "An accepted message is acknowledged")
def test_an_accepted_message_is_acknowledged_by_a_reaction(bot: Bot):
    chat = bot.chat()
    message = bot.telegram.voice(chat, bot.sound)
    wait_until(lambda: (chat, message, "👀") in bot.telegram.reactions)
    assert bot.telegram.to(chat) == []


def test_where_reactions_are_off_a_word_acknowledges(bot: Bot):
    chat = bot.chat(kind="group")
    bot.telegram.no_reactions.add(chat)
    message = bot.telegram.voice(chat, bot.sound)
    [said] = bot.said(chat)
    assert (said.text, said.reply_to) == ("Принято, расшифровываю.", message)


@pytest.mark.scenario("telegram", "An unreadable file is told and nothing is stored")
def test_an_unreadable_file_is_told_and_nothing_is_stored(bot: Bot):
    chat = bot.chat()
    before = bot.service.stored_files()
    bot.telegram.document(chat, b"this is no media at all", "x.mp3", "audio/mpeg")
    [said] = bot.said(chat)
    assert said.text == "Этот файл не читается как аудио или видео."
    wait_until(lambda: not bot.telegram.updates, what="confirmed")
    assert bot.jobs(chat) == []
    assert bot.service.stored_files() == before


@pytest.mark.scenario("telegram", "A file that Telegram does not give is told with the limit")
def test_a_file_over_20_mb_is_told_with_the_limit_and_the_other_way_in(bot: Bot):
    chat = bot.chat()
    big = bytes((20 << 20) + 1)
    bot.telegram.voice(chat, big)
    bot.telegram.message(
        chat, audio={"file_id": bot.telegram.file(big), "file_unique_id": "u", "duration": 1}
    )  # Telegram does not always say how large a file is
    for said in bot.said(chat, 2):
        assert "20 МБ" in said.text
        assert "/api/audio" in said.text
        assert "2048 МБ" in said.text
    assert bot.jobs(chat) == []
    series = 'transcriber_rejected_total{error_code="too_large",input="telegram"}'
    wait_until(lambda: bot.service.metrics()[series] >= 2)
    line = "the bot api server at TELEGRAM_API_URL is not in local mode"
    assert bot.service.printed("telegram").count(line) == 1


def test_a_file_of_exactly_20_mb_is_asked_for(bot: Bot):
    chat = bot.chat()
    message = bot.telegram.voice(chat, sound_of(20 << 20))
    assert bot.taken(chat, message)["size"] == 20 << 20


def test_one_message_handed_in_by_many_at_once_gives_one_recording(bot: Bot):
    chat = bot.chat()
    files = len(bot.service.stored_files())
    sound = bot.service.folder / "many.wav"
    sound.write_bytes(bot.sound)
    client = bot.service.client()
    client.request("GET", "/api/queue/stats")  # logged in: nothing but the upload takes time
    fields = {"chat_id": str(chat), "message_id": "7"}
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(
            lambda _: client.upload("/api/queue/recordings", "audio", sound, fields), range(8)
        )
        jobs = [str(answer["job_id"]) for answer in answers]
    assert len(set(jobs)) == 1
    assert [row["id"] for row in bot.jobs(chat)] == jobs[:1]
    assert len(bot.service.stored_files()) == files + 1


def test_a_recording_is_counted_by_its_input_and_extension(bot: Bot):
    chat = bot.chat()
    series = 'transcriber_recordings_accepted_total{extension="%s",input="telegram"}'
    before = bot.service.metrics()
    for name in ("a.OPUS", "a.сюр", "a.xyz"):
        bot.taken(chat, bot.telegram.document(chat, bot.sound, name, "audio/ogg"))
    after = bot.service.metrics()
    grown = {label: after[series % label] - before[series % label] for label in ("opus", "other")}
    assert grown == {"opus": 1, "other": 1}
    assert "xyz" not in str(after)


def test_the_routes_are_for_workers_alone(bot: Bot):
    calls = [
        ("POST", "/api/queue/recordings"),
        ("GET", "/api/queue/chats/1"),
        ("GET", "/api/queue/chats/1/jobs"),
        ("POST", "/api/queue/chats/1/moved"),
        ("POST", "/api/queue/rejections"),
        ("POST", "/api/queue/answers/claim"),
        ("POST", "/api/queue/answers/restart"),
        ("POST", "/api/queue/answers/close"),
        ("POST", "/api/queue/answers/again"),
        ("POST", "/api/queue/answers/write/abcdefghijklmno"),
    ]
    user = bot.service.user()
    for method, path in calls:
        nobody = httpx.request(method, bot.service.url + path, trust_env=False, json={})
        assert nobody.status_code == 401, path
        assert json.loads(nobody.text)["error_code"] == "unauthorized"
        assert user.http.request(method, path, json={}).status_code == 403, path
    assert user.http.get("/api/collections/answers/records").status_code == 403
