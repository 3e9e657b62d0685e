"""Mutated answers of everybody whom the workers call: recognisers, proofreading, PocketBase.

Whatever comes, a call ends in its documented result or in an error of `worker/errors.py`, with no
word of what came in it; and of an answer without end only so much is kept.
"""

from __future__ import annotations

import asyncio
import resource
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from fuzz import mutate
from fuzz.run import Run
from fuzz.server import Server, serving
from tests.acceptance.recogniser_kit import events
from tests.media_corpus import channels, encode, tone
from worker.engine.operations import HttpOperations, Operation
from worker.errors import ConfigurationError, TranscriberError, describe
from worker.jobs import Job, Milestone, Recording, Waiting
from worker.pages import PocketBaseCollector
from worker.pocketbase.client import Client
from worker.pocketbase.queue import Queue
from worker.proofreading.endpoint import Endpoint
from worker.recognisers.local import Rows
from worker.recognisers.openai import OpenAiRecogniser
from worker.recognisers.pieces import Piece
from worker.recognisers.speechkit import SpeechKitRecogniser
from worker.settings import load
from worker.telegram import outbox
from worker.telegram.store import Answer, Store

PRIVATE = "Zvezdochet"
"""Stands in every answer, and in no error."""
SECONDS = 5.0
MEMORY = 300.0
"""MB by which a run may grow: the largest answer that it makes is a tenth of that."""
ID = "abcdefghijklmno"
RECORDING = Recording(ID, "a.wav", "b.flac", "wav", 2.0, "ru", PRIVATE)
JOB = Job(ID, Milestone.SUBMITTED, 1, "token", "", "", 0.0, 0, "http", "", "", "")
OPERATION = Operation(ID, ID, "token", 1, 0, "", "", None, frozenset(), "")
ROW = {"id": ID, "state": "uploaded", "attempts": 1, "lease_token": "t", "operation": "",
       "error_text": "", "waited": 0.0, "sent_back": 0, "source": "http", "chat_id": "",
       "thread_id": "", "message_id": ""}  # fmt: skip
DELIVERY = Answer(ID, ID, "text", "1", "", "1", 0, 0, 0, 1, 0.0, "token", PRIVATE)
Call = Callable[[], object]


