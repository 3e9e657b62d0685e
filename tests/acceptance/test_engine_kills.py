"""Engines that share work, and engines that are killed at random: the same texts, each once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.acceptance import speech
from tests.acceptance.service import Service, wait_until

SEED = 30
KILLS = 6


Hints = dict[str, str]


def recordings(folder: Path) -> list[tuple[Path, Hints]]:
    """Twenty of all kinds, some in several slices, with the hints of their senders."""
    english, russian, pause = speech.said("en"), speech.said("ru"), speech.pause
    hiss = speech.noise(len(russian) / speech.RATE, 300, 1)[: len(russian)]
    left = joined([english, pause(len(russian) / speech.RATE)])
    right = joined([pause(len(english) / speech.RATE), russian])[: len(left)]
    left = left[: len(right)]
    split = {"channels": "split"}
    kinds: list[tuple[str, Sequence[speech.Sound], Hints]] = [
        ("a.flac", [english], {}),
        ("b.ogg", [russian], {}),
        ("in-two-languages.wav", [joined([pause(1), russian, pause(6), english])], {}),
        ("silence.wav", [pause(8)], {}),
        ("noise.flac", [speech.noise(6)], {}),
        ("long-silence-behind.mp3", [joined([russian, pause(30)])], {}),
        ("call.flac", [left, right], split),
        ("one-side-silent.ogg", [pause(len(russian) / speech.RATE), russian], split),
        ("silent-call.wav", [pause(3), speech.noise(3, 4)], split),
        ("turned-over.wav", [russian, -russian], {}),
        ("mixed-call.m4a", [left, right], {"channels": "mix"}),
        ("noisy.m4a", [english + speech.noise(len(english) / speech.RATE, 200)], {}),
        ("half.wav", [russian[: len(russian) // 2]], {}),
        ("noisy.webm", [joined([russian + hiss, pause(3)])], {"language": "ru"}),
        ("backwards.flac", [russian[::-1]], {}),
        ("late.mp3", [english[speech.RATE :]], {"language": "en"}),
        ("blink.wav", [english[: speech.RATE // 5]], {}),
        ("noise-then-silence.mkv", [joined([speech.noise(3, 50), pause(3)])], {}),
        ("a.avi", [english], {"vocabulary": "Friday, report"}),
        ("lecture.mp4", [joined([russian, pause(5), english, pause(5), russian])], {}),
    ]
    return [(speech.store(folder / name, *sound), hints) for name, sound, hints in kinds]


def joined(parts: list[speech.Sound]) -> speech.Sound:
    return np.concatenate(parts)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path, POLL_SECONDS="0.1", CHECK_SECONDS="0.2")
    try:
        service.start("pb", "media", "pipeline")
        yield service
    finally:
        service.close()


def transcripts(service: Service, jobs: list[str]) -> list[dict[str, Any]]:
    """What came of each recording, once all have ended."""

    def ended() -> bool:
        states = {service.job(job)["state"] for job in jobs}
        assert not states & {"failed", "dead"}, [service.job(job)["error_text"] for job in jobs]
        return states == {"done"}

    wait_until(ended, 240, "the end of the queue")
    found = []
    for job in jobs:
        found += service.rows(
            "SELECT text, segments, language FROM transcripts WHERE recording = ?", job
        )
    assert len(found) == len(jobs)
    return found


def progress(service: Service) -> float:
    """Seconds recognised and recordings ended so far: neither ever becomes less."""
    seconds = sum(
        value
        for series, value in service.metrics().items()
        if series.startswith("transcriber_recognised_audio_seconds_total")
    )
    [row] = service.rows("SELECT count(*) AS n FROM jobs WHERE state IN ('transcribed', 'done')")
    return seconds + float(row["n"])


def over(service: Service, jobs: list[str]) -> bool:
    return all(service.job(job)["state"] == "done" for job in jobs)


def model(service: Service) -> int | None:
    """The engine's child with the model in it."""
    parent = service.processes["engine"].pid
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent and b"spawn_main" in (entry / "cmdline").read_bytes():
                return int(entry.name)
    return None


def test_engines_killed_at_random_change_no_text(service: Service, tmp_path: Path) -> None:
    """A queue of mixed recordings, worked off undisturbed and between kills."""
    files = recordings(tmp_path)
    assert len(files) == 20
    user = service.user()
    service.start("engine")
    undisturbed = transcripts(service, [user.upload(file, **hints) for file, hints in files])
    texts = [each["text"] for each in undisturbed]
    assert sum(map(bool, texts)) == 15, texts
    channels = {
        n: {part.get("channel") for part in json.loads(each["segments"])}
        for n, each in enumerate(undisturbed)
    }
    assert channels[6] == {0, 1}
    assert channels[7] == {1}

    chance = random.Random(SEED)
    before = progress(service)
    jobs = [user.upload(file, **hints) for file, hints in files]
    killed = {"engine": 0, "model": 0}
    for _ in range(KILLS):
        # Something comes of it between two kills: who dies over one slice again and again is
        # meant to be given up.
        def go_on(since: float = before) -> bool:
            return progress(service) > since or over(service, jobs)

        wait_until(go_on, 60, "progress")
        if over(service, jobs):
            break
        time.sleep(chance.uniform(0, 0.5))
        before = progress(service)
        child = model(service)
        if child and chance.random() < 0.6:
            os.kill(child, signal.SIGKILL)
            killed["model"] += 1
        else:
            service.kill("engine")
            service.start("engine")
            killed["engine"] += 1
    disturbed = transcripts(service, jobs)
    print(f"\nkilled: {killed}")
    assert min(killed.values()) >= 2, killed
    assert disturbed == undisturbed


def test_engines_on_one_machine_and_on_another_share_the_work(
    service: Service, tmp_path: Path
) -> None:
    """Two engines in one process, and one with a data folder of its own, as on another machine."""
    other = tmp_path / "other"
    with (tmp_path / "other.log").open("wb") as log:
        elsewhere = subprocess.Popen(
            [sys.executable, "-m", "worker", "engine"],
            env={**service.env, "DATA_DIR": str(other), "POCKETBASE_URL": service.url},
            cwd=tmp_path,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        service.start("engine", ENGINE_PROCESSES="2")
        holders: set[str] = set()
        at_once = 0
        user = service.user()
        russian, gap = speech.said("ru"), speech.pause(5)
        file = speech.write(tmp_path / "two.flac", joined([russian, gap, russian]))
        wait_until(lambda: (other / "models").exists() and model(service), 30, "the models")
        jobs = [user.upload(file) for _ in range(5)]

        def worked_off() -> bool:
            nonlocal at_once
            held = service.rows("SELECT leased_by FROM operations WHERE lease_token <> ''")
            holders.update(row["leased_by"] for row in held)
            at_once = max(at_once, len(held))
            return all(service.job(job)["state"] == "done" for job in jobs)

        wait_until(worked_off, 180, "the end of the queue")
        found = transcripts(service, jobs)
        assert len(holders) == 2
        assert at_once == 3
        assert {each["text"].count("гулять в парк") for each in found} == {2}
        assert len({each["text"] for each in found}) == 1
    finally:
        elsewhere.terminate()
        assert elsewhere.wait(20) == 0
