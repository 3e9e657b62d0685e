"""I7, the counts: every run and every undelivered answer that was saved is counted once.

- A run is logged when its result is saved, and then counted, so a kill between these loses the
  count and never the result: a page is never ahead of the log, the log never ahead of the
  database, and each is behind by no more than what kills can have cut off. That is a run for each
  thread of a pipeline (docs/architecture.md, docs/settings.md: `RECOGNISER_PARALLEL`).
- Compared are, of each machine, the counts since its last start with its log since then; of each
  job, its end with the log of both machines; and with the database the sum of what all machines
  counted in the whole run, where the log stands for what a start of `up` has cleared.
- A retry for want of room "spends no attempts: workers wait for room and say so once", so it is
  counted and stands in no line.
- Answers are counted and logged once their end is saved, and compared in the same way.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from chaos.check.journal import Row
from chaos.check.ledger import Clause, Ledger
from chaos.check.machines import Machine, machines
from chaos.check.run import STOPPED, Run

STEPS = ("normalise", "submit", "check", "finish")
THREADS = {"normalise": 2, "submit": 4, "check": 2, "finish": 1}
"""Of each step in one pipeline, at most: runs that its end may cut off from the log or the page."""
OUTCOMES = ("ok", "retry", "failed", "dead")
"""What is logged of a run. `waiting` and `lost` are not, at the usual level."""
REASONS = (
    "input_down", "no_addressee", "blocked", "gone", "not_reachable", "unsure", "error",
)  # fmt: skip
HANGING = 30.0
"""Seconds after a result is saved in which its worker may still wait for the answer to that."""


def check(run: Run, ledger: Ledger) -> None:
    """Compare pages, logs and database."""
    all_ = machines(run)
    for machine in all_:
        if machine.page is None:
            ledger.note(f"no counters of the machine {machine.name} were kept: its log stands in")
        else:
            _page(run, machine, ledger)
    ends = sorted(at for machine in all_ for at in machine.ends("pipeline"))
    _ends(run, all_, ends, ledger)
    _sums(run, all_, ends, ledger)
    _undelivered(run, all_, ledger)


def _page(run: Run, machine: Machine, ledger: Ledger) -> None:
    clause = ledger.clause("I7", "counted runs are those that were logged", needed=True)
    logged, ends = machine.logged(), machine.ends("pipeline", since=True)
    last = max(machine.ends(""), default=0.0)  # of the machine as a whole
    room = not any(run.over.get(f["id"], last) >= last for f in run.fault_kinds("disk"))
    for step in STEPS:
        cut = THREADS[step] * len(ends)
        for outcome in OUTCOMES:
            got = machine.counted("transcriber_worker_runs_total", step=step, outcome=outcome)
            lines = logged[step, outcome]
            if got or lines:
                ahead = outcome == "retry" and not room
                clause.expect(
                    lines - cut <= got and (got <= lines or ahead),
                    f"{machine.name}: {step}/{outcome} is {got:g}, logged were {lines} since its "
                    f"last start, and its pipeline was ended {len(ends)} times",
                )
        counted = machine.counted("transcriber_worker_runs_total", step=step)
        timed = machine.counted("transcriber_step_seconds_count", step=step)
        clause.expect(
            abs(counted - timed) <= cut,
            f"{machine.name}: of {step} {counted:g} runs are counted and {timed:g} timed",
        )
    normalised = machine.counted("transcriber_normalized_total")
    ran = machine.counted("transcriber_worker_runs_total", step="normalise", outcome="ok")
    clause.expect(
        abs(normalised - ran) <= THREADS["normalise"] * len(ends),
        f"{machine.name}: normalized_total is {normalised:g}, normalise/ok {ran:g}",
    )


def _ends(run: Run, all_: list[Machine], ends: list[float], ledger: Ledger) -> None:
    """Each end of a job has its line, on whichever machine."""
    clause = ledger.clause("I7", "each end of a job was logged, but for what a kill cut off",
                           needed=True)  # fmt: skip
    said: dict[str, Counter[str]] = defaultdict(Counter)
    for machine in all_:
        for step, outcome, job in machine.runs():
            if outcome in STOPPED:
                said[job]["stopped"] += 1
            elif (step, outcome) == ("finish", "ok"):
                said[job]["done"] += 1
    lost = 0
    for number, job in run.jobs.items():
        if not run.by_hand(number):
            lost += _end(run, job, said[number], ends, clause)
    for number in set(said) - set(run.jobs):
        gone = run.may_be_gone(number)
        clause.expect(gone, f"{number} was logged as ended; it is not there, and nobody deleted it")
    most = len(ends) + 1 if ends else 0
    clause.expect(
        lost <= most,
        f"{lost} ends of jobs are in no log, and pipelines were ended {len(ends)} times",
    )


def _end(run: Run, job: Row, said: Counter[str], ends: list[float], clause: Clause) -> int:
    """How many of a job's ends are in no log."""
    number = job["recording"]
    done, stopped = job["state"] == "done", job["state"] in STOPPED
    sure, perhaps = run.returns(number)
    least, most = sure + stopped, sure + perhaps + stopped
    clause.expect(
        said["done"] <= done and said["stopped"] <= most,
        f"{number} is {job['state']}, returned {sure} times (+{perhaps}?), and was logged as done "
        f"{said['done']} times, as stopped {said['stopped']} times",
    )
    missing = max(done - said["done"], 0) + max(least - said["stopped"], 0)
    if missing:
        clause.expect(
            _near(run, job, ends),
            f"{number} is {job['state']}, and {missing} of its ends are in no log, though no "
            "pipeline was ended then",
        )
    return missing


