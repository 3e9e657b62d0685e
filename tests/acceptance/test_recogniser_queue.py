"""Recognisers and the queue: whose fault costs attempts, who stands in, and whose turn it is."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.bench import Bench
from tests.acceptance.recogniser_kit import SpeechKitServer
from tests.acceptance.recogniser_rigs import TEXT, seconds, speech
from tests.acceptance.recogniser_servers import KEY, OpenAiServer, serving
from tests.acceptance.service import free_port
from worker.jobs import Step
from worker.pipeline.runner import Runner
from worker.recognisers.choice import Recognisers
from worker.recognisers.openai import OpenAiRecogniser


class Stage:
    """The bench with both servers, and everything set up to use them."""

    def __init__(self, bench: Bench, openai: OpenAiServer, kit: SpeechKitServer) -> None:
        self.bench, self.openai, self.kit = bench, openai, kit
        openai.text = lambda call: TEXT
        kit.phrases = lambda operation: [TEXT]
        kit.at_once = True
        self.file = speech(bench.folder)
        self.opened = ExitStack()
        self.made: dict[str, Recognisers] = {}

    def job(self, file: Path | None = None, **recording: Any) -> str:
        """A job whose normalised audio is real speech."""
        job = self.bench.job("normalized")
        audio = file or self.file
        self.bench.file(job, "n.flac").write_bytes(audio.read_bytes())
        columns = {"duration": seconds(audio), **recording}
        for name, value in columns.items():
            self.bench.service.execute(f"UPDATE recordings SET {name} = ? WHERE id = ?", value, job)
        return job

    def settings(self, **given: Any) -> dict[str, Any]:
        return {
            "recogniser": "openai",
            "openai_url": f"{self.openai.url}/v1",
            "openai_api_key": KEY,
            "openai_max_seconds": 10.0,
            "speechkit_url": self.kit.url,
            "speechkit_operations_url": self.kit.url,
            "speechkit_api_key": KEY,
            "max_attempts": 4,
            **given,
        }

    def run(self, job: str, step: Step = Step.SUBMIT, times: int = 1, **given: Any) -> str:
        """So many runs of a step, their pauses passed over; the job's state after them."""
        config = self.bench.settings(**self.settings(**given))
        key = repr(sorted(given.items()))
        if key not in self.made:
            stop = threading.Event()
            made = Recognisers(config, self.bench.client, stop, self.bench.metrics)
            self.made[key] = self.opened.enter_context(made)
        runner = self.bench.runner(step, recogniser=self.made[key], config=config)
        for _ in range(times):
            self.bench.due(job)
            runner.poll()
        return str(self.bench.row(job)["state"])

    def engine(self, job: str) -> str:
        """Who made the text."""
        [row] = self.bench.service.rows("SELECT engine FROM transcripts WHERE recording = ?", job)
        return str(row["engine"]).partition("/")[0]


@pytest.fixture
def stage(bench: Bench) -> Iterator[Stage]:
    with serving(OpenAiServer()) as openai, serving(SpeechKitServer()) as kit:
        stage = Stage(bench, openai, kit)
        with stage.opened:
            yield stage


@pytest.mark.parametrize("recogniser", ["openai", "speechkit"])
@pytest.mark.parametrize("status", [401, 429])
def test_a_wrong_key_or_no_quota_kills_no_recording_however_long_it_lasts(
    recogniser, status, stage, lines
):
    """Cases: "quota exceeded" is waited for, not final."""
    job = stage.job()
    server = stage.openai if recogniser == "openai" else stage.kit
    server.order(status)
    server.always = server.faults.pop()
    assert stage.run(job, times=7, recogniser=recogniser) == "normalized"
    assert stage.bench.row(job)["attempts"] <= 3
    assert f"recogniser {recogniser}: answered {status}" in stage.bench.row(job)["error_text"]
    told = lines.at("WARNING")
    assert len(told) == 7, "each run is told once"
    assert ("API_KEY" in told[-1]["extra"]["reason"]) is (status == 401)
    assert KEY not in lines.text() + stage.bench.row(job)["error_text"]
    server.always = None
    assert stage.run(job, recogniser=recogniser) == "submitted"
    assert stage.run(job, Step.CHECK, recogniser=recogniser) == "transcribed"


def test_the_pause_that_a_server_asks_for_is_kept(stage):
    job = stage.job()
    stage.openai.order(429, Retry_After="3000")
    stage.run(job, backoff_seconds=10.0)
    assert 2990 < stage.bench.pause(job) <= 3000


def test_nobody_there_is_no_fault_of_the_recordings(stage):
    """Cases: the recogniser refuses connections for a minute; three attempts burn in three s."""
    job = stage.job()
    nowhere = f"http://127.0.0.1:{free_port()}/v1"
    assert stage.run(job, times=7, openai_url=nowhere) == "normalized"
    assert stage.run(job) == "submitted"


