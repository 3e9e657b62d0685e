"""One line of the table in docs/reliability.md for one run."""

from __future__ import annotations

from collections import Counter

from chaos.check.journal import ENDING
from chaos.check.ledger import Ledger
from chaos.check.run import Run

HEADER = (
    "| seed | minutes | recordings: http, telegram | faults by kind | kills and stops "
    "| done, failed, dead, deleted | refused, answers lost | owner's edits | cases looked at "
    "| violations |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


def figures(run: Run, ledger: Ledger) -> str:
    """The run in one line of Markdown."""
    sources = Counter(row["source"] for row in run.recordings.values())
    states = Counter(job["state"] for job in run.jobs.values())
    kinds = Counter(str(each.get("kind")) for each in run.faults)
    ends = Counter(str(each.get("target")) for each in run.faults if each.get("kind") in ENDING)
    refused = sum(
        isinstance(each.get("status"), int) and each["status"] != 201
        for number, each in run.replies.items()
        if number in run.sends
    )
    cells = (
        run.settings.get("seed", "?"),
        run.settings.get("minutes", "?"),
        f"{sources['http']}, {sources['telegram']}",
        _counts(kinds),
        _counts(ends),
        f"{states['done']}, {states['failed']}, {states['dead']}, {len(run.deleted)}",
        f"{refused}, {len(run.unanswered)}",
        sum(each.sure for each in run.edits),
        sum(each.looked for each in ledger.clauses),
        ledger.violations,
    )
    return f"| {' | '.join(map(str, cells))} |"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "none"
