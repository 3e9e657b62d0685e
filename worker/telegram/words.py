"""What the bot says, in the sender's language. No machine text, ever."""

from __future__ import annotations

from typing import Final, Literal

Locale = Literal["ru", "en"]

_WORDS: Final[dict[str, dict[Locale, str]]] = {
    "help": {
        "ru": "Пришлите голосовое сообщение, аудио, видео или такой файл: я отвечу текстом того, "
        "что в нём сказано.\n\n/status — что сейчас в работе\n/text номер — прислать текст ещё раз"
        "\n/help — эта подсказка",
        "en": "Send a voice message, audio, a video or a file with either: I answer with the text "
        "of what is said in it.\n\n/status — what is in work now\n/text number — send a text again"
        "\n/help — these lines",
    },
    "stranger": {
        "ru": "Этот чат мне пока не разрешён. Владелец сервиса может допустить его по номеру: "
        "{chat_id}",
        "en": "This chat is not admitted yet. The owner of the service can admit it by its number: "
        "{chat_id}",
    },
    "taken": {"ru": "Принято, расшифровываю.", "en": "Got it, transcribing."},
    "not_media": {
        "ru": "Здесь нечего расшифровать: нужны голосовое сообщение, аудио или видео.",
        "en": "There is nothing to transcribe here: send a voice message, audio or a video.",
    },
    "over_telegram": {
        "ru": "Файл больше {limit} МБ: больше боту Telegram не отдаёт. Загрузите запись по HTTP "
        "(POST /api/audio): так принимаются записи до {upload} МБ.",
        "en": "The file is larger than {limit} MB: Telegram gives bots no more. Upload the "
        "recording over HTTP (POST /api/audio): recordings of up to {upload} MB are taken there.",
    },
    "too_large": {
        "ru": "Запись больше допустимого: принимаются записи до {upload} МБ и не дольше {hours} ч.",
        "en": "The recording is larger than allowed: up to {upload} MB and {hours} h are taken.",
    },
    "unreadable": {
        "ru": "Этот файл не читается как аудио или видео.",
        "en": "This file cannot be read as audio or video.",
    },
    "not_taken": {
        "ru": "Не получилось забрать этот файл. Пришлите его, пожалуйста, ещё раз.",
        "en": "This file could not be fetched. Please send it again.",
    },
    "failure": {
        "ru": "Не получилось расшифровать эту запись. Номер для владельца сервиса: {job_id}",
        "en": "This recording could not be transcribed. Its number, for the owner of the service: "
        "{job_id}",
    },
    "no_sound": {
        "ru": "В этой записи нет звука. Номер для владельца сервиса: {job_id}",
        "en": "There is no sound in this recording. Its number, for the owner of the service: "
        "{job_id}",
    },
    "broken": {
        "ru": "Эта запись повреждена, и прочитать её не получилось. Номер для владельца сервиса: "
        "{job_id}",
        "en": "This recording is damaged and could not be read. Its number, for the owner of the "
        "service: {job_id}",
    },
    "too_long": {
        "ru": "Эта запись длиннее {hours} ч: больше не принимается. Номер для владельца сервиса: "
        "{job_id}",
        "en": "This recording is longer than {hours} h, which is all that is taken. Its number, "
        "for the owner of the service: {job_id}",
    },
    "no_speech": {
        "ru": "В этой записи не слышно речи.",
        "en": "There is no speech in this recording.",
    },
    "in_file": {"ru": "Весь текст — в файле.", "en": "The whole text is in the file."},
    "unsure": {
        "ru": "Связь прервалась, и часть ответа могла не дойти. Если текста выше нет, он придёт "
        "ещё раз по команде /text_{job_id}",
        "en": "The connection broke and a part of the answer may not have arrived. If the text is "
        "not above, /text_{job_id} sends it again",
    },
    "idle": {"ru": "Сейчас в работе ничего нет.", "en": "Nothing is in work now."},
    "in_work": {"ru": "В работе: {count}", "en": "In work: {count}"},
    "and_more": {"ru": "… и ещё {count}", "en": "… and {count} more"},
    "unknown": {
        "ru": "Такой записи в этом чате нет, или она ещё в работе (/status).",
        "en": "There is no such recording in this chat, or it is still in work (/status).",
    },
    "uploaded": {"ru": "ждёт очереди", "en": "waiting"},
    "normalized": {"ru": "ждёт распознавания", "en": "waiting to be recognised"},
    "submitted": {"ru": "распознаётся, {percent} %", "en": "being recognised, {percent} %"},
    "transcribed": {"ru": "текст готов, отправляется", "en": "the text is there, on its way"},
    "done": {"ru": "готово", "en": "done"},
    "line": {
        "ru": "{number}. Запись {length}, прислана {age} назад: {state}",
        "en": "{number}. A recording of {length}, sent {age} ago: {state}",
    },
    "hours": {"ru": "{n} ч", "en": "{n} h"},
    "minutes": {"ru": "{n} мин", "en": "{n} min"},
    "seconds": {"ru": "{n} с", "en": "{n} s"},
}


class Words:
    """The bot's words in one language."""

    def __init__(self, locale: Locale) -> None:
        self._locale: Locale = locale

    def say(self, key: str, **values: object) -> str:
        """The text of this name."""
        return _WORDS[key][self._locale].format(**values)

    def length(self, seconds: float) -> str:
        """A length of time, as exact as people say it."""
        if seconds < 59.5:
            return self.say("seconds", n=max(1, round(seconds)))
        minutes = round(seconds / 60)
        if minutes < 60:
            return self.say("minutes", n=minutes)
        hours = self.say("hours", n=minutes // 60)
        return f"{hours} {self.say('minutes', n=minutes % 60)}" if minutes % 60 else hours
