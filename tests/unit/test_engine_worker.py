"""The engine's loop, with real children, no model, and a PocketBase of a few lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from tests.unit import engine_children, engine_rig
from tests.unit.engine_rig import Memory, Start, operation, wait
from worker.engine import lease, model, work
from worker.errors import LeaseLost, ModelError, PocketBaseUnavailable
from worker.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return engine_rig.tiny(tmp_path)


@pytest.fixture
def start(settings: Settings) -> Iterator[Start]:
    with engine_rig.starting(settings) as start:
        yield start


@pytest.fixture
def lines() -> Iterator[list[str]]:
    heard: list[str] = []
    handle = logger.add(lambda message: heard.append(message.record["message"]), level="INFO")
    yield heard
    logger.remove(handle)


def _pcm(settings: Settings) -> list[Path]:
    return list((settings.folders.run / "engine").iterdir())


def test_a_recording_is_cut_once_and_written_unit_by_unit(start: Start, settings: Settings) -> None:
    memory = Memory({"rec1": "one\ntwo\nthree"}, [operation()])
    running = start(memory)
    wait(lambda: memory.ended)
    assert memory.ended == {"rec1": ("done", "")}
    assert memory.said() == ["one", "two", "three"]
    cuts = [argument for action, argument in memory.calls if action == "cut"]
    assert cuts == [([(0.0, 10.0), (10.0, 20.0), (20.0, 30.0)], "en")]
    assert _pcm(settings) == []
    counted = running.registry.get_sample_value(
        "transcriber_recognised_audio_seconds_total", {"engine": "faster-whisper/tiny"}
    )
    assert counted == 30


def test_silence_is_done_without_units(start: Start) -> None:
    memory = Memory({"rec1": ""}, [operation()])
    start(memory)
    wait(lambda: memory.ended)
    assert memory.ended == {"rec1": ("done", "")}
    assert memory.written == {}


def test_work_goes_on_where_it_ended(start: Start) -> None:
    units = ((0.0, 10.0), (10.0, 20.0), (20.0, 30.0))
    memory = Memory({"rec1": "a\nb\nc"}, [operation(units=units, done=frozenset({0, 2}))])
    start(memory)
    wait(lambda: memory.ended)
    assert memory.written == {("rec1", 1): "b"}
    assert "cut" not in {action for action, _ in memory.calls}


def test_what_is_no_audio_fails(start: Start) -> None:
    memory = Memory({"rec1": "not audio"}, [operation()])
    start(memory)
    wait(lambda: memory.ended)
    assert memory.ended["rec1"][0] == "failed"


def test_another_ones_turn(start: Start) -> None:
    long, short = operation("long"), operation("short")
    memory = Memory({"long": "a\nb\nc\nd\ne\nf", "short": "x"}, [long], yields={("long", 0)})

    def before(action: str, argument: Any) -> None:
        if (action, argument) == ("write", 0) and not memory.waiting and "x" not in memory.said():
            units = tuple((n * 10.0, n * 10.0 + 10) for n in range(6))
            memory.waiting += [
                short,
                replace(long, units=units, done=frozenset({0}), detected="en"),
            ]

    memory.before = before
    memory.audios["short"] = "x"
    start(memory)
    wait(lambda: memory.ended.get("long") == ("done", ""))
    ends = [argument for action, argument in memory.calls if action == "finish"]
    assert ends == [("long", "released"), ("short", "done"), ("long", "done")]
    assert memory.said("long") == list("abcdef")
    # It was put aside, not thrown away.
    assert [argument for action, argument in memory.calls if action == "audio"] == [
        "long",
        "short",
    ]


@pytest.mark.parametrize("during", ["decoded", "cut"])
def test_a_turn_is_given_up_while_preparing_and_nothing_is_done_twice(
    start: Start, settings: Settings, monkeypatch: pytest.MonkeyPatch, during: str
) -> None:
    monkeypatch.setattr(lease, "EVERY", 0.1)
    memory = Memory({"long": "LONG\nb", "short": "x"}, [operation("long")], patient={"long"})
    start(memory)
    wait((settings.folders.run / during).exists)
    memory.waiting += [operation("short"), operation("long")]
    asked = time.monotonic()
    wait(lambda: "short" in memory.ended)
    assert time.monotonic() - asked < 1.5
    assert memory.ended == {"long": ("released", ""), "short": ("done", "")}
    wait(lambda: memory.ended["long"] == ("done", ""))
    assert memory.said("long") == ["LONG", "b"]
    fetched = [argument for action, argument in memory.calls if action == "audio"]
    assert fetched == ["long", "short"]
    for step in ("decoded", "cut"):
        assert (settings.folders.run / step).read_text() == "begun\n"


def test_audio_that_is_gone_has_to_be_made_again(start: Start, lines: list[str]) -> None:
    memory = Memory({}, [operation()])
    start(memory)
    wait(lambda: memory.ended)
    assert memory.ended == {"rec1": ("lost", "")}
    assert "audio to recognise is missing" in lines


def test_pocketbase_away_costs_no_unit_and_two_lines(
    start: Start, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "EVERY", 60)  # it is away for some calls only: none in between
    memory = Memory({"rec1": "one\ntwo"}, [operation()])
    failures = {"cut": 2, "write": 3, "finish": 2}

    def before(action: str, argument: Any) -> None:
        if failures.get(action, 0):
            failures[action] -= 1
            raise PocketBaseUnavailable(action)

    memory.before = before
    start(memory)
    wait(lambda: memory.ended)
    assert memory.said() == ["one", "two"]
    wait(lambda: sum("back" in line for line in lines) == 3)  # it came three times
    assert sum("away" in line for line in lines) == 3
    assert [action for action, _ in memory.calls if action == "audio"] == ["audio"]


@pytest.mark.parametrize("at", ["cut", "write", "finish"])
def test_a_lost_lease_ends_the_work_quietly(start: Start, lines: list[str], at: str) -> None:
    memory = Memory({"rec1": "one\ntwo", "rec2": "x"}, [operation(), operation("rec2")])
    lost: list[str] = []

    def before(action: str, argument: Any) -> None:
        if action == at and not lost:
            lost.append(at)
            raise LeaseLost("rec1")

    memory.before = before
    start(memory)
    wait(lambda: "rec2" in memory.ended)
    assert "rec1" not in memory.ended
    assert not [line for line in lines if "died" in line or "not recognised" in line]


def test_a_lease_lost_while_recognising_is_noticed(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "EVERY", 0.1)
    memory = Memory({"rec1": "\n".join(["SLOW"] * 50)}, [operation()])

    def before(action: str, argument: Any) -> None:
        if action == "renew" and memory.written:
            memory.waiting = [operation("rec2")]
            memory.audios["rec2"] = "x"
            raise LeaseLost("rec1")

    memory.before = before
    start(memory)
    wait(lambda: "rec2" in memory.ended)
    assert "rec1" not in memory.ended


def test_the_lease_is_renewed_while_native_code_is_busy(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "EVERY", 0.1)
    memory = Memory({"rec1": "SLOW"}, [operation()])
    start(memory)
    wait(lambda: memory.ended)
    assert [action for action, _ in memory.calls].count("renew") >= 5
    time.sleep(0.3)
    renewed = len(memory.calls)
    time.sleep(0.3)
    assert len(memory.calls) == renewed  # and no longer than the work


def test_a_stop_gives_back_what_is_held(start: Start) -> None:
    memory = Memory({"rec1": "\n".join(["SLOW"] * 50)}, [operation()])
    running = start(memory)
    wait(lambda: memory.written)
    assert running.end() < 4
    assert memory.ended == {"rec1": ("released", "")}


def test_a_stop_while_pocketbase_is_away(start: Start) -> None:
    memory = Memory({"rec1": "one"}, [operation()])

    def before(action: str, argument: Any) -> None:
        if action != "restart":
            raise PocketBaseUnavailable(action)

    memory.before = before
    running = start(memory)
    time.sleep(0.5)
    assert running.end() < 3
    assert running.error is None


def test_a_fault_of_the_machine_gives_the_operation_back(start: Start, lines: list[str]) -> None:
    memory = Memory({"rec1": "one"}, [operation(), operation()])
    full = [OSError(28, "No space left on device", "/private/path")]

    def before(action: str, argument: Any) -> None:
        if action == "audio" and full:
            raise full.pop()

    memory.before = before
    start(memory)
    wait(lambda: memory.ended.get("rec1") == ("done", ""))
    assert ("finish", ("rec1", "released")) in memory.calls
    assert not [line for line in lines if "private" in line]


def test_leftovers_are_removed_at_the_start(start: Start, settings: Settings) -> None:
    folder = settings.folders.run / "engine"
    folder.mkdir(parents=True)
    (folder / "old.pcm").write_text("old")
    memory = Memory({"rec1": "one"}, [operation()])
    start(memory)
    wait(lambda: memory.ended)
    assert _pcm(settings) == []


def test_a_model_that_does_not_load_ends_the_process(start: Start) -> None:
    memory = Memory({}, [operation()])
    running = start(memory, engine_children.unloadable)
    running.thread.join(10)
    assert isinstance(running.error, ModelError)
    assert len(memory.waiting) == 1  # it was not even claimed


def test_a_model_that_is_spoilt_later_is_waited_for(start: Start, settings: Settings) -> None:
    """The service takes recordings all the while, and nobody has to start it again."""
    weights = Path(settings.engine_model) / "model.bin"
    content = weights.read_bytes()
    memory = Memory({"rec1": "one\nDIE ONCE\nthree"}, [operation()])

    def before(action: str, argument: Any) -> None:
        if (action, argument) == ("write", 0):
            weights.unlink()
        if (action, argument) == ("finish", ("rec1", "released")):
            weights.write_bytes(content)
            units = tuple((n * 10.0, n * 10.0 + 10) for n in range(3))
            memory.waiting.append(operation(units=units, done=frozenset({0}), detected="en"))

    memory.before = before
    running = start(memory)
    wait(lambda: memory.ended.get("rec1") == ("done", ""))
    assert memory.said() == ["one", "DIE ONCE", "three"]
    assert running.error is None


def test_batches_grow_with_speed_and_stay_within_a_turn() -> None:
    pace = work.Pace()
    units = [28.0] * 10
    assert pace.batch(units) == 1
    pace.took(0.5, 28.0, 1)
    assert pace.batch(units) == work.BATCH
    pace.took(2.3 * 2, 56.0, 2)
    assert pace.batch(units) == 2
    pace.took(0.2, 20.0, 2)  # an easy one proves little
    assert pace.batch(units) < work.BATCH
    pace.took(2 * work.TURN, 56.0, 2)
    assert pace.batch(units) == 1


def test_that_one_alone_is_slow_does_not_keep_units_from_company() -> None:
    """Alone a unit of 27 s took 2.3 s on two cores, and two of them 3.3 s."""
    pace = work.Pace()
    pace.took(2.3, 27.0, 1)
    assert pace.batch([27.0] * 10) == 3
    pace.took(3.3, 54.0, 2)
    assert pace.batch([27.0] * 10) == 3
    assert pace.batch([27.0, 27.0, 18.0, 10.0]) == 2, "no last one is left alone"
    assert pace.batch([27.0]) == 1


def test_slow_company_is_tried_again_once_a_unit_alone_was_fast() -> None:
    pace = work.Pace()
    pace.took(2 * work.TURN, 56.0, 2)  # the machine was busy
    assert pace.batch([28.0] * 10) == 1
    pace.took(1.0, 28.0, 1)
    assert pace.batch([28.0] * 10) == work.BATCH


def test_the_folder_is_checked_before_anything_is_claimed(settings: Settings, start: Start) -> None:
    (Path(settings.engine_model) / "model.bin").unlink()
    memory = Memory({}, [operation()])
    running = start(memory)
    running.thread.join(10)
    assert isinstance(running.error, ModelError)
    assert model.label(settings) == "faster-whisper/tiny"
    assert memory.waiting
