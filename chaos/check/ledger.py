"""What was looked at, and what was found: the checker's own bookkeeping, and its two tables."""

from __future__ import annotations

from dataclasses import dataclass, field

INVARIANTS = {
    "I0": "the run itself",
    "I1": "nothing lost silently",
    "I2": "good ones do not fail, broken ones do",
    "I3": "the right text",
    "I4": "nobody answered twice",
    "I5": "no owner's edit undone",
    "I6": "files and records belong together",
    "I7": "metrics agree with the database",
    "I8": "nothing private where others read",
    "I9": "the queue is at rest and consistent",
    "I10": "intake: accepted is stored, refused is not",
}


@dataclass
class Clause:
    """One thing that an invariant says, how often it was looked at, and where it did not hold."""

    invariant: str
    name: str
    needed: bool
    """Whether a run in which there was nothing to look at proves nothing and so fails."""
    looked: int = 0
    violations: list[str] = field(default_factory=list)

    def expect(self, holds: object, what: str) -> bool:
        """Look at one case. `what`: everything needed to look closer, for when it does not hold."""
        self.looked += 1
        if not holds:
            self.violations.append(what)
        return bool(holds)

    def seen(self, cases: int = 1) -> None:
        """Cases that were looked at and hold."""
        self.looked += cases

    @property
    def empty(self) -> bool:
        """Whether it should have had cases, and had none."""
        return self.needed and not self.looked


@dataclass
class Ledger:
    """All clauses of one run, and what else is worth a line."""

    given: bool = False
    """Whether somebody chose what was to happen, so that nothing need have happened of a kind."""
    clauses: list[Clause] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def clause(self, invariant: str, name: str, *, needed: bool = False) -> Clause:
        """The clause of this name, made when first asked for."""
        for each in self.clauses:
            if (each.invariant, each.name) == (invariant, name):
                each.needed |= needed
                return each
        fresh = Clause(invariant, name, needed)
        self.clauses.append(fresh)
        return fresh

    def proves_nothing(self, clause: Clause) -> bool:
        """Whether a clause that looked at nothing is a violation for that."""
        return clause.empty and not self.given

    def note(self, line: str) -> None:
        """Something that is no violation and that the reader shall know."""
        self.notes.append(line)

    @property
    def violations(self) -> int:
        """Of all clauses; one that looked at nothing counts as one."""
        return sum(len(each.violations) + self.proves_nothing(each) for each in self.clauses)

    def broken(self, invariant: str) -> list[str]:
        """The violations of an invariant, each with its clause."""
        return [
            f"{each.name}: {what}"
            for each in self.clauses
            if each.invariant == invariant
            for what in [
                *each.violations,
                *(["looked at nothing"] if self.proves_nothing(each) else []),
            ]
        ]

    def table(self, most: int = 5) -> str:
        """Every clause with its counts, then the first `most` violations of each."""
        lines = [f"{'':4} {'clause':68} {'looked at':>9} {'violations':>10}"]
        for invariant, title in INVARIANTS.items():
            lines.append(f"{invariant:4} {title}")
            for each in self.clauses:
                if each.invariant == invariant:
                    found = "NOTHING" if self.proves_nothing(each) else len(each.violations)
                    lines.append(f"{'':4}   {each.name:66} {each.looked:>9} {found:>10}")
        for invariant in INVARIANTS:
            for each in self.clauses:
                empty = self.proves_nothing(each)
                if each.invariant != invariant or not (each.violations or empty):
                    continue
                lines += ["", f"{invariant} {each.name}:"]
                if empty:
                    lines.append("  - should have had cases, and had none: this proves nothing")
                lines += [f"  - {what}" for what in each.violations[:most]]
                if len(each.violations) > most:
                    lines.append(f"  - ... and {len(each.violations) - most} more")
        unmet = [f"  - {each.invariant} {each.name}" for each in self.clauses if each.empty]
        if self.given and unmet:
            lines += ["", "With this plan there was nothing to look at for:", *unmet]
        if self.notes:
            lines += ["", "Notes:", *(f"  - {note}" for note in self.notes)]
        return "\n".join(lines)
