"""Which time counts towards giving an operation up: a live engine's silence, and no other."""

from __future__ import annotations

import pytest

from tests.acceptance.bench import Bench
from tests.acceptance.test_queue_healing import run
from worker.engine.operations import HttpOperations, Operation
from worker.jobs import Step
from worker.recognisers.local import LocalRecogniser


class Desk:
    """A recording of two slices at the local recogniser, and an engine whose time a test moves."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.engine = HttpOperations(bench.client, "engine@test")
        self.recogniser = LocalRecogniser(bench.client)
        self.job = bench.job("normalized")
        bench.service.execute("UPDATE recordings SET duration = 40 WHERE id = ?", self.job)
        operation = bench.service.operation(self.job, bench.client)
        bench.set(self.job, state="submitted", milestone="submitted", operation=operation)

    def claim(self) -> Operation:
        operation = self.engine.claim()
        assert operation is not None
        return operation

    def pass_hours(self, hours: int, *columns: str) -> None:
        """So many hours go by for these columns."""
        for column in columns:
            self.bench.service.execute(
                f"UPDATE operations SET {column} = strftime('%Y-%m-%d %H:%M:%fZ', {column},"
                f" '-{hours} hours') WHERE {column} <> ''"
            )

    def check(self) -> str:
        """What becomes of the job when its operation is asked for now."""
        return run(self.bench, self.job, Step.CHECK, self.recogniser)


@pytest.fixture
def desk(bench: Bench) -> Desk:
    return Desk(bench)


def test_the_time_in_which_others_had_their_turn_does_not_count(desk: Desk):
    held = desk.claim()
    desk.engine.cut(held, [(0.0, 20.0), (20.0, 40.0)], "ru")
    desk.engine.write(held, 0, [])
    desk.engine.finish(held, "released")
    desk.pass_hours(30, "held_since", "progressed_at", "updated")
    assert desk.check() == "submitted"
    desk.claim()  # before it could say anything
    assert desk.check() == "submitted"


def test_engines_that_are_away_are_no_silence(desk: Desk):
    desk.claim()
    desk.pass_hours(30, "held_since", "progressed_at", "leased_at")
    assert desk.check() == "submitted"


def test_an_engine_that_holds_it_and_says_nothing_is_given_up(desk: Desk):
    held = desk.claim()
    desk.pass_hours(23, "held_since", "progressed_at")
    assert desk.check() == "submitted"
    desk.pass_hours(2, "held_since", "progressed_at")
    desk.engine.renew(held)
    assert desk.check() == "failed"
    assert "no end after" in desk.bench.row(desk.job)["error_text"]


def test_silence_adds_up_over_claims_until_something_comes_of_it(desk: Desk):
    for left in ("submitted", "failed"):
        held = desk.claim()
        desk.pass_hours(13, "held_since", "progressed_at")
        desk.engine.finish(held, "released")
        assert desk.check() == left


def test_a_slice_ends_the_silence(desk: Desk):
    held = desk.claim()
    desk.engine.cut(held, [(0.0, 20.0), (20.0, 40.0)], "ru")
    desk.pass_hours(23, "held_since", "progressed_at")
    desk.engine.write(held, 0, [])
    desk.engine.finish(held, "released")
    held = desk.claim()
    desk.pass_hours(13, "held_since", "progressed_at")
    desk.engine.renew(held)
    assert desk.check() == "submitted"
