"""What a recording that is gone left with a recogniser elsewhere is removed there, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.bench import Bench, Scripted
from tests.acceptance.recogniser_kit import SpeechKitServer
from tests.acceptance.recogniser_servers import KEY, serving
from tests.acceptance.service import Service, sample, wait_until
from tests.acceptance.test_queue_healing import run
from worker.jobs import Step
from worker.recognisers.base import Refused


@pytest.fixture
def kit() -> Iterator[SpeechKitServer]:
    with serving(SpeechKitServer()) as server:
        server.deletes_early = False
        yield server


@pytest.fixture
def service(kit: SpeechKitServer, tmp_path: Path) -> Iterator[Service]:
    service = Service(
        tmp_path, RECOGNISER="speechkit", SPEECHKIT_URL=kit.url, SPEECHKIT_OPERATIONS_URL=kit.url,
        SPEECHKIT_API_KEY=KEY, POLL_SECONDS="0.1", CHECK_SECONDS="3600",
    )  # fmt: skip
    try:
        service.start("pb", "media", "pipeline")
        yield service
    finally:
        service.close()


def left(service: Service) -> list[str]:
    return [row["operation"] for row in service.rows("SELECT operation FROM leftovers")]


def test_a_deleted_recordings_result_is_deleted_once_there_is_one(
    service: Service, kit: SpeechKitServer
) -> None:
    user, owner = service.user(), service.owner
    jobs = [user.upload(sample("hello_ru.ogg")) for _ in range(3)]
    wait_until(lambda: all(service.job(job)["operation"] for job in jobs), 30, "the submission")
    operations = [service.job(job)["operation"] for job in jobs]
    first, second, third = (each.removeprefix("speechkit:") for each in operations)

    def delete(job: str) -> None:
        answer = owner.delete(f"/api/collections/recordings/records/{job}")
        assert answer.status_code == 204, answer.text

    delete(jobs[0])
    wait_until(lambda: kit.asked, 10, "a try")  # still at it, and so it stays
    assert left(service) == [operations[0]]
    assert kit.deleted == []

    service.kill("pipeline")  # a recording that is deleted while nobody is there to see it
    delete(jobs[1])
    for each in (first, second):
        kit.finish(each)
    service.execute("UPDATE leftovers SET not_before = ''")  # the minute is over
    service.start("pipeline")
    wait_until(lambda: sorted(kit.deleted) == sorted([first, second]), 20, "the results' end")
    wait_until(lambda: left(service) == [], 5, "nothing left")
    assert third in kit.operations, "whose recording is there"
    assert KEY not in service.printed()


def test_an_operation_that_was_given_up_is_removed_later(bench: Bench) -> None:
    class Busy(Scripted):
        def cancel(self, operation: str) -> bool:
            super().cancel(operation)
            return False

    bench.service.execute("DELETE FROM leftovers")
    for operation in ("speechkit:still-at-it", "openai:ours"):
        job = bench.job("submitted", operation=operation)
        assert run(bench, job, Step.CHECK, Busy(Refused("no"))) == "failed"
    assert left(bench.service) == ["speechkit:still-at-it"]
    assert bench.queue().leftovers() == ["speechkit:still-at-it"]
    assert bench.queue().leftovers() == [], "not again within a minute"
    bench.queue().removed("speechkit:still-at-it")
    assert left(bench.service) == []


def test_what_has_gone_by_itself_is_forgotten(bench: Bench) -> None:
    bench.service.execute("DELETE FROM leftovers")
    bench.queue().leave("speechkit:old")
    bench.service.execute("UPDATE leftovers SET created = '2020-01-01 00:00:00.000Z'")
    assert bench.queue().leftovers() == []
    assert left(bench.service) == []


def test_a_done_recording_leaves_nothing(bench: Bench) -> None:
    bench.service.execute("DELETE FROM leftovers")
    for state in ("done", "transcribed", "submitted"):
        job = bench.job(state, operation=f"speechkit:{state}")
        answer = bench.service.owner.delete(f"/api/collections/recordings/records/{job}")
        assert answer.status_code == 204
    assert left(bench.service) == ["speechkit:submitted"]