def test_a_server_that_fails_on_a_recording_is_given_up_in_the_end(stage):
    job = stage.job()
    stage.openai.order(500)
    stage.openai.always = stage.openai.faults.pop()
    config = stage.bench.settings(**stage.settings())
    recogniser = OpenAiRecogniser(config, stage.bench.client, threading.Event(), turn=0)
    runner = stage.bench.runner(Step.SUBMIT, recogniser=recogniser, config=config)
    for _ in range(5):
        stage.bench.due(job)
        runner.poll()
    recogniser.close()
    assert stage.bench.row(job)["state"] == "dead"
    assert "answered 500" in stage.bench.row(job)["error_text"]


def test_a_refusal_is_final_at_once_and_told(stage):
    job = stage.job()
    stage.openai.order(415, "unsupported", times=2)
    assert stage.run(job) == "failed"
    assert "415" in stage.bench.row(job)["error_text"]
    assert KEY not in stage.bench.row(job)["error_text"]


def test_the_fallback_stands_in_when_the_first_stays_unreachable(stage):
    job = stage.job()
    given = {
        "openai_url": f"http://127.0.0.1:{free_port()}/v1",
        "recogniser_fallback": "speechkit",
    }
    assert stage.run(job, times=2, **given) == "normalized"
    assert stage.run(job, **given) == "submitted"
    assert stage.bench.row(job)["operation"].startswith("speechkit:")
    assert stage.run(job, Step.CHECK, **given) == "transcribed"
    assert stage.engine(job) == "speechkit"
    assert len(stage.kit.deleted) == 1, "the result is deleted once the text is here"


def steady(stage: Stage, **given: Any) -> Runner:
    """A runner that remembers who refused, as the process does."""
    config = stage.bench.settings(**stage.settings(**given))
    recognisers = Recognisers(config, stage.bench.client, threading.Event(), stage.bench.metrics)
    stage.opened.enter_context(recognisers)
    return stage.bench.runner(Step.SUBMIT, recogniser=recognisers, config=config)


@pytest.mark.parametrize("status", [429, 503])
def test_the_fallback_stands_in_soon_when_the_first_asks_for_an_hour(status, stage):
    job = stage.job()
    stage.openai.order(status, Retry_After="3600")
    runner = steady(stage, recogniser_fallback="speechkit", max_attempts=10, backoff_seconds=2.0)
    runner.poll()
    assert stage.bench.row(job)["state"] == "normalized"
    assert 0 < stage.bench.pause(job) < 3
    stage.bench.due(job)
    runner.poll()
    assert stage.bench.row(job)["operation"].startswith("speechkit:")
    another = stage.job()
    runner.poll()
    assert stage.bench.row(another)["operation"].startswith("speechkit:")
    assert stage.openai.calls == [], "it is let be for as long as it asked"


def test_when_both_ask_for_long_the_job_waits_for_the_one_that_may_be_asked_sooner(stage):
    job = stage.job()
    stage.openai.order(429, Retry_After="7200")
    stage.kit.order(429, Retry_After="3600")
    runner = steady(stage, recogniser_fallback="speechkit", backoff_seconds=2.0)
    runner.poll()
    assert stage.bench.pause(job) < 3
    stage.bench.due(job)
    runner.poll()
    assert "speechkit: answered 429" in stage.bench.row(job)["error_text"]
    assert 3590 < stage.bench.pause(job) <= 3600


def test_when_neither_is_there_both_are_tried_in_turn(stage):
    job = stage.job()
    nowhere = f"http://127.0.0.1:{free_port()}"
    given = {
        "openai_url": f"{nowhere}/v1",
        "speechkit_url": nowhere,
        "recogniser_fallback": "speechkit",
    }
    tried = []
    for _ in range(9):
        assert stage.run(job, **given) == "normalized"
        tried.append(stage.bench.row(job)["error_text"].split(":")[0].split()[-1])
    assert tried == ["openai", "openai", "speechkit"] * 3
    assert stage.run(job, recogniser_fallback="speechkit") == "submitted"
    assert stage.bench.row(job)["operation"].startswith("openai:")


def test_what_the_first_had_begun_is_gone_when_another_has_the_recording(stage):
    job = stage.job(speech(stage.bench.folder, 3))
    config = stage.bench.settings(**stage.settings())
    first = OpenAiRecogniser(config, stage.bench.client, threading.Event(), turn=0)
    runner = stage.bench.runner(Step.SUBMIT, recogniser=first, config=config)
    runner.poll()
    first.close()
    assert len(stage.bench.service.rows("SELECT * FROM segments")) == 1
    stage.bench.service.execute("UPDATE recordings SET recogniser = 'speechkit'")
    assert stage.run(job) == "submitted"
    assert stage.bench.service.rows("SELECT * FROM operations, segments") == []
    stage.bench.set(job, state="normalized", operation="")
    stage.bench.service.execute("UPDATE recordings SET recogniser = 'local'")
    assert stage.run(job) == "submitted"
    [row] = stage.bench.service.rows("SELECT id, recogniser, units FROM operations")
    assert (row["recogniser"], row["units"]) == ("", None)
    assert stage.bench.row(job)["operation"] == row["id"]


