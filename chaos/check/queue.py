"""I9: the queue and the outbox are at rest, and each row is consistent in itself.

- "A job has one `state`"; `milestone` is what it last reached, so the two are the same until it
  stops (design 2). One row of `jobs` a recording, under its id (design 3).
- Every outcome clears the lease and its own columns (docs/architecture.md, "The states of a
  job"): `advanced` leaves no attempts, no error; `failed` and `dead` leave an error text and no
  pause; `dead` is only what was claimed with attempts (or losses of its operation) above
  MAX_ATTEMPTS, and a step's failure comes at MAX_ATTEMPTS at most (pipeline, "Число попыток и
  состояние «мертва»").
- "All times are PocketBase's clock, in PocketBase's own form" (design 4); no worker's clock gets
  in.
- `error_text` is "cut at 2,000 characters with the full size named beside it" (design 2).
- Answers end as `sent`, `unsure` or `undelivered`; of a sent one each message has left and
  arrived (docs/telegram.md).
- An operation that no job waits for is removed with its job's end, or by the sweep; until then
  nobody may be at work on it.
"""

from __future__ import annotations

import re
from collections import Counter

from chaos.check.journal import Row
from chaos.check.ledger import Ledger
from chaos.check.run import MILESTONES, STOPPED, Run

LONGEST_ERROR = 2000
SKEW = 90.0
"""Seconds after the end of the journal in which the end is written down."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z")
_TIMES = (
    "created",
    "updated",
    "leased_at",
    "not_before",
    "submitted_at",
    "failing_since",
    "progressed_at",
)


def check(run: Run, ledger: Ledger) -> None:
    """Look at every row of the queue, the outbox and the recogniser."""
    free = ledger.clause("I9", "no lease is left over", needed=True)
    for table in ("jobs", "answers", "operations"):
        for row in run.tables[table]:
            if table == "operations" and row.get("recogniser"):
                continue  # held by whoever holds its job
            lease = (row["lease_token"], row["leased_at"], row["leased_by"])
            free.expect(lease == ("", "", ""), f"{table}/{row['id']} is still leased: {lease}")
    one = ledger.clause("I9", "one job a recording, under its id", needed=True)
    jobs = Counter(row["recording"] for row in run.tables["jobs"])
    for row in run.tables["jobs"]:
        one.expect(
            row["id"] == row["recording"] and jobs[row["recording"]] == 1,
            f"jobs/{row['id']} of {row['recording']}, which has {jobs[row['recording']]}",
        )
    legal = ledger.clause("I9", "states and their columns fit together", needed=True)
    for row in run.tables["jobs"]:
        for what in _faults_of_job(row, run.max_attempts):
            legal.expect(False, f"jobs/{row['id']} ({row['state']} at {row['milestone']}): {what}")
        legal.seen()
    if run.telegram:
        told = ledger.clause("I9", "every answer has ended, and adds up", needed=True)
        for row in run.tables["answers"]:
            what = _fault_of_answer(row)
            told.expect(not what, f"answers/{row['id']} ({row['kind']}, {row['state']}): {what}")
    _operations(run, ledger)
    _times(run, ledger)


def _faults_of_job(row: Row, limit: int) -> list[str]:
    state, attempts, error = row["state"], row["attempts"], str(row["error_text"])
    over = attempts > limit or row["sent_back"] > limit
    checks = {
        f"no such state {state!r}": state in (*MILESTONES, *STOPPED),
        f"no such milestone {row['milestone']!r}": row["milestone"] in MILESTONES,
        "its milestone is another": state in STOPPED or state == row["milestone"],
        f"attempts {attempts} of a job that is done": state != "done" or attempts == 0,
        f"error_text {error!r} of a job that is done": state != "done" or not error,
        f"a pause until {row['not_before']}": state not in ("done", *STOPPED)
        or not row["not_before"],
        "no error_text": state not in STOPPED or error,
        f"attempts {attempts} of {limit}, sent back {row['sent_back']}": state != "dead" or over,
        f"failed at attempt {attempts} of {limit}": state != "failed" or 1 <= attempts <= limit,
        f"error_text of {len(error)} characters": len(error) <= LONGEST_ERROR,
        f"attempts {attempts}": 0 <= attempts <= limit + 50,
        "nobody wrote its end": state not in ("done", *STOPPED) or row["written_token"],
    }
    return [what for what, holds in checks.items() if not holds]


def _fault_of_answer(row: Row) -> str:
    if row["state"] == "sent":
        whole = row["begun"] == row["sent"] >= 1 and not row["unsure"]
        return "" if whole and not row["reason"] else f"begun {row['begun']}, {row}"
    if row["state"] == "unsure":
        return "" if row["unsure"] and row["reason"] == "unsure" else f"{row}"
    if row["state"] == "undelivered":
        return "" if row["reason"] else "no reason"
    return "still waiting to be told"


def _operations(run: Run, ledger: Ledger) -> None:
    clause = ledger.clause("I9", "operations belong to jobs that wait for them, or are swept")
    for row in run.tables["operations"]:
        job = run.jobs.get(row["recording"], {})
        clause.expect(
            row["state"] in ("queued", "done", "failed")
            and (job.get("state") in (*STOPPED, "done") or job.get("operation")),
            f"operations/{row['id']} ({row['state']}) of {row['recording']}, {job.get('state')}",
        )


def _times(run: Run, ledger: Ledger) -> None:
    form = ledger.clause("I9", "times are PocketBase's, in its form", needed=True)
    ends = max(float(each["t"]) for each in run.journal)
    for table in ("recordings", "jobs", "transcripts", "answers", "operations"):
        for row in run.tables[table]:
            for name in _TIMES:
                value = row.get(name)
                if not value:
                    continue
                if not form.expect(
                    _TIME.fullmatch(value), f"{table}/{row['id']}.{name} is {value!r}"
                ):
                    continue
                at = run.seconds(value)
                form.expect(
                    at is None or name == "not_before" or -3600 <= at <= ends + SKEW,
                    f"{table}/{row['id']}.{name} is {value}, {at} s from the start of the run",
                )