class Callers:
    """Every client of the workers, each with a good answer to each of its calls."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.audio = folder / "piece.flac"
        self.audio.write_bytes(encode("flac", "flac", channels(tone(1, 16000)), 16000))
        settings = load(
            telegram_enabled=False, data_dir=folder, openai_url=server.url,
            speechkit_api_key="key-of-speechkit", speechkit_url=server.url,
            speechkit_operations_url=server.url, proofread_url=server.url, proofread_model="m",
        )  # fmt: skip
        stop = threading.Event()
        self._client = client = Client(server.url, lambda: "worker-password")
        self._openai = OpenAiRecogniser(settings, client, stop)
        self._speechkit = SpeechKitRecogniser(settings, stop)
        self._settings = settings
        self.kinds: tuple[tuple[str, list[Any], Call], ...] = (
            *self._of_openai(), *self._of_speechkit(), ("proofread", [COMPLETION], self._correct),
            *self._of_the_queue(Queue(client, "w"), folder), *self._of_engines(client, folder),
            *self._of_telegram(client),
            ("stats", [STATS], lambda: list(PocketBaseCollector(client, lambda: True).collect())),
        )  # fmt: skip

    def close(self) -> None:
        """Close the connections."""
        for each in (self._openai, self._speechkit, self._client):
            each.close()

    def forget_the_session(self) -> None:
        """Have the next call to PocketBase log in again."""
        self._client._token = ""

    def _of_openai(self) -> list[tuple[str, list[Any], Call]]:
        def ask(form: str) -> Call:
            return lambda: self._openai._transcribe(
                RECORDING, self.audio, Piece(0.0, 2.0, 2.0), form
            )

        return [("openai", [VERBOSE], ask("verbose_json")), ("openai json", [PLAIN], ask("json"))]

    def _of_speechkit(self) -> list[tuple[str, list[Any], Call]]:
        def check() -> object:
            self._speechkit._checks._made.clear()  # its own pace is not what is tried here
            return self._speechkit.check("speechkit:op")

        def submit() -> object:
            self._speechkit._hourly._made.clear()
            return self._speechkit.submit(RECORDING, lambda: self.audio)

        running, done = {"id": "op", "done": False}, {"id": "op", "done": True, "response": {}}
        return [
            ("speechkit check", [done, Stream(events([PRIVATE, "two"]))], check),
            ("speechkit running", [running], check),
            (
                "speechkit failed",
                [{"done": True, "error": {"code": 13, "message": PRIVATE}}],
                check,
            ),
            ("speechkit cancel", [{}], lambda: self._speechkit.cancel("speechkit:op")),
            ("speechkit submit", [running], submit),
        ]

    def _correct(self) -> object:
        async def ask() -> str:
            asked = Endpoint(self._settings)
            try:
                return await asked.correct(PRIVATE, "")
            finally:
                await asked.close()

        return asyncio.run(ask())

    def _of_the_queue(self, queue: Queue, folder: Path) -> list[tuple[str, list[Any], Call]]:
        row = {"id": ID, "audio": "a", "normalized": "b", "extension": "wav", "duration": 1.0,
               "language": "", "vocabulary": PRIVATE, "recogniser": "", "channels": ""}  # fmt: skip
        text = {"transcript": {"text": PRIVATE, "segments": [], "language": "", "engine": ""}}
        return [
            ("claim", [LOGIN, {"jobs": [ROW]}], lambda: queue.claim(Milestone.UPLOADED, 5)),
            ("write", [LOGIN, {"lost": []}], lambda: queue.write(JOB, Waiting(1.0))),
            ("give back", [LOGIN, {"returned": 0}], queue.give_back),
            ("recording", [LOGIN, row], lambda: queue.recording(ID)),
            ("transcript", [LOGIN, text], lambda: queue.transcript(ID)),
            ("download", [LOGIN, {}], lambda: queue.download(ID, "audio", folder / "file")),
        ]

    def _of_engines(self, client: Client, folder: Path) -> list[tuple[str, list[Any], Call]]:
        engine, rows = HttpOperations(client, "e"), Rows(client)
        row = {"id": ID, "recording": ID, "lease_token": "t", "attempts": 1, "crashes": 0,
               "language": "", "vocabulary": PRIVATE, "units": [[0, 1]], "done": [0],
               "detected": "ru"}  # fmt: skip
        look = {"state": "done", "quiet": 0.0, "error_text": PRIVATE, "language": "ru",
                "engine": "e", "units": 1, "progress": 1,
                "parts": [{"unit": 0, "segments": [{"start": 0, "end": 1, "text": PRIVATE}]}],
                }  # fmt: skip
        return [
            ("engine claim", [LOGIN, {"operations": [row]}], engine.claim),
            ("engine renew", [LOGIN, {"yield": False}], lambda: engine.renew(OPERATION)),
            ("engine write", [LOGIN, {"yield": False}], lambda: engine.write(OPERATION, 0, [])),
            ("engine restart", [LOGIN, {"returned": 0}], engine.restart),
            ("local submit", [LOGIN, {"operation": ID}], lambda: rows.queue(RECORDING)),
            ("local check", [LOGIN, look], lambda: rows.look(ID)),
            ("local cancel", [LOGIN, {}], lambda: rows.remove(ID)),
        ]

    def _of_telegram(self, client: Client) -> list[tuple[str, list[Any], Call]]:
        store = Store(client, "t")
        delivery = {"id": ID, "recording": ID, "kind": "text", "chat_id": "1", "thread_id": "",
                    "message_id": "1", "begun": 0, "sent": 0, "unsure": 0, "attempts": 1,
                    "failing": 0, "lease_token": "t", "has_text": True,
                    "text": PRIVATE}  # fmt: skip
        job = {"job_id": ID, "status": "uploaded", "duration": 1, "age": 1, "progress": 0}
        closed = {"closed": [{"recording": ID, "chat_id": "1"}]}
        return [
            ("chat", [LOGIN, {"admitted": True, "job_id": ""}],
             lambda: asyncio.run(store.chat(1, 1))),
            ("accept", [LOGIN, {"job_id": ID}],
             lambda: asyncio.run(store.accept(self.audio, 1, None, 1))),
            ("jobs", [LOGIN, {"jobs": [job]}], lambda: asyncio.run(store.in_work(1))),
            ("again", [LOGIN, {"found": True}], lambda: asyncio.run(store.again(ID, 1, 1))),
            ("answers", [LOGIN, {"answers": [delivery]}], lambda: asyncio.run(store.claim(1))),
            ("answer", [LOGIN, {}], lambda: asyncio.run(store.begin(DELIVERY))),
            ("outbox", [LOGIN, closed], lambda: outbox.close(client, ID, "down")),
        ]  # fmt: skip


class Stream(list[Any]):
    """JSON objects one after the other."""


LOGIN = {"token": "a.session.token", "record": {"id": ID}}
COMPLETION = {"choices": [{"message": {"content": PRIVATE}, "finish_reason": "stop"}]}
STATS = {"states": [{"state": "uploaded", "jobs": 1, "oldest": 1.5}],
         "counters": {"accepted|http|wav": 3}}  # fmt: skip
PLAIN = {"text": PRIVATE}
VERBOSE = {
    "language": "russian", "duration": 2.0, "text": f"{PRIVATE} two",
    "segments": [{"id": 0, "start": 0.0, "end": 1.0, "text": PRIVATE},
                 {"id": 1, "start": 1.0, "end": 2.0, "text": "two"}],
    "words": [{"word": PRIVATE, "start": 0.1, "end": 0.9}, {"word": "two", "start": 1, "end": 2}],
}  # fmt: skip
STATUSES = (200,) * 12 + (201, 204, 301, 400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 504)
ERROR = {"error": {"message": PRIVATE, "type": "invalid_request_error", "code": "bad",
                   "param": None},
         "error_code": "lease_lost", "message": PRIVATE}  # fmt: skip


def fuzz(run: Run) -> None:
    """Call each client, with one of the answers that it gets mutated."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with serving() as server, closing(Callers(server, run.folder)) as callers:
        for number, rng in run.each():
            name, good, call = callers.kinds[number % len(callers.kinds)]
            callers.forget_the_session()
            server.answers = [_answer(each) for each in good]
            spoilt = rng.randrange(len(good))
            server.answers[spoilt] = _spoilt(rng, good[spoilt])
            status, headers, body = server.answers[spoilt]
            _call(run, number, name, call, f"{name}: {status} {headers} {body[:300]!r}")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    run.measured("grown by, MB", grown)
    if grown > MEMORY:
        run.found(-1, f"the process has grown by {grown:.0f} MB")


