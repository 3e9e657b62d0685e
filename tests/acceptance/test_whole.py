"""The main job, end to end: upload, queue, local recognition, text."""

from __future__ import annotations

import re
import wave
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.service import Service, sample, wait_until

MILESTONES = ["uploaded", "normalized", "submitted", "transcribed", "done"]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower().replace("ё", "е"))


@pytest.mark.scenario("own", "A recording goes through the whole chain")
def test_a_recording_goes_through_the_whole_chain(whole: Service):
    user = whole.user()
    job = user.upload(sample("hello_en.ogg"))
    seen: list[dict[str, Any]] = []

    def done() -> bool:
        status = user.status(job)
        if not seen or seen[-1] != status:
            seen.append(status)
        return status["status"] == "done"

    wait_until(done, 60, "the text")
    order = [MILESTONES.index(status["status"]) for status in seen]
    assert order == sorted(order)
    for status in seen:
        assert ("progress" in status) == (status["status"] == "submitted")
        assert 0 <= status.get("progress", 0) <= 1
        assert ("transcription_text" in status) == (status["status"] in MILESTONES[3:])
    assert words(seen[-1]["transcription_text"]) == words(sample("hello_en.txt").read_text())
    assert "halted" not in seen[-1]


@pytest.mark.parametrize("language", ["", "ru"])
def test_russian_is_told_from_english_and_named_or_not(whole: Service, language: str):
    """The transcript keeps segments with times, the language and who made it."""
    user = whole.user()
    job = user.upload(sample("hello_ru.ogg"), language=language)
    text = user.wait(job)["transcription_text"]
    assert words(text) == words(sample("hello_ru.txt").read_text())
    [row] = user.http.get("/api/collections/transcripts/records").json()["items"]
    assert row["text"] == text
    assert row["language"] == "ru"
    assert row["engine"] == "faster-whisper/base"
    assert row["no_speech"] is False
    times = [(segment["start"], segment["end"]) for segment in row["segments"]]
    assert times == sorted(times)
    assert all(0 <= start < end < 10 for start, end in times)
    assert " ".join(segment["text"].strip() for segment in row["segments"]) == text


@pytest.mark.scenario("own", "The operation is removed once its text is saved")
def test_the_operation_is_removed_once_its_text_is_saved(whole: Service):
    user = whole.user()
    job = user.upload(sample("hello_en.ogg"))
    user.wait(job)
    assert whole.job(job)["operation"]

    def left() -> list[dict[str, Any]]:
        return whole.rows(
            "SELECT o.id FROM operations o LEFT JOIN segments s ON s.operation = o.id"
            " WHERE o.recording = ?",
            job,
        )

    wait_until(lambda: not left(), 10, "the operation's removal")


@pytest.mark.scenario("own", "A final failure is one error")
def test_a_final_failure_is_one_error(whole: Service, tmp_path: Path):
    user = whole.user()
    answer = user.post(("empty.mp3", b""))
    assert answer.status_code == 201
    job = answer.json()["job_id"]
    status = user.wait(job)
    assert status["halted"] is True
    assert status["status"] == "uploaded"
    assert "transcription_text" not in status
    row = whole.job(job)
    assert row["state"] == "failed"
    assert row["attempts"] == 1  # judged at once, not tried to the limit
    assert "no audio" in row["error_text"]
    lines = [line for line in whole.printed().splitlines() if job in line]
    assert len(lines) == 1, lines
    assert " ERROR " in lines[0]
    assert "step=normalise" in lines[0]


def test_silence_is_an_empty_text_marked_as_such(whole: Service, tmp_path: Path):
    """Cases: no invented text, and the result says that there was no speech."""
    path = tmp_path / "silence.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(bytes(2 * 16000 * 5))
    user = whole.user()
    status = user.wait(user.upload(path, language="ru"))
    assert status["status"] == "done"
    assert status["transcription_text"] == ""
    assert status["no_speech"] is True