def _near(run: Run, row: Row, ends: list[float]) -> bool:
    """Whether one of these ends may have cut off what became of a row before its last change."""
    first, last = run.seconds(row["created"]), run.seconds(row["updated"])
    if first is None or last is None:
        return bool(ends)
    return any(first - 1 <= at <= last + HANGING for at in ends)


def _sums(run: Run, all_: list[Machine], ends: list[float], ledger: Ledger) -> None:
    """The counts of ends, against the ends that there are."""
    clause = ledger.clause("I7", "counted runs agree with what became of the jobs", needed=True)
    cut = len(ends) + 1 if ends else 0
    states = Counter(job["state"] for job in run.jobs.values())
    sure, perhaps = map(
        sum, zip(*[(0, 0), *(run.returns(number) for number in run.jobs)], strict=True)
    )
    gone = len({e.record for e in run.edits if e.collection == "recordings" and e.deletes})
    by_hand = sum(run.by_hand(number) for number in run.jobs)
    of_gone = sum(sum(run.returns(number)) for number in run.deleted | run.perhaps_deleted)
    done = sum(machine.ever("ok", "finish") for machine in all_)
    told = f"{gone} were deleted, pipelines were ended {len(ends)} times"
    clause.expect(
        states["done"] - by_hand - cut <= done <= states["done"] + gone,
        f"finish/ok is {done:g}; done are {states['done']} ({by_hand} by hand), {told}",
    )
    stops = sum(machine.ever(outcome) for machine in all_ for outcome in STOPPED)
    stopped = states["failed"] + states["dead"]
    clause.expect(
        stopped + sure - cut <= stops <= stopped + sure + perhaps + gone + of_gone,
        f"runs that ended failed or dead are {stops:g}; stopped are {stopped}, returned were "
        f"{sure} (+{perhaps}?), {told}",
    )


def _undelivered(run: Run, all_: list[Machine], ledger: Ledger) -> None:
    clause = ledger.clause("I7", "undelivered answers are those of the outbox", needed=True)
    gone = len(run.deleted_messages)
    ends = [at for machine in all_[:1] for at in machine.ends("telegram")]
    for reason in REASONS:
        rows = [row for row in run.tables["answers"] if row["reason"] == reason]
        cut = sum(_near(run, row, ends) for row in rows)
        got = sum(machine.undelivered(reason) for machine in all_)
        clause.expect(
            len(rows) - cut <= got <= len(rows) + gone,
            f"undelivered for {reason} is {got:g}; the outbox has {len(rows)}, of which {cut} may "
            f"have been cut off; {gone} were deleted",
        )