def test_the_engines_leave_a_remote_recognisers_operations_alone(stage):
    stage.job(speech(stage.bench.folder, 3))
    config = stage.bench.settings(**stage.settings())
    first = OpenAiRecogniser(config, stage.bench.client, threading.Event(), turn=0)
    stage.bench.runner(Step.SUBMIT, recogniser=first, config=config).poll()
    first.close()
    [row] = stage.bench.service.rows("SELECT id, state FROM operations")
    assert row["state"] == "queued"
    stage.bench.service.execute("UPDATE operations SET lease_token = ''")
    own = stage.bench.service.operation(stage.job(), stage.bench.client)
    claim = {"worker": "engine", "lease_seconds": 60}
    claimed = [
        each["id"]
        for _ in range(3)
        for each in stage.bench.client.request("POST", "/api/operations/claim", json=claim)[
            "operations"
        ]
    ]
    assert claimed == [own]


def test_no_time_that_speechkit_gives_is_outside_the_recording(stage):
    job = stage.job(duration=2.5)
    stage.kit.phrases = lambda operation: ["Раз.", "Два.", "Три."]  # 0 to 1.5, 2 to 3.5, 4 to 5.5
    assert stage.run(job, recogniser="speechkit") == "submitted"
    assert stage.run(job, Step.CHECK, recogniser="speechkit") == "transcribed"
    [row] = stage.bench.service.rows("SELECT segments FROM transcripts WHERE recording = ?", job)
    times = [
        (each["start"], each["end"], each["words"][0]["start"], each["words"][0]["end"])
        for each in json.loads(row["segments"])
    ]
    assert times == [(0.0, 1.5, 0.0, 1.5), (2.0, 2.5, 2.0, 2.5), (2.5, 2.5, 2.5, 2.5)]


def test_a_changed_setting_does_not_change_whose_an_operation_is(stage):
    job = stage.job()
    assert stage.run(job) == "submitted"
    assert stage.run(job, Step.CHECK, recogniser="speechkit") == "transcribed"
    assert stage.engine(job) == "openai"


def test_an_operation_of_a_recogniser_that_is_gone_is_submitted_anew(stage):
    job = stage.job()
    assert stage.run(job, recogniser="speechkit") == "submitted"
    gone = {"speechkit_api_key": ""}
    assert stage.run(job, Step.CHECK, **gone) == "normalized"
    assert stage.run(job, **gone) == "submitted"
    assert stage.run(job, Step.CHECK, **gone) == "transcribed"
    assert stage.engine(job) == "openai"


def test_a_choice_that_is_not_set_up_waits_and_says_so(stage):
    job = stage.job(recogniser="speechkit")
    assert stage.run(job, times=6, speechkit_api_key="") == "normalized"
    assert "speechkit: chosen and not set up" in stage.bench.row(job)["error_text"]
    assert stage.run(job) == "submitted"


def test_an_operation_that_cannot_be_asked_for_waits_and_is_given_up_by_time_alone(stage):
    """Decision 5: an operation that never ends is given up, whoever keeps it."""
    job = stage.job()
    given = {"recogniser": "speechkit"}
    assert stage.run(job, **given) == "submitted"
    away = {**given, "speechkit_operations_url": f"http://127.0.0.1:{free_port()}"}
    assert stage.run(job, Step.CHECK, times=7, **away) == "submitted"
    assert stage.bench.row(job)["attempts"] <= 3
    stage.bench.set(job, submitted_at="strftime('%Y-%m-%d %H:%M:%fZ', 'now', '-3 days')")
    assert stage.run(job, Step.CHECK, **away) == "failed"


def test_a_short_message_gets_its_turn_between_a_long_recordings_pieces(stage):
    long = stage.job(speech(stage.bench.folder, 6))
    short = stage.job(duration=seconds(stage.file))
    # The older one first, as the queue has it.
    stage.bench.set(long, created="2020-01-01 00:00:00.000Z")
    config = stage.bench.settings(**stage.settings())
    recogniser = OpenAiRecogniser(config, stage.bench.client, threading.Event(), turn=0)
    runner = stage.bench.runner(Step.SUBMIT, recogniser=recogniser, config=config)
    runner.poll()
    assert stage.bench.row(long)["state"] == "normalized"
    assert stage.bench.row(long)["attempts"] == 0, "a turn that is over is no attempt"
    assert 0 < stage.bench.pause(long) < 2
    runner.poll()
    assert stage.bench.row(short)["state"] == "submitted"
    for _ in range(10):
        stage.bench.due(long)
        if stage.bench.row(long)["state"] == "submitted":
            break
        runner.poll()
    recogniser.close()
    assert stage.bench.row(long)["state"] == "submitted"
    assert len(stage.openai.calls) == 7
    assert len({call.digest for call in stage.openai.calls}) == 6, "the short one is like a piece"
