"""Holds a history of concurrent calls against the queue's promise: one job, one line of holders.

A history is what the callers saw: when each call began, when it was answered and with what. A call
that was never answered may have been carried out at any moment after its beginning, or never. For
each job the check looks for an order of its calls that the times allow (what was answered before
another began stands before it) and in which each answer is the one that a queue gives that does one
thing at a time: every accepted write belongs to the last claim before it, or is the same one again;
nobody is given what another holds whose lease still runs; attempts count; the row at the end is
what such a queue would be left with. Where there is no such order, something was done to the job by
somebody who did not hold it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Call:
    """One call, as far as it is about one job. `ended` is inf where it was never answered."""

    name: str
    """claim, write or give_back."""
    worker: str
    began: float
    ended: float = inf
    token: str = ""
    """Of a claim what it was given, empty where nobody knows; of a write under what it was sent."""
    state: str = ""
    """Of a claim: whose jobs it asked for."""
    attempts: int = 0
    """Of a claim: what it was told."""
    outcome: str = ""
    """Of a write: its name, with `:STATE` where the job is to go to another."""
    accepted: bool = True
    """Of a write: whether the answer was that it counts."""


class Row(NamedTuple):
    """What a queue keeps of a job."""

    state: str
    attempts: int = 0
    token: str = ""
    written: str = ""
    worker: str = ""
    since: float = 0.0
    """When the claim began that holds it, at the earliest."""


UNKNOWN = "unknown"
"""The token of a claim whose answer nobody saw."""


def faults(
    start: Mapping[str, Row],
    calls: Mapping[str, Iterable[Call]],
    end: Mapping[str, Row],
    lease: float,
) -> list[str]:
    """What is wrong with a history, a line for each job that has no order.

    `lease`: seconds, the length of every claim's.
    """
    found = [f"{job}: lost" for job in start.keys() - end.keys()]
    found += [f"{job}: nobody handed it in" for job in end.keys() - start.keys()]
    tokens: dict[str, str] = {}
    for job, made in calls.items():
        for call in made:
            if call.name == "claim" and call.token:
                if call.token in tokens:
                    found.append(f"{job}: has the token of a claim of {tokens[call.token]}")
                tokens[call.token] = job
    for job in start.keys() & end.keys():
        line = Line(list(calls.get(job, ())), end[job], lease)
        if not line.found(start[job]):
            found.append(f"{job}: no order of its calls explains them; {line.stuck}")
    return found


class Line:
    """The search for an order of one job's calls."""

    def __init__(self, calls: list[Call], end: Row, lease: float) -> None:
        self._calls = sorted(calls, key=lambda call: call.began)
        self._end = end
        self._lease = lease
        self._tried: set[tuple[int, Row]] = set()
        self._best = -1
        self.stuck = ""

    def found(self, start: Row) -> bool:
        """Whether there is one."""
        stack = [(0, start)]
        while stack:
            done, row = stack.pop()
            if (done, row) in self._tried:
                continue
            self._tried.add((done, row))
            left = [n for n in range(len(self._calls)) if not done >> n & 1]
            answered = [n for n in left if self._calls[n].ended < inf]
            if not answered and _same(row, self._end):
                return True
            self._note(len(self._calls) - len(answered), row, answered)
            horizon = min((self._calls[n].ended for n in answered), default=inf)
            for n in left:
                if self._calls[n].began <= horizon:
                    stack += [(done | 1 << n, after) for after in self._after(row, self._calls[n])]
        return False

    def _note(self, done: int, row: Row, answered: list[int]) -> None:
        if done > self._best:
            self._best = done
            rest = [str(self._calls[n]) for n in answered[:3]]
            self.stuck = f"at {row}, to end as {self._end}, before {rest or 'the end'}"

    def _after(self, row: Row, call: Call) -> list[Row]:
        """What the row may be after the call, if its answer was this one; none if it cannot be."""
        match call.name:
            case "claim":
                return self._claimed(row, call)
            case "give_back":
                held = row.token and row.worker == call.worker
                return [_free(row) if held else row]
        if row.token and row.token == call.token:
            if not call.accepted:
                return []
            return [_written(row, call.outcome)]
        if row.written == call.token:
            return [row] if call.accepted else []
        # Not carried out, which changes nothing; what was never answered may be that, too.
        return [row] if not call.accepted or call.ended == inf else []

    def _claimed(self, row: Row, call: Call) -> list[Row]:
        held = bool(row.token) and call.ended - row.since < self._lease
        if row.state != call.state or held:
            return []
        if call.token and call.attempts != row.attempts + 1:
            return []
        return [
            row._replace(
                attempts=row.attempts + 1,
                token=call.token or UNKNOWN,
                worker=call.worker,
                since=call.began,
            )
        ]


def _free(row: Row) -> Row:
    return row._replace(token="", worker="", since=0.0)


def _written(row: Row, outcome: str) -> Row:
    name, _, to = outcome.partition(":")
    attempts = {"released": max(row.attempts - 1, 0), "advanced": 0, "sent_back": 0, "waiting": 0}
    return _free(
        row._replace(
            state=to or (name if name in {"failed", "dead"} else row.state),
            attempts=attempts.get(name, row.attempts),
            written=row.token,
        )
    )


def _same(row: Row, end: Row) -> bool:
    unsure = row.token == UNKNOWN and end.token
    token = end.token if unsure else row.token
    return (row.state, row.attempts, token, row.written) == end[:4]


def unanswered(call: Call) -> Call:
    """The same call, had its answer been lost."""
    return replace(call, ended=inf)
