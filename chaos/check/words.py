"""What the bot may say, as its senders read it (docs/telegram.md, "What senders see").

The bot's sentences are the product's interface to people. They stand here once more, by hand: a
message that is neither one of these nor a recording's text is something that nobody meant to say.
"""

from __future__ import annotations

import re

_SAID = {
    "unsure": r"/text_[a-z0-9]{15}",
    "failure": r"Номер для владельца сервиса: [a-z0-9]{15}$"
    r"|Its number, for the owner of the service: [a-z0-9]{15}$",
    "no_speech": r"^В этой записи не слышно речи\.$|^There is no speech in this recording\.$",
    "taken": r"^Принято, расшифровываю\.$|^Got it, transcribing\.$",
    "stranger": r"^Этот чат мне пока не разрешён\.|^This chat is not admitted yet\.",
    "not_media": r"^Здесь нечего расшифровать|^There is nothing to transcribe here",
    "over_telegram": r"^Файл больше \d+ МБ|^The file is larger than \d+ MB",
    "too_large": r"^Запись больше допустимого|^The recording is larger than allowed",
    "unreadable": r"^Этот файл не читается|^This file cannot be read as",
    "not_taken": r"^Не получилось забрать этот файл|^This file could not be fetched",
    "unknown": r"^Такой записи в этом чате нет|^There is no such recording in this chat",
    "help": r"^Пришлите голосовое сообщение|^Send a voice message",
    "status": r"^Сейчас в работе ничего нет|^В работе: \d|^Nothing is in work|^In work: \d",
}

REFUSALS = ("over_telegram", "too_large", "unreadable", "not_taken")
"""What tells a sender that there will be no recording."""
ANSWERS = ("failure", "no_speech", "text")
"""What tells a sender what became of one. `unsure` stands beside these."""


def kind_of(text: str) -> str:
    """What the bot said, by name; `text` for what is none of its own sentences."""
    for name, pattern in _SAID.items():
        if re.search(pattern, text.strip()):
            return name
    return "text"


def named(text: str) -> str:
    """The job's number in a failure or in the notice of a broken connection; or empty."""
    found = re.search(r"(?:/text_|: )([a-z0-9]{15})\b", text)
    return found[1] if found else ""
