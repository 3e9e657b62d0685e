"""One line of the table in docs/reliability.md for one run."""

from __future__ import annotations

from collections import Counter

from chaos.check.journal import ENDING
from chaos.check.ledger import Ledger
from chaos.check.run import Run

HEADER = (
    "| seed | minutes | taken: http, telegram | faults by kind | kills and stops "
    "| of them done, failed, dead, deleted | refused, answers lost | owner's edits "
    "| cases looked at | violations |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


def figures(run: Run, ledger: Ledger) -> str:
    """The run in one line of Markdown. The undisturbed recordings of its start are not in it."""
    before = {str(each["job_id"]) for each in run.events("reference")}
    gone = {n for n in run.deleted | run.perhaps_deleted if n not in run.recordings}
    sources = Counter(str(r["source"]) for n, r in run.recordings.items() if n not in before)
    by_telegram = set(run.deleted_messages.values())
    sources.update("telegram" if number in by_telegram else "http" for number in gone)
    states = Counter(str(job["state"]) for number, job in run.jobs.items() if number not in before)
    kinds = Counter(str(each.get("kind")) for each in run.faults)
    ends = Counter(str(each.get("target")) for each in run.faults if each.get("kind") in ENDING)
    refused = sum(
        isinstance(each.get("status"), int) and each["status"] != 201
        for number, each in run.replies.items()
        if number in run.sends
    )
    cells = (
        f"a plan of {run.settings.get('seed')}" if run.given else run.settings.get("seed", "?"),
        run.settings.get("minutes", "?"),
        f"{sources['http']}, {sources['telegram']}",
        _counts(kinds),
        _counts(ends),
        f"{states['done']}, {states['failed']}, {states['dead']}, {len(gone)}",
        f"{refused}, {len(run.unanswered)}",
        sum(each.sure for each in run.edits),
        sum(each.looked for each in ledger.clauses),
        ledger.violations,
    )
    return f"| {' | '.join(map(str, cells))} |"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "none"
