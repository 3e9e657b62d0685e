"""The engine's loop, with real children, no model, and a PocketBase of a few lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from loguru import logger

from tests.unit import engine_children
from worker.engine import lease, model, work
from worker.engine.operations import AudioMissing, Operation, Unit
from worker.engine.worker import Engines
from worker.errors import (
    LeaseLost,
    ModelError,
    PocketBaseUnavailable,
)
from worker.metrics import Metrics
from worker.settings import Settings


def _operation(name: str = "rec1", **fields: Any) -> Operation:
    blank = Operation(name, name, "token", 1, 0, "", "", None, frozenset(), "")
    return replace(blank, **fields)


@dataclass
class Memory:
    """Operations in memory. `before` is called with (action, argument) and may raise."""

    audios: dict[str, str]
    waiting: list[Operation]
    before: Callable[[str, Any], None] = lambda action, argument: None
    yields: set[tuple[str, int]] = field(default_factory=set)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    written: dict[tuple[str, int], str] = field(default_factory=dict)
    ended: dict[str, tuple[str, str]] = field(default_factory=dict)
    patient: set[str] = field(default_factory=set)
    """Operations that give way to whatever waits."""

    def _note(self, action: str, argument: Any) -> None:
        self.before(action, argument)
        self.calls.append((action, argument))

    def restart(self) -> int:
        self._note("restart", None)
        return 0

    def claim(self) -> Operation | None:
        self.before("claim", None)
        return self.waiting.pop(0) if self.waiting else None

    def renew(self, operation: Operation) -> bool:
        self._note("renew", operation.id)
        return bool(self.waiting) and operation.id in self.patient

    def audio(self, operation: Operation, destination: Path) -> None:
        self._note("audio", operation.id)
        if operation.recording not in self.audios:
            raise AudioMissing(operation.recording)
        destination.write_text(self.audios[operation.recording])

    def cut(self, operation: Operation, units: Sequence[Unit], language: str) -> None:
        self._note("cut", (list(units), language))

    def write(self, operation: Operation, unit: int, segments: Sequence[Any]) -> bool:
        self._note("write", unit)
        self.written[operation.id, unit] = segments[0]["text"]
        return (operation.id, unit) in self.yields

    def finish(self, operation: Operation, outcome: str, **fields: str) -> None:
        self._note("finish", (operation.id, outcome))
        self.ended[operation.id] = (outcome, fields.get("error_text", ""))

    def said(self, name: str = "rec1") -> list[str]:
        return [text for (id_, _), text in sorted(self.written.items()) if id_ == name]


class Bell:
    """Wake-ups that never come."""

    def listen(self, state: str) -> Bell:
        assert state == "operations"
        return self

    def wait(self, timeout: float) -> None:
        time.sleep(min(timeout, 0.02))

    def stop(self) -> None: ...


class Running:
    """Engines at work in a thread."""

    def __init__(self, settings: Settings, memory: Memory, target: Callable[..., None]) -> None:
        self.stop = threading.Event()
        self.registry = prometheus_client.CollectorRegistry()
        self.engines = Engines(settings, self.stop, memory, Bell(), Metrics(self.registry), target)
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.engines.run()
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def end(self) -> float:
        """Stop; how long that took."""
        started = time.monotonic()
        self.stop.set()
        self.thread.join(20)
        assert not self.thread.is_alive()
        return time.monotonic() - started


Start = Callable[..., Running]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "model.bin").touch()
    return Settings(
        _env_file=None,
        telegram_enabled=False,
        data_dir=tmp_path,
        engine_model=str(folder),
        poll_seconds=0.05,
    )


@pytest.fixture
def start(settings: Settings) -> Iterator[Start]:
    started: list[Running] = []

    def begin(memory: Memory, target: Callable[..., None] = engine_children.reciting) -> Running:
        started.append(Running(settings, memory, target))
        return started[-1]

    yield begin
    for running in started:
        running.end()


@pytest.fixture
def lines() -> Iterator[list[str]]:
    heard: list[str] = []
    handle = logger.add(lambda message: heard.append(message.record["message"]), level="INFO")
    yield heard
    logger.remove(handle)


def _wait(condition: Callable[[], Any], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not come about"
        time.sleep(0.01)


def _pcm(settings: Settings) -> list[Path]:
    return list((settings.folders.run / "engine").iterdir())


def test_a_recording_is_cut_once_and_written_unit_by_unit(start: Start, settings: Settings) -> None:
    memory = Memory({"rec1": "one\ntwo\nthree"}, [_operation()])
    running = start(memory)
    _wait(lambda: memory.ended)
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
    memory = Memory({"rec1": ""}, [_operation()])
    start(memory)
    _wait(lambda: memory.ended)
    assert memory.ended == {"rec1": ("done", "")}
    assert memory.written == {}


def test_work_goes_on_where_it_ended(start: Start) -> None:
    units = ((0.0, 10.0), (10.0, 20.0), (20.0, 30.0))
    memory = Memory({"rec1": "a\nb\nc"}, [_operation(units=units, done=frozenset({0, 2}))])
    start(memory)
    _wait(lambda: memory.ended)
    assert memory.written == {("rec1", 1): "b"}
    assert "cut" not in {action for action, _ in memory.calls}


def test_an_engine_that_dies_once_costs_nothing_but_time(start: Start) -> None:
    memory = Memory({"rec1": "one\nDIE ONCE\nthree"}, [_operation()])
    start(memory)
    _wait(lambda: memory.ended)
    assert memory.ended == {"rec1": ("done", "")}
    assert memory.said() == ["one", "DIE ONCE", "three"]


def test_a_unit_that_always_kills_is_given_up_and_others_live(start: Start) -> None:
    memory = Memory({"rec1": "one\ntwo\nDIE", "rec2": "fine"}, [_operation(), _operation("rec2")])
    start(memory)
    _wait(lambda: len(memory.ended) == 2)
    outcome, reason = memory.ended["rec1"]
    assert outcome == "failed"
    assert "died 3 times on unit 2" in reason
    assert "SIGKILL" in reason
    assert memory.said() == ["one", "two"]  # units that shared its batch are not lost
    assert memory.ended["rec2"] == ("done", "")


UNITS = ((0.0, 10.0), (10.0, 20.0))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"attempts": 4, "crashes": 3}, "the engine died 3 times on unit 1"),
        ({"attempts": 11}, "10 engines stopped without a result on unit 1"),
    ],
)
def test_deaths_of_whole_processes_are_counted(
    start: Start, fields: dict[str, int], reason: str
) -> None:
    operation = _operation(units=UNITS, done=frozenset({0}), **fields)
    memory = Memory({"rec1": "a\nb"}, [operation])
    start(memory)
    _wait(lambda: memory.ended)
    assert memory.ended["rec1"] == ("failed", reason)
    assert memory.written == {}


def test_leases_that_ran_out_are_no_deaths(start: Start) -> None:
    """Its holders may have been asleep, or cut off."""
    memory = Memory({"rec1": "a\nb"}, [_operation(attempts=9, crashes=2)])
    start(memory)
    _wait(lambda: memory.ended)
    assert memory.ended["rec1"] == ("done", "")


def test_what_is_no_audio_fails(start: Start) -> None:
    memory = Memory({"rec1": "not audio"}, [_operation()])
    start(memory)
    _wait(lambda: memory.ended)
    assert memory.ended["rec1"][0] == "failed"


def test_another_ones_turn(start: Start) -> None:
    long, short = _operation("long"), _operation("short")
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
    _wait(lambda: memory.ended.get("long") == ("done", ""))
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
    memory = Memory({"long": "LONG\nb", "short": "x"}, [_operation("long")], patient={"long"})
    start(memory)
    _wait((settings.folders.run / during).exists)
    memory.waiting += [_operation("short"), _operation("long")]
    asked = time.monotonic()
    _wait(lambda: "short" in memory.ended)
    assert time.monotonic() - asked < 1.5
    assert memory.ended == {"long": ("released", ""), "short": ("done", "")}
    _wait(lambda: memory.ended["long"] == ("done", ""))
    assert memory.said("long") == ["LONG", "b"]
    fetched = [argument for action, argument in memory.calls if action == "audio"]
    assert fetched == ["long", "short"]
    for step in ("decoded", "cut"):
        assert (settings.folders.run / step).read_text() == "begun\n"


def test_audio_that_is_gone_has_to_be_made_again(start: Start, lines: list[str]) -> None:
    memory = Memory({}, [_operation()])
    start(memory)
    _wait(lambda: memory.ended)
    assert memory.ended == {"rec1": ("lost", "")}
    assert "audio to recognise is missing" in lines


def test_pocketbase_away_costs_no_unit_and_two_lines(
    start: Start, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "EVERY", 60)  # it is away for some calls only: none in between
    memory = Memory({"rec1": "one\ntwo"}, [_operation()])
    failures = {"cut": 2, "write": 3, "finish": 2}

    def before(action: str, argument: Any) -> None:
        if failures.get(action, 0):
            failures[action] -= 1
            raise PocketBaseUnavailable(action)

    memory.before = before
    start(memory)
    _wait(lambda: memory.ended)
    assert memory.said() == ["one", "two"]
    _wait(lambda: sum("back" in line for line in lines) == 3)  # it came three times
    assert sum("away" in line for line in lines) == 3
    assert [action for action, _ in memory.calls if action == "audio"] == ["audio"]


@pytest.mark.parametrize("at", ["cut", "write", "finish"])
def test_a_lost_lease_ends_the_work_quietly(start: Start, lines: list[str], at: str) -> None:
    memory = Memory({"rec1": "one\ntwo", "rec2": "x"}, [_operation(), _operation("rec2")])
    lost: list[str] = []

    def before(action: str, argument: Any) -> None:
        if action == at and not lost:
            lost.append(at)
            raise LeaseLost("rec1")

    memory.before = before
    start(memory)
    _wait(lambda: "rec2" in memory.ended)
    assert "rec1" not in memory.ended
    assert not [line for line in lines if "died" in line or "not recognised" in line]


def test_a_lease_lost_while_recognising_is_noticed(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "EVERY", 0.1)
    memory = Memory({"rec1": "\n".join(["SLOW"] * 50)}, [_operation()])

    def before(action: str, argument: Any) -> None:
        if action == "renew" and memory.written:
            memory.waiting = [_operation("rec2")]
            memory.audios["rec2"] = "x"
            raise LeaseLost("rec1")

    memory.before = before
    start(memory)
    _wait(lambda: "rec2" in memory.ended)
    assert "rec1" not in memory.ended


def test_the_lease_is_renewed_while_native_code_is_busy(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "EVERY", 0.1)
    memory = Memory({"rec1": "SLOW"}, [_operation()])
    start(memory)
    _wait(lambda: memory.ended)
    assert [action for action, _ in memory.calls].count("renew") >= 5
    time.sleep(0.3)
    renewed = len(memory.calls)
    time.sleep(0.3)
    assert len(memory.calls) == renewed  # and no longer than the work


def test_a_stop_gives_back_what_is_held(start: Start) -> None:
    memory = Memory({"rec1": "\n".join(["SLOW"] * 50)}, [_operation()])
    running = start(memory)
    _wait(lambda: memory.written)
    assert running.end() < 4
    assert memory.ended == {"rec1": ("released", "")}


def test_a_stop_while_pocketbase_is_away(start: Start) -> None:
    memory = Memory({"rec1": "one"}, [_operation()])

    def before(action: str, argument: Any) -> None:
        if action != "restart":
            raise PocketBaseUnavailable(action)

    memory.before = before
    running = start(memory)
    time.sleep(0.5)
    assert running.end() < 3
    assert running.error is None


def test_a_fault_of_the_machine_gives_the_operation_back(start: Start, lines: list[str]) -> None:
    memory = Memory({"rec1": "one"}, [_operation(), _operation()])
    full = [OSError(28, "No space left on device", "/private/path")]

    def before(action: str, argument: Any) -> None:
        if action == "audio" and full:
            raise full.pop()

    memory.before = before
    start(memory)
    _wait(lambda: memory.ended.get("rec1") == ("done", ""))
    assert ("finish", ("rec1", "released")) in memory.calls
    assert not [line for line in lines if "private" in line]


def test_leftovers_are_removed_at_the_start(start: Start, settings: Settings) -> None:
    folder = settings.folders.run / "engine"
    folder.mkdir(parents=True)
    (folder / "old.pcm").write_text("old")
    memory = Memory({"rec1": "one"}, [_operation()])
    start(memory)
    _wait(lambda: memory.ended)
    assert _pcm(settings) == []


def test_a_model_that_does_not_load_ends_the_process(start: Start) -> None:
    memory = Memory({}, [_operation()])
    running = start(memory, engine_children.unloadable)
    running.thread.join(10)
    assert isinstance(running.error, ModelError)
    assert len(memory.waiting) == 1  # it was not even claimed


def test_a_model_that_is_spoilt_later_is_waited_for(start: Start, settings: Settings) -> None:
    """The service takes recordings all the while, and nobody has to start it again."""
    weights = Path(settings.engine_model) / "model.bin"
    content = weights.read_bytes()
    memory = Memory({"rec1": "one\nDIE ONCE\nthree"}, [_operation()])

    def before(action: str, argument: Any) -> None:
        if (action, argument) == ("write", 0):
            weights.unlink()
        if (action, argument) == ("finish", ("rec1", "released")):
            weights.write_bytes(content)
            units = tuple((n * 10.0, n * 10.0 + 10) for n in range(3))
            memory.waiting.append(_operation(units=units, done=frozenset({0}), detected="en"))

    memory.before = before
    running = start(memory)
    _wait(lambda: memory.ended.get("rec1") == ("done", ""))
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
    memory = Memory({}, [_operation()])
    running = start(memory)
    running.thread.join(10)
    assert isinstance(running.error, ModelError)
    assert model.label(settings) == "faster-whisper/tiny"
    assert memory.waiting
