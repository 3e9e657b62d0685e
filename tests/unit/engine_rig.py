"""Engines to test: the real loop with real children, no model, and a PocketBase of a few lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import prometheus_client

from tests.unit import engine_children
from worker.engine.operations import AudioMissing, Operation, Unit
from worker.engine.worker import Engines
from worker.metrics import Metrics
from worker.settings import Settings


def operation(name: str = "rec1", **fields: Any) -> Operation:
    """One that waits, at its first attempt unless said otherwise."""
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


def tiny(folder: Path) -> Settings:
    """Settings of an engine whose model is there, and empty."""
    model = folder / "tiny"
    model.mkdir()
    (model / "model.bin").touch()
    return Settings(
        _env_file=None,
        telegram_enabled=False,
        data_dir=folder,
        engine_model=str(model),
        poll_seconds=0.05,
    )


Start = Callable[..., Running]


@contextmanager
def starting(settings: Settings) -> Iterator[Start]:
    """What starts engines; they are stopped at the end."""
    started: list[Running] = []

    def begin(memory: Memory, target: Callable[..., None] = engine_children.reciting) -> Running:
        started.append(Running(settings, memory, target))
        return started[-1]

    yield begin
    for running in started:
        running.end()


def wait(condition: Callable[[], Any], seconds: float = 15) -> None:
    """Until it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not come about"
        time.sleep(0.01)
