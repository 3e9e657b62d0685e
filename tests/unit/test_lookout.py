"""One poll for all steps: whom it wakes, how often it asks, and what it does without an answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

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


def look(
    queue: Asked, stop: Clock, wakeups: Wakeups | None = None, sight: Sight | None = None
) -> None:
    wakeups = wakeups or Wakeups(None)
    Lookout(queue, wakeups, CLAIMS, 10.0, sight or Sight(), stop).run()


def test_those_are_woken_whose_claim_would_find_something():
    wakeups = Wakeups(None)
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


@pytest.fixture
def lines() -> Iterator[list[str]]:
    found: list[str] = []
    sink = logger.add(lambda message: found.append(message.record["message"]), level="INFO")
    yield found
    logger.remove(sink)


def test_an_absence_is_said_once_and_its_end(lines: list[str]):
    look(Asked(*[PocketBaseUnavailable("due")] * 3, set()), Clock(5))
    assert lines == ["pocketbase is away, waiting for it", "pocketbase is back"]


def test_a_refusal_is_said_once_and_is_no_absence(lines: list[str]):
    look(Asked(*[PocketBaseRefused("due", 404)] * 3, set()), Clock(4))
    assert lines == ["looking for work less often"]


def test_what_the_claims_say_of_pocketbase_is_not_contradicted(lines: list[str]):
    """A full disk refuses claims and answers questions; a proxy may refuse both."""
    sight = Sight()
    for answer in (set(), PocketBaseRefused("due", 403)):
        for _ in range(3):
            with pytest.raises(PocketBaseRefused), sight.call(PocketBaseError):  # as a runner does
                raise PocketBaseRefused("claim", 507)
            look(Asked(answer), Clock(2), sight=sight)
    assert lines.count("pocketbase is away, waiting for it") == 1
    assert "pocketbase is back" not in lines


def test_what_the_owner_has_to_mend_ends_it():
    with pytest.raises(ConfigurationError):
        look(Asked(ConfigurationError(Problem("WORKER_PASSWORD", "not accepted"))), Clock(3))
