"""One engine, a three-hour lecture and short messages: who waits for whom, with figures."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.acceptance import speech
from tests.acceptance.bench import Bench
from tests.acceptance.service import Service, User, sample, wait_until
from worker.engine.work import TURN

HOURS = 3
RAW = HOURS * 3600 * 32_000


class Scene:
    """The whole service, a sender of messages, and a lecture on the only engine."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service = service
        self.user: User = service.user()
        self.message()  # loads what has to be loaded
        self.alone = min(self.message() for _ in range(3))
        bench = Bench(service, service.client(), folder)
        self.lecture = bench.job("done", chat_id="1")  # until all of it is in its place
        speech.lecture(folder / "lecture.flac", HOURS).rename(bench.file(self.lecture, "n.flac"))
        service.execute(
            "UPDATE recordings SET duration = ? WHERE id = ?", HOURS * 3600, self.lecture
        )
        bench.set(self.lecture, state="normalized", milestone="normalized")

    def message(self) -> float:
        """Seconds from a message's upload to its text."""
        started = time.monotonic()
        status = self.user.wait(self.user.upload(sample("hello_en.ogg"), language="en"))
        assert "before Friday" in status["transcription_text"]
        return time.monotonic() - started

    @property
    def scratch(self) -> Path:
        return self.service.data / "run" / "engine"

    def files(self) -> dict[str, int]:
        """What the engine has of the lecture on disk, by the end of the name."""
        found = {}
        for path in self.scratch.glob(f"{self.lecture}.*"):
            with suppress(FileNotFoundError):
                found[path.name.partition(".")[2]] = path.stat().st_size
        return found

    def slices(self) -> int:
        [row] = self.service.rows(
            "SELECT count(*) AS n FROM segments WHERE operation IN "
            "(SELECT id FROM operations WHERE recording = ?)",
            self.lecture,
        )
        return int(row["n"])

    def cut(self) -> bool:
        return bool(
            self.service.rows(
                "SELECT 1 FROM operations WHERE recording = ? AND units IS NOT NULL "
                "AND units <> 'null'",
                self.lecture,
            )
        )

    def effort(self) -> float:
        """Seconds of processor time of the engine's children."""
        total = 0
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == self.service.processes["engine"].pid:
                    total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("turns")
    service = Service(folder, POLL_SECONDS="0.2", CHECK_SECONDS="0.5")
    try:
        service.start("pb", "media", "pipeline", "engine")
        yield Scene(service, folder)
    finally:
        service.close()


def overtaken(scene: Scene, during: str) -> None:
    """Send a message now and see it answered within its own time and a slice."""
    took = scene.message()
    print(f"\n{during}: message alone {scene.alone:.2f} s, beside the lecture {took:.2f} s")
    # Twice, for a machine that got busier meanwhile: a slice's time is foretold by the last one's.
    assert took < 2 * (scene.alone + TURN)


def test_a_message_overtakes_a_lecture_that_is_decoded(scene: Scene) -> None:
    def begun() -> bool:
        sizes = [size for name, size in scene.files().items() if name != "pcm"]
        return any(size > RAW / 10 for size in sizes) and len(sizes) == 2

    wait_until(begun, 30, "the lecture's decoding")
    assert "pcm" not in scene.files()
    overtaken(scene, "decoding")
    assert not scene.slices()


def test_a_message_overtakes_a_lecture_that_is_cut(scene: Scene) -> None:
    wait_until(lambda: "pcm" in scene.files(), 60, "the lecture's samples")
    assert not scene.cut()
    overtaken(scene, "cutting")
    assert not scene.slices()


def test_a_message_overtakes_a_lecture_that_is_recognised(scene: Scene) -> None:
    wait_until(lambda: scene.slices() > 4, 120, "the lecture's first slices")
    before = scene.slices()
    overtaken(scene, "recognising")
    wait_until(lambda: scene.slices() > before, 20, "the lecture goes on")


def test_a_deleted_recording_is_left_within_a_slice(scene: Scene) -> None:
    wait_until(lambda: scene.slices() > 0, 120, "the lecture's first slices")
    with scene.service.owner as owner:
        answer = owner.delete(f"/api/collections/recordings/records/{scene.lecture}")
        assert answer.status_code == httpx.codes.NO_CONTENT, answer.text
    started = time.monotonic()

    def idle() -> bool:
        before = scene.effort()
        time.sleep(0.5)
        return scene.effort() - before < 0.1

    wait_until(idle, TURN + 5, "the engine's rest")
    print(f"\nat rest {time.monotonic() - started:.2f} s after the deletion")
    assert scene.service.rows("SELECT id FROM operations") == []
    assert "operation is no longer ours" in scene.service.printed("engine")
