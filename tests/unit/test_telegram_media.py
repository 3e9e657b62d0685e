"""Which parts of a message are a recording, and with which extension."""

from __future__ import annotations

import pytest
from telegram import Message

from worker.telegram.media import Attachment, extension_of, find


def message(**content) -> Message:
    raw = {"message_id": 1, "date": 1, "chat": {"id": 5, "type": "private"}, **content}
    found = Message.de_json(raw, None)
    assert found is not None
    return found


def media(**fields) -> dict:
    return {"file_id": "f", "file_unique_id": "u", "duration": 1, **fields}


@pytest.mark.parametrize(
    ("content", "extension"),
    [
        ({"voice": media()}, ""),  # the path that Telegram names says it
        ({"voice": media(mime_type="audio/ogg", file_name="x.exe")}, "ogg"),
        ({"audio": media(file_name="a.b.FLAC")}, "FLAC"),
        ({"audio": media(file_name="no dot", mime_type="audio/mpeg")}, "mp3"),
        ({"audio": media(mime_type="audio/x-nobody-knows")}, ""),
        ({"video": media(width=1, height=1, mime_type="video/mp4")}, "mp4"),
        ({"video_note": media(length=1)}, "mp4"),
        ({"document": media(mime_type="audio/x-wav", file_name="a.wav")}, "wav"),
        ({"document": media(file_name="a.opus")}, "opus"),
        ({"document": media(mime_type="application/ogg")}, "ogg"),
    ],
)
def test_a_recording(content, extension):
    assert find(message(**content)) == Attachment("f", None, extension)


@pytest.mark.parametrize(
    "content",
    [
        {"text": "hello.mp3"},
        {"document": media(mime_type="application/pdf", file_name="a.pdf")},
        {"document": media(file_name="a")},
        {"document": media()},
        {"sticker": media(width=1, height=1, is_animated=False, is_video=True, type="regular")},
        {
            "animation": media(width=1, height=1, mime_type="video/mp4"),
            "document": media(mime_type="video/mp4", file_name="a.mp4"),
        },
        {"photo": [media(width=1, height=1)]},
    ],
)
def test_no_recording(content):
    assert find(message(**content)) is None


@pytest.mark.parametrize(
    ("name", "extension"),
    [
        ("a.mp3", "mp3"),
        ("a.tar.gz", "gz"),
        (".mp3", ""),
        ("mp3", ""),
        ("a.", ""),
        ("a.m p3", ""),
        ("a./etc", ""),
        ("a." + "b" * 17, ""),
        ("a.звук", ""),
        ("", ""),
    ],
)
def test_only_a_safe_tail_is_an_extension(name, extension):
    assert extension_of(name) == extension