def _call(run: Run, number: int, name: str, call: Call, given: str) -> None:
    began = time.monotonic()
    try:
        call()
    except (TranscriberError, ConfigurationError) as error:
        run.seen[type(error).__name__] += 1
        if PRIVATE in describe(error):
            run.found(
                number, f"{name}: the error repeats what came: {describe(error)[:200]}", given
            )
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        run.seen[f"{name}: {type(error).__name__}"] += 1
        run.found(number, f"{name}: {type(error).__name__} {str(error)[:150]}", given)
    else:
        run.seen["result"] += 1
    spent = time.monotonic() - began
    run.measured(f"s for {name}", spent)
    if spent > SECONDS:
        run.found(number, f"{name} took {spent:.1f} s", given)


def _answer(value: Any) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, _dumped(value)


def _dumped(value: Any) -> bytes:
    if isinstance(value, Stream):
        return b"\n".join(mutate.dumped(each) for each in value)
    return mutate.dumped(value)


def _spoilt(rng: Random, good: Any) -> tuple[int, dict[str, str], bytes]:
    status, headers = rng.choice(STATUSES), {"Content-Type": "application/json"}
    value: Any = good if status < 400 else ERROR
    changed = mutate.json_value(rng, value, rng.choice([0, 1, 1, 2, 4]))
    if isinstance(value, Stream) and isinstance(changed, list):
        changed = Stream(changed)
    body = _dumped(changed)
    if rng.random() < 0.25:
        body = mutate.bytes_of(rng, body)
    if rng.random() < 0.01:
        body = rng.choice([b" " * 20_000_000, b'{"text": "' + b"x" * 20_000_000 + b'"}'])
    if rng.random() < 0.15:
        headers[rng.choice(["Retry-After", "Content-Type", "Location"])] = rng.choice(
            [
                "-1",
                "1e9",
                "nan",
                "inf",
                "soon",
                "text/html; charset=wrong",
                "/elsewhere",
                "",
                "1.5.2",
            ]
        )
    if rng.random() < 0.05:
        headers["Content-Encoding"] = rng.choice(["gzip", "br", "deflate", "wrong"])
    if rng.random() < 0.05:
        headers["Content-Length"] = str(len(body) + rng.choice([1, 1000]))  # hangs up in the middle
    return status, headers, body
