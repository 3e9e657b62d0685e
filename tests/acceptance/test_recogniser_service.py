"""The whole service with remote recognisers: no engine runs here, so nobody else made the text."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.recogniser_kit import SpeechKitServer
from tests.acceptance.recogniser_rigs import TEXT, flac, speech
from tests.acceptance.recogniser_servers import KEY, Call, OpenAiServer, serving
from tests.acceptance.service import Service, wait_until

PROCESSES = ("pb", "media", "pipeline")
VOCABULARY = "Шифрованное-слово-из-словаря"


@contextmanager
def service(
    folder: Path, **settings: str
) -> Iterator[tuple[Service, OpenAiServer, SpeechKitServer]]:
    with serving(OpenAiServer()) as openai, serving(SpeechKitServer()) as kit:
        openai.text = lambda call: TEXT
        kit.phrases = lambda operation: [TEXT]
        kit.at_once = True
        made = Service(
            folder,
            **{"RECOGNISER": "openai", **settings},
            OPENAI_URL=f"{openai.url}/v1",
            OPENAI_API_KEY=KEY,
            OPENAI_MAX_SECONDS="10",
            SPEECHKIT_URL=kit.url,
            SPEECHKIT_OPERATIONS_URL=kit.url,
            SPEECHKIT_API_KEY=KEY,
            POLL_SECONDS="0.2",
            CHECK_SECONDS="0.5",
            BACKOFF_SECONDS="0.2",
            NO_PROXY="127.0.0.1",
        )
        try:
            yield made, openai, kit
        finally:
            openai.gate.set()
            made.close()


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Service, OpenAiServer, SpeechKitServer]]:
    with service(tmp_path_factory.mktemp("both")) as made:
        made[0].start(*PROCESSES)
        yield made


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return speech(tmp_path_factory.mktemp("talk"), 6)


@pytest.mark.parametrize("recogniser", ["openai", "speechkit"])
def test_the_text_arrives_and_no_secret_shows_anywhere(recogniser, both, talk):
    made, openai, kit = both
    user = made.user()
    # Faults first, whose messages repeat the key and what was sent.
    (openai if recogniser == "openai" else kit).order(401, times=1)
    (openai if recogniser == "openai" else kit).order(503, times=1)
    made.stop("pipeline")
    job = user.upload(talk, vocabulary=VOCABULARY, language="ru", title="заголовок")
    choice = "" if recogniser == "openai" else recogniser
    answer = made.owner.patch(
        f"/api/collections/recordings/records/{job}", json={"recogniser": choice}
    )
    assert answer.status_code == 200, answer.text
    made.start("pipeline")
    status = user.wait(job)
    assert status["status"] == "done"
    assert TEXT in status["transcription_text"]
    [row] = made.rows("SELECT engine, language FROM transcripts WHERE recording = ?", job)
    assert row["engine"] == {"openai": "openai/whisper-1"}.get(recogniser, "speechkit/general")
    assert row["language"] == "ru"
    if recogniser == "openai":
        assert all(call.fields["prompt"] == [VOCABULARY] for call in openai.calls)
        assert made.rows("SELECT * FROM operations, segments") == []
    else:
        assert len(kit.deleted) == 1
    seconds = made.metrics()[
        f'transcriber_recognised_audio_seconds_total{{engine="{row["engine"]}"}}'
    ]
    assert seconds > 1
    assert "401" in made.printed("pipeline")
    assert KEY not in made.printed() + str(made.metrics())
    assert VOCABULARY not in made.printed()
    assert TEXT not in made.printed()
    for path in made.folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert KEY.encode() not in path.read_bytes(), path


def test_the_owner_may_name_a_recogniser_and_nobody_else(both, talk):
    made, _, _ = both
    user = made.user()
    job = user.upload(talk)
    user.wait(job)
    address = f"/api/collections/recordings/records/{job}"
    assert made.owner.patch(address, json={"recogniser": "speechkit"}).status_code == 200
    assert made.owner.patch(address, json={"recogniser": "magic"}).status_code == 400
    assert user.http.patch(address, json={"recogniser": "local"}).status_code in {403, 404}
    [row] = made.rows("SELECT recogniser, size FROM recordings WHERE id = ?", job)
    assert row["recogniser"] == "speechkit"
    assert row["size"] > 0


def test_progress_shows_while_pieces_come_in(both, talk):
    made, openai, _ = both
    user = made.user()
    openai.calls.clear()
    openai.gate.clear()
    job = user.upload(talk)
    try:
        wait_until(lambda: openai.calls, what="a call")
        assert user.status(job)["status"] == "normalized"
        assert user.status(job)["progress"] == 0
        openai.gate.set()
        wait_until(lambda: len(openai.calls) > 2, what="more pieces")
        openai.gate.clear()
        count = len(openai.calls)
        shown = wait_until(lambda: user.status(job).get("progress"), what="progress")
        assert 0 < shown < 1 or user.status(job)["status"] == "done", count
    finally:
        openai.gate.set()
    assert user.wait(job)["status"] == "done"


def test_deleting_a_recording_stops_it_without_a_word(both, talk):
    made, openai, _ = both
    user = made.user()
    openai.calls.clear()
    openai.gate.clear()
    before = made.printed("pipeline")
    job = user.upload(talk)
    try:
        wait_until(lambda: openai.calls, what="a call")
        assert made.owner.delete(f"/api/collections/recordings/records/{job}").status_code == 204
        called = len(openai.calls)
    finally:
        openai.gate.set()
    other = user.upload(talk)  # once that is done, the first had every chance
    user.wait(other)
    assert len(openai.calls) <= called + 6, "nothing more was sent of what is gone"
    assert made.rows("SELECT * FROM operations WHERE recording = ?", job) == []
    said = made.printed("pipeline").removeprefix(before)
    assert "ERROR" not in said
    assert "WARNING" not in said


def slowly(call: Call) -> str:
    """A server that takes its time, so that a kill has something to meet."""
    time.sleep(0.2)
    return f"piece {call.digest}."


def test_killed_at_any_moment_the_text_is_the_same(tmp_path, talk):
    """Kill the pipeline again and again: no piece is lost, none stands twice, none is asked for
    again once it was kept."""
    with service(tmp_path) as (made, openai, _):
        openai.text = slowly
        made.start(*PROCESSES)
        user = made.user()
        undisturbed = user.wait(user.upload(talk))["transcription_text"]
        pieces = undisturbed.split("piece ")[1:]
        assert len(pieces) == len(set(pieces)) == 6
        draw = random.Random(4)
        openai.calls.clear()
        jobs = [user.upload(talk) for _ in range(3)]
        kills = 0

        def done() -> bool:
            return all(user.status(job)["status"] == "done" for job in jobs)

        while kills < 5:
            count = len(openai.calls) + draw.randint(1, 3)
            wait_until(lambda count=count: len(openai.calls) >= count or done(), 60)
            if done():
                break
            made.kill("pipeline")
            kills += 1
            made.start("pipeline")
        assert kills >= 3
        for job in jobs:
            assert user.wait(job)["transcription_text"] == undisturbed
            assert len(made.rows("SELECT * FROM transcripts WHERE recording = ?", job)) == 1
        # A kill costs at most the pieces that were in work, one for each of the threads.
        assert len(openai.calls) <= 3 * 6 + 3 * kills


@pytest.mark.parametrize("recogniser", ["openai", "speechkit"])
def test_killed_around_the_answer_there_is_one_text(recogniser, tmp_path):
    short = speech(tmp_path, 1)
    with service(tmp_path, RECOGNISER=recogniser) as (made, openai, kit):
        made.start(*PROCESSES)
        user = made.user()
        job = user.upload(short)

        def done() -> bool:
            return bool(user.status(job)["status"] == "done")

        for _ in range(2):
            # What was kept before a kill is not asked for again.
            wait_until(lambda: openai.calls or kit.operations or done(), what="a call")
            if done():
                break
            made.kill("pipeline")
            openai.calls.clear()
            made.start("pipeline")
        assert user.wait(job)["transcription_text"] == TEXT
        assert len(made.rows("SELECT * FROM transcripts WHERE recording = ?", job)) == 1


def test_a_stop_waits_for_no_server_and_costs_no_attempt(tmp_path, talk):
    with service(tmp_path) as (made, openai, _):
        made.start(*PROCESSES)
        user = made.user()
        openai.gate.clear()
        job = user.upload(talk)
        wait_until(lambda: openai.calls, what="a call")
        try:
            code = made.stop("pipeline", signal.SIGTERM, 8)
        except subprocess.TimeoutExpired:
            pytest.fail("the pipeline waits for the server")
        assert code in {0, -signal.SIGTERM, 143}
        assert made.job(job)["lease_token"] == ""
        assert made.job(job)["attempts"] == 0
        openai.gate.set()
        made.start("pipeline")
        assert user.wait(job)["status"] == "done"


def test_silence_is_nobodys_words_and_leaves_the_house_for_nothing(both, tmp_path):
    """No speech: the server is not asked, and cannot invent anything."""
    made, openai, _ = both
    openai.calls.clear()
    user = made.user()
    job = user.upload(flac(tmp_path / "silence.flac", np.zeros(16000 * 5, np.int16)))
    status = user.wait(job)
    assert (status["status"], status["transcription_text"], status["no_speech"]) == (
        "done", "", True,
    )  # fmt: skip
    assert openai.calls == []
