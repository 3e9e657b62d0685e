"""The check of histories takes what a queue may do, and refuses what it must not."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from tests.model.history import Call, Row, faults, unanswered

START = Row("uploaded")


def claim(worker: str, token: str, at: float, attempts: int = 1, *, until: float = 0) -> Call:
    ended = until or at + 0.1
    return Call("claim", worker, at, ended, token, "uploaded", attempts)


def write(token: str, outcome: str, at: float, accepted: bool = True, until: float = 0) -> Call:
    ended = until or at + 0.1
    return Call("write", "x", at, ended, token, outcome=outcome, accepted=accepted)


def check(calls: list[Call], end: Row, lease: float = 10.0) -> list[str]:
    return faults({"j": START}, {"j": calls}, {"j": end}, lease)


LATE = [
    claim("a", "t1", 0),
    claim("b", "t2", 20, attempts=2),
    write("t1", "advanced:normalized", 21, accepted=False),
    write("t2", "failed", 22),
]
"""The first one's lease ended; the second has the job, and the first learns it."""
FAILED = Row("failed", 2, "", "t2")


@pytest.mark.parametrize(
    ("calls", "end"),
    [
        ([], START),
        (LATE, FAILED),
        ([claim("a", "t1", 0)], Row("uploaded", 1, "t1")),
        # Sent twice, and the first answer came last.
        ([claim("a", "t1", 0), write("t1", "failed", 1, until=9), write("t1", "failed", 2)],
         Row("failed", 1, "", "t1")),
        # Never answered: it may have counted, or come too late, or never.
        ([LATE[0], unanswered(write("t1", "retry", 1)), claim("b", "t2", 3, attempts=2),
          write("t2", "failed", 4)], FAILED),
        ([LATE[0], unanswered(write("t1", "advanced:normalized", 1))], Row("uploaded", 1, "t1")),
        ([LATE[0], unanswered(write("t1", "advanced:normalized", 1))],
         Row("normalized", 0, "", "t1")),
        # A claim that nobody saw the answer of counts as an attempt, and may have been given back.
        ([Call("claim", "a", 0, inf, state="uploaded"), Call("give_back", "a", 1, 1.1),
          claim("b", "t2", 2, attempts=2), write("t2", "failed", 3)], FAILED),
        # At the same time: either may have been first.
        ([claim("a", "t1", 0, until=5), write("t1", "released", 5.1, until=9),
          claim("b", "t2", 4, attempts=1, until=9.5)], Row("uploaded", 1, "t2", "t1")),
    ],
)  # fmt: skip
def test_what_a_queue_may_do_is_taken(calls: list[Call], end: Row):
    assert check(calls, end) == []


@pytest.mark.parametrize(
    ("calls", "end"),
    [
        # Whoever lost the job wrote all the same.
        ([*LATE[:2], replace(LATE[2], accepted=True), LATE[3]], FAILED),
        ([*LATE[:2], replace(LATE[2], accepted=True)], Row("normalized", 0, "", "t1")),
        # The two wrote in turns.
        ([*LATE[:2], write("t1", "retry", 21), write("t2", "retry", 22),
          write("t1", "failed", 23)], Row("failed", 2, "", "t1")),
        # Given to two while the first one's lease ran.
        ([claim("a", "t1", 0), claim("b", "t2", 5, attempts=2), write("t2", "failed", 6)], FAILED),
        # The attempts of a claim, or of the row, are not counted.
        ([LATE[0], replace(LATE[1], attempts=1), *LATE[2:]], FAILED),
        (LATE, FAILED._replace(attempts=1)),
        # Taken, and not there; there, and refused; there, and never sent.
        (LATE, Row("uploaded", 2, "t2")),
        ([*LATE[:3], replace(LATE[3], accepted=False)], FAILED),
        (LATE[:3], FAILED),
        # A write of nobody's claim; one before its claim.
        ([*LATE, write("t3", "failed", 30)], FAILED),
        ([write("t1", "failed", 0), claim("a", "t1", 1)], Row("failed", 1, "", "t1")),
        # Given out after its end, or in a state that it was not in.
        ([*LATE, claim("c", "t3", 40, attempts=3)], Row("failed", 3, "t3", "t2")),
        ([claim("a", "t1", 0), write("t1", "advanced:normalized", 1), claim("b", "t2", 2)],
         Row("normalized", 1, "t2", "t1")),
        # What was given back was another's.
        ([claim("a", "t1", 0), Call("give_back", "b", 1, 1.1), claim("b", "t2", 2, attempts=2),
          write("t2", "failed", 3)], FAILED),
        # A result was taken and then called lost, though nobody came in between.
        ([claim("a", "t1", 0), write("t1", "failed", 1), write("t1", "failed", 2, accepted=False)],
         Row("failed", 1, "", "t1")),
    ],
)  # fmt: skip
def test_a_doctored_history_is_refused(calls: list[Call], end: Row):
    assert len(check(calls, end)) == 1


def test_jobs_that_vanish_appear_or_share_a_token_are_refused():
    assert faults({"j": START}, {}, {}, 1) == ["j: lost"]
    assert faults({}, {}, {"j": START}, 1) == ["j: nobody handed it in"]
    held = Row("uploaded", 1, "t1")
    both = {"j": [claim("a", "t1", 0)], "k": [claim("b", "t1", 0)]}
    [fault] = faults({"j": START, "k": START}, both, {"j": held, "k": held}, 1)
    assert "token" in fault
