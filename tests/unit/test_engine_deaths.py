"""Engines that die over a recording: which unit is to blame, and that it costs no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit import engine_rig
from tests.unit.engine_rig import Memory, Start, operation, wait
from worker.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return engine_rig.tiny(tmp_path)


@pytest.fixture
def start(settings: Settings) -> Iterator[Start]:
    with engine_rig.starting(settings) as start:
        yield start


def test_an_engine_that_dies_once_costs_nothing_but_time(start: Start) -> None:
    memory = Memory({"rec1": "one\nDIE ONCE\nthree"}, [operation()])
    start(memory)
    wait(lambda: memory.ended)
    assert memory.ended == {"rec1": ("done", "")}
    assert memory.said() == ["one", "DIE ONCE", "three"]


def test_a_unit_that_always_kills_is_given_up_and_others_live(start: Start) -> None:
    memory = Memory({"rec1": "one\ntwo\nDIE", "rec2": "fine"}, [operation(), operation("rec2")])
    start(memory)
    wait(lambda: len(memory.ended) == 2)
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
    half = operation(units=UNITS, done=frozenset({0}), **fields)
    memory = Memory({"rec1": "a\nb"}, [half])
    start(memory)
    wait(lambda: memory.ended)
    assert memory.ended["rec1"] == ("failed", reason)
    assert memory.written == {}


def test_leases_that_ran_out_are_no_deaths(start: Start) -> None:
    """Its holders may have been asleep, or cut off."""
    memory = Memory({"rec1": "a\nb"}, [operation(attempts=9, crashes=2)])
    start(memory)
    wait(lambda: memory.ended)
    assert memory.ended["rec1"] == ("done", "")


CAREFULLY = [0, 1]
"""What is written when unit 2 kills, once each unit before it was read alone."""


@pytest.mark.parametrize(
    ("fields", "before_death"),
    [
        ({}, []),
        ({"attempts": 2}, CAREFULLY),
        ({"attempts": 3, "crashes": 2}, CAREFULLY),
    ],
    ids=["first attempt", "second attempt", "after crashes"],
)
def test_after_an_attempt_that_came_to_nothing_a_deadly_unit_costs_no_other(
    start: Start, settings: Settings, fields: dict[str, int], before_death: list[int]
) -> None:
    """What the last attempt died of may lie ahead. In company, two crashes and this death would
    make three, and unit 0 would be to blame. A first attempt shows that the engine is fast enough
    to read all of it at once."""
    units = tuple((n * 10.0, n * 10.0 + 10) for n in range(4))
    memory = Memory(
        {"easy": "a\nb", "rec1": "one\ntwo\nDIE ONCE\nfour"},
        [operation("easy"), operation(units=units, detected="en", **fields)],
    )
    died = settings.folders.run / "died"
    living: list[int] = []

    def before(action: str, argument: Any) -> None:
        if action == "write" and "easy" in memory.ended and not died.exists():
            living.append(argument)

    memory.before = before
    start(memory)
    wait(lambda: len(memory.ended) == 2)
    assert memory.ended["rec1"] == ("done", "")
    assert memory.said() == ["one", "two", "DIE ONCE", "four"]
    assert living == before_death
