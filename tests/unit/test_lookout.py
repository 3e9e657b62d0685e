"""One poll for all steps: whom it wakes, how often it asks, and what it does without an answer."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from loguru import logger

from worker.errors import (
    ConfigurationError,
    PocketBaseError,
    PocketBaseRefused,
    PocketBaseUnavailable,
    Problem,
)
from worker.jobs import Milestone, Wanted
from worker.pipeline.lookout import Lookout
from worker.pocketbase.realtime import Wakeups
from worker.pocketbase.sight import Sight

CLAIMS = [Wanted(Milestone.UPLOADED, 5.0), Wanted(Milestone.SUBMITTED, 7.0, 8)]


class Clock(threading.Event):
    """A stop that notes the waits before it and takes none, set after some."""

    def __init__(self, waits: int) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._left = waits

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        if len(self.waits) == self._left:
            self.set()
        return self.is_set()


class Asked:
    """A queue that answers as told, and the last answer for ever."""

    def __init__(self, *answers: set[str] | Exception) -> None:
        self._answers = list(answers)
        self.claims: list[Sequence[Wanted]] = []

    def due(self, claims: Sequence[Wanted]) -> set[str]:
        self.claims.append(claims)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def look(queue: Asked, stop: Clock, wakeups: Wakeups | None = None) -> None:
    Lookout(queue, wakeups or Wakeups(None), CLAIMS, 10.0, Sight(), stop).run()  # type: ignore[arg-type]


def test_those_are_woken_whose_claim_would_find_something():
    wakeups = Wakeups(None)  # type: ignore[arg-type]
    woken = {state: wakeups.listen(state)._event for state in Milestone}
    queue = Asked({"submitted"})
    look(queue, Clock(1), wakeups)
    assert {state for state, event in woken.items() if event.is_set()} == {"submitted"}
    assert queue.claims == [CLAIMS]


def test_it_asks_once_a_poll_with_jitter():
    stop = Clock(200)
    look(queue := Asked(set()), stop)
    assert len(queue.claims) == 200
    assert all(8 <= wait <= 12 for wait in stop.waits)
    assert max(stop.waits) - min(stop.waits) > 2


@pytest.mark.parametrize(
    "error",
    [PocketBaseUnavailable("due"), PocketBaseRefused("due", 404, "not_found")],
    ids=["away", "older than the route"],
)
def test_without_an_answer_it_asks_ever_less_and_then_as_before(error: PocketBaseError):
    stop = Clock(9)
    look(Asked(*[error] * 7, set()), stop)
    least = [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert all(a <= b <= 1.5 * a for a, b in zip(least, stop.waits, strict=False)), stop.waits
    assert all(8 <= wait <= 12 for wait in stop.waits[7:])


def test_an_absence_is_said_once_and_a_refusal_is_none():
    lines: list[str] = []
    sink = logger.add(lambda message: lines.append(message.record["message"]), level=0)
    try:
        look(Asked(*[PocketBaseRefused("due", 404)] * 3, set()), Clock(4))
        assert lines == []
        look(Asked(*[PocketBaseUnavailable("due")] * 3, set()), Clock(5))
        assert lines == ["pocketbase is away, waiting for it", "pocketbase is back"]
    finally:
        logger.remove(sink)


def test_what_the_owner_has_to_mend_ends_it():
    with pytest.raises(ConfigurationError):
        look(Asked(ConfigurationError(Problem("WORKER_PASSWORD", "not accepted"))), Clock(3))
