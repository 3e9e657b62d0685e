"""A breadth-first search of everything that can happen, and the shortest way to what must not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple, Protocol, TypeVar


class Violation(AssertionError):
    """Something happened that must not. `rule` is its name."""

    def __init__(self, rule: str, detail: object = "") -> None:
        self.rule = rule
        self.way: list[str] = []
        super().__init__(f"{rule}: {detail}")

    def __str__(self) -> str:
        return "\n  ".join([str(self.args[0]), *self.way])


W = TypeVar("W", bound=Hashable)


class World(Protocol[W]):
    """What is searched."""

    start: W

    def moves(self, world: W) -> Iterator[tuple[str, Callable[[], W]]]:
        """Everything that may happen next. Making a move raises a Violation where it is wrong."""
        ...

    def settle(self, world: W, manner: str) -> W | None:
        """What happens next when nothing goes wrong any more; None: everything has ended."""
        ...

    manners: tuple[str, ...]
    """Ways in which nothing goes wrong: that every step succeeds, that every step fails."""


class Result(NamedTuple):
    """How much there was to search."""

    states: int
    moves: int
    depth: int


def search(world: World[W], limit: int = 1_000_000, patience: int = 80) -> Result:
    """Visit every state there is.

    Raises:
        Violation: with the shortest way to it.
    """
    came: dict[W, tuple[W | None, str]] = {world.start: (None, "")}
    queue = deque([(world.start, 0)])
    made = deepest = 0
    ends: dict[str, set[W]] = {manner: set() for manner in world.manners}
    while queue:
        state, depth = queue.popleft()
        deepest = max(deepest, depth)
        try:
            for manner in world.manners:
                _ends(world, state, manner, ends[manner], patience)
        except Violation as violation:
            violation.way = [*_way(came, state), "... and so on without an end"]
            raise
        for label, move in world.moves(state):
            made += 1
            try:
                after = move()
            except Violation as violation:
                violation.way = [*_way(came, state), label]
                raise
            if after not in came:
                came[after] = (state, label)
                queue.append((after, depth + 1))
                assert len(came) <= limit, f"more than {limit} states"
    return Result(len(came), made, deepest)


def _ends(world: World[W], state: W, manner: str, known: set[W], patience: int) -> None:
    """From here on everything ends, if nothing goes wrong any more."""
    passed: list[W] = []
    at: W | None = state
    while at is not None and at not in known:
        passed.append(at)
        if len(passed) > patience:
            raise Violation("everything ends", f"{manner}: {at}")
        at = world.settle(at, manner)
    known.update(passed)


def _way(came: dict[W, tuple[W | None, str]], state: W) -> list[str]:
    labels = []
    at: W | None = state
    while at is not None:
        at, label = came[at]
        labels.append(label)
    return labels[-2::-1]
