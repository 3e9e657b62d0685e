"""The rest of what every recogniser does: answers that get lost on the way, and empty ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import av
import numpy as np
import pytest

from tests.acceptance.bench import Bench
from tests.acceptance.proxy import Proxy
from tests.acceptance.recogniser_rigs import (
    TEXT,
    LocalRig,
    OpenAiRig,
    Rig,
    SpeechKitRig,
    flac,
    rig,
)
from tests.acceptance.test_recogniser_conformance import NAMES, UNAVAILABLE
from worker.pocketbase.client import Client
from worker.recognisers.base import Finished
from worker.recognisers.local import LocalRecogniser
from worker.recognisers.openai import HEARD

SUBMITS = {
    "local": "/api/operations", "openai": "/v1/audio/transcriptions",
    "speechkit": "/stt/v3/recognizeFileAsync",
}  # fmt: skip
CHECKS = {"local": "/api/operations/", "speechkit": "/operations/"}


@pytest.fixture(params=NAMES)
def other(request: pytest.FixtureRequest, bench: Bench, tmp_path: Path) -> Iterator[Rig]:
    with rig(request.param, bench, tmp_path) as made:
        yield made


@pytest.fixture
def proxy(other: Rig) -> Iterator[Proxy]:
    """A line between the recogniser and its other side."""
    if isinstance(other, LocalRig):
        target = other.bench.service.ports["POCKETBASE"]
    else:
        assert isinstance(other, OpenAiRig | SpeechKitRig)
        target = other.server.server_port
    with Proxy(target) as between:
        if isinstance(other, LocalRig):
            client = other.opened.enter_context(Client(between.url, lambda: "worker-password"))
            other.recogniser = LocalRecogniser(client)
        elif isinstance(other, OpenAiRig):
            other.settings.openai_url = f"{between.url}/v1"
            other.plug()
        else:
            other.settings.speechkit_url = other.settings.speechkit_operations_url = between.url
            other.plug()
        yield between


def test_an_answer_lost_on_the_way_is_no_verdict_and_then_done(other: Rig, proxy: Proxy) -> None:
    proxy.drop_answers(SUBMITS[other.recogniser.name])
    with suppress(*UNAVAILABLE):
        other.hand_in()
    assert proxy.drops_left == 0
    verdict = other.outcome()
    assert isinstance(verdict, Finished)
    assert verdict.transcript.text == TEXT


@pytest.mark.parametrize("other", sorted(CHECKS), indirect=True)
def test_a_verdict_lost_on_the_way_is_asked_for_again(other: Rig, proxy: Proxy) -> None:
    """What `openai` made is kept in PocketBase, as what `local` did."""
    operation = other.hand_in()
    other.work(operation)
    proxy.drop_answers(CHECKS[other.recogniser.name])
    with pytest.raises(UNAVAILABLE):
        other.recogniser.check(operation)
    verdict = other.recogniser.check(operation)
    assert isinstance(verdict, Finished)
    assert verdict.transcript.text == TEXT


def test_a_line_that_is_cut_while_it_works_is_no_verdict(other: Rig, proxy: Proxy) -> None:
    proxy.cut()
    with pytest.raises(UNAVAILABLE):
        other.hand_in()
    proxy.heal()
    verdict = other.outcome()
    assert isinstance(verdict, Finished)
    assert verdict.transcript.text == TEXT


def test_an_empty_answer_about_what_may_be_a_voice_is_an_empty_text(other: Rig) -> None:
    """Less than what must be a voice: a cough, a word that nobody could understand."""
    with av.open(str(other.file)) as container:
        frames = [frame.to_ndarray().reshape(-1) for frame in container.decode(audio=0)]
    short = np.concatenate(frames)[: int(0.7 * HEARD * 16_000)]
    other.file = flac(other.folder / "short.flac", short)
    other.recording = other.record(other.file)
    if isinstance(other, LocalRig):
        operation = other.hand_in()
        held = other.engine.claim()
        assert held is not None
        other.engine.cut(held, [(0.0, 2.0)], "ru")
        other.engine.write(held, 0, [])
        other.engine.finish(held, "done", engine="scripted/one")
        verdict = other.recogniser.check(operation)
    else:
        assert isinstance(other, OpenAiRig | SpeechKitRig)
        if isinstance(other, OpenAiRig):
            other.server.text = lambda call: ""
        else:
            other.server.phrases = lambda operation: []
        verdict = other.outcome()
        if isinstance(other, OpenAiRig):
            assert other.server.calls, "it was asked"
    assert isinstance(verdict, Finished), verdict
    assert (verdict.transcript.text, verdict.transcript.segments) == ("", [])
