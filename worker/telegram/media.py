"""What of a message is a recording."""

from __future__ import annotations

import mimetypes
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from telegram import Audio, Document, Message, Video, VideoNote, Voice

from worker.metrics import EXTENSIONS

_SAFE: Final = re.compile(r"[A-Za-z0-9_-]{1,16}")
_KINDS: Final = ("audio/", "video/")
_BY_TYPE: Final = {
    "audio/ogg": "ogg",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/x-m4a": "m4a",
    "audio/x-wav": "wav",
    "audio/wav": "wav",
    "audio/flac": "flac",
    "audio/x-flac": "flac",
    "audio/webm": "webm",
    "audio/aac": "aac",
    "application/ogg": "ogg",
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/webm": "webm",
    "video/x-matroska": "mkv",
}
"""Where Python's own table says something nobody uses, or nothing."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A recording in a message."""

    file_id: str
    size: int | None
    """Bytes, where Telegram says so."""
    extension: str
    """Of the sender's file name, or by the type, without the dot; empty: let the file's own path
    say."""


def find(message: Message) -> Attachment | None:
    """The message's recording, if it carries one."""
    for media in (message.voice, message.audio, message.video, message.video_note):
        if media is not None:
            return _attachment(media)
    document = message.document
    # An animation has no sound; Telegram shows it as a document too.
    if document is not None and message.animation is None and _is_recording(document):
        return _attachment(document)
    return None


def _is_recording(document: Document) -> bool:
    kind = document.mime_type or ""
    return (
        kind.startswith(_KINDS)
        or kind == "application/ogg"
        or extension_of(document.file_name or "").lower() in EXTENSIONS
    )


def _attachment(media: Voice | Audio | Video | VideoNote | Document) -> Attachment:
    if isinstance(media, VideoNote):
        extension = "mp4"
    else:
        name = "" if isinstance(media, Voice) else (media.file_name or "")
        extension = extension_of(name) or _by_type(media.mime_type or "")
    return Attachment(media.file_id, media.file_size, extension)


def extension_of(name: str) -> str:
    """The tail of a name after its last dot, where it is a safe part of a file name; else empty."""
    head, dot, tail = name.rpartition(".")
    return tail if dot and head != "" and _SAFE.fullmatch(tail) else ""


def extension_in(path: str) -> str:
    """The extension of a path that Telegram names."""
    return extension_of(PurePosixPath(path).name)


def _by_type(kind: str) -> str:
    if kind in _BY_TYPE:
        return _BY_TYPE[kind]
    return (mimetypes.guess_extension(kind) or "").lstrip(".")
