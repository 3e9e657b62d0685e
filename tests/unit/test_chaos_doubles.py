"""The outside of a chaos run does what its moods say, and remembers it as it was."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import av
import httpx
import numpy as np
import pytest

from chaos.doubles import Mood, OpenAi, SpeechKit, Telegram, words
from tests.acceptance.recogniser_servers import KEY, serving
from tests.acceptance.telegram_server import TOKEN
from tests.acceptance.telegram_wire import Fault


def sound(container: str, codec: str, level: float = 0.3) -> bytes:
    """Half a second of a tone."""
    target = io.BytesIO()
    samples = (level * 32767 * np.sin(np.arange(8000) / 5)).astype(np.int16)
    with av.open(target, "w", format=container) as out:
        track = out.add_stream(codec, rate=16000, layout="mono")
        track.codec_context.format = "s16"
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), "s16", "mono")
        frame.sample_rate = 16000
        fifo = av.AudioFifo()
        fifo.write(frame)
        while (part := fifo.read(track.codec_context.frame_size or 320, True)) is not None:
            part.pts = None
            out.mux(track.encode(part))
        out.mux(track.encode(None))
    return target.getvalue()


@pytest.fixture
def openai() -> Iterator[OpenAi]:
    with serving(OpenAi(lambda: 1.5)) as server:
        yield server


def ask(server: OpenAi, data: bytes) -> httpx.Response:
    return httpx.post(
        f"{server.url}/v1/audio/transcriptions", data={"model": "whisper-1"}, timeout=10,
        headers={"Authorization": f"Bearer {KEY}"}, files={"file": ("audio.flac", data)},
        trust_env=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "dice", "status"),
    [("refuses", 0.1, 400), ("refuses", 0.9, 422), ("quota", 0.1, 429), ("fails", 0.1, 503)],
)
def test_a_recogniser_has_its_mood_until_it_is_over(
    openai: OpenAi, kind: str, dice: float, status: int
):
    mood = Mood(kind, dice)
    openai.moods.append(mood)
    assert ask(openai, sound("flac", "flac")).status_code == status
    openai.moods.remove(mood)
    assert ask(openai, sound("flac", "flac")).status_code == 200
    assert [(each["fault"], each["status"]) for each in openai.record] == [
        (kind, status),
        ("", 200),
    ]


def test_what_is_done_twice_is_remembered_twice(openai: OpenAi):
    mood = Mood("twice", 0.5)
    openai.moods.append(mood)
    with pytest.raises(httpx.RemoteProtocolError):
        ask(openai, sound("flac", "flac"))
    openai.moods.remove(mood)
    text = ask(openai, sound("flac", "flac")).json()["text"]
    assert text.count(" ") == 2
    heard = [each["text"] for each in openai.record if each["status"] == 200]
    assert heard == [text, text]


def test_other_sound_is_other_words(openai: OpenAi):
    one, two = (ask(openai, sound("flac", "flac", level)).json()["text"] for level in (0.3, 0.31))
    assert one != two
    assert words("a") != words("b")


def test_the_same_sound_is_the_same_words_however_it_is_packed():
    with serving(SpeechKit(lambda: 1.0)) as server:
        said, packed = [], [sound("ogg", "libopus") for _ in range(2)]
        assert packed[0] != packed[1]  # each Ogg has a number of its own
        for content in packed:
            body: dict[str, Any] = {
                "content": base64.b64encode(content).decode(),
                "recognition_model": {
                    "model": "general",
                    "audio_format": {"container_audio": {"container_audio_type": "OGG_OPUS"}},
                    "language_restriction": {
                        "restriction_type": "WHITELIST", "language_code": ["auto"],
                    },
                },
            }  # fmt: skip
            with httpx.Client(
                base_url=server.url, headers={"Authorization": f"Api-Key {KEY}"}, trust_env=False
            ) as http:
                answer = http.post("/stt/v3/recognizeFileAsync", content=json.dumps(body))
                assert answer.status_code == 200, answer.text
                operation = answer.json()["id"]
                result = http.get("/stt/v3/getRecognition", params={"operation_id": operation}).text
            said.append(result)
        assert said[0] == said[1]


def test_telegram_remembers_what_it_carried_out_though_nobody_was_told():
    telegram = Telegram(lambda: 2.0)
    telegram.start()
    try:
        lift = telegram.order("telegram_lost", "sendMessage", Fault(done=True, drop=True, times=1))
        url = f"{telegram.url}/bot{TOKEN}/sendMessage"
        body = {"chat_id": 7, "text": "said"}
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(url, json=body, trust_env=False)
        lift()
        assert httpx.post(url, json=body, trust_env=False).status_code == 200
        found = telegram.evidence()
    finally:
        telegram.close()
    assert [(each["fault"], each["result"], each["done"]) for each in found["calls"]] == [
        ("telegram_lost", "fault", True),
        ("", "ok", True),
    ]
    assert [each["text"] for each in found["sent"]["7"]] == ["said", "said"]
