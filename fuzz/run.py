"""What every target has in common: numbered cases from a seed, an end, and what was found."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any


@dataclass(frozen=True)
class Finding:
    """A case in which the product did not do what it promises."""

    target: str
    seed: int
    case: int
    what: str
    """What it did instead."""
    given: str
    """What it was given, cut where it is long."""

    def __str__(self) -> str:
        again = f"python -m fuzz {self.target} --seed {self.seed} --case {self.case}"
        return f"{again}\n    {self.what}\n    given: {self.given}"


@dataclass
class Run:
    """One target, one seed. Ends after `cases` or `seconds`, whichever comes first."""

    target: str
    seed: int
    folder: Path
    """For everything that the run writes."""
    cases: int | None = None
    seconds: float | None = None
    only: int | None = None
    """Make this case and no other."""
    findings: list[Finding] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    """How often each kind of outcome came about."""
    worst: dict[str, float] = field(default_factory=dict)
    """The largest of each thing measured."""
    made: int = 0

    def each(self) -> Iterator[tuple[int, Random]]:
        """The number of each case, and the chance that it is made by."""
        deadline = None if self.seconds is None else time.monotonic() + self.seconds
        number = self.only or 0
        while True:
            if self.only is not None and self.made:
                return
            if self.cases is not None and self.made >= self.cases:
                return
            if deadline is not None and time.monotonic() >= deadline:
                return
            yield number, Random(f"{self.target}/{self.seed}/{number}")
            self.made += 1
            number += 1

    def measured(self, what: str, value: float) -> None:
        """Keep the largest."""
        self.worst[what] = max(self.worst.get(what, value), value)

    def found(self, case: int, what: str, given: Any = "") -> None:
        """Note a finding."""
        text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=True)
        if len(text) > 1500:
            text = f"{text[:1300]} ... ({len(text)} characters)"
        self.findings.append(Finding(self.target, self.seed, case, what, text))

    def report(self) -> str:
        """What is printed at the end."""
        outcomes = ", ".join(f"{name} {count}" for name, count in self.seen.most_common())
        worst = ", ".join(f"{name} {value:.6g}" for name, value in sorted(self.worst.items()))
        lines = [f"{self.target}: seed {self.seed}, {self.made} cases: {outcomes}"]
        if worst:
            lines.append(f"  at most: {worst}")
        lines += [str(each) for each in self.findings] or ["  nothing found"]
        return "\n".join(lines)
