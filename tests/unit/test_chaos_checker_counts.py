"""The judge of `make chaos`: what each machine counted, logged and did (I7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.chaos_evidence import Evidence, Row, number
from tests.unit.chaos_whole import RUNS, whole
from tests.unit.test_chaos_checker import Spoil, caught

FINISHED = RUNS.format("ok", "finish")
TIMED = 'transcriber_step_seconds_count{{step="{}"}}'
NORMALISED = 'transcriber_normalized_total{extension="ogg"}'
UNDELIVERED = 'transcriber_undelivered_replies_total{reason="unsure"}'
LOGGED = "counted runs are those that were logged"
ENDED = "each end of a job was logged, but for what a kill cut off"
COUNTED = "counted runs agree with what became of the jobs"
OUTBOX = "undelivered answers are those of the outbox"
BOTH = ("up", "second")


def pages(run: Evidence) -> dict[str, dict[str, float]]:
    return {"up": run.metrics, "second": run.second}


def counted(series: str, change: float, *machines: str) -> Spoil:
    def spoil(run: Evidence) -> None:
        for name in machines:
            pages(run)[name][series] += change

    return spoil


def unlogged(job: str, step: str = "") -> Spoil:
    """Its lines are missing: `step`, of this step alone."""

    def spoil(run: Evidence) -> None:
        for name in BOTH:
            run.logs[name] = [
                line for line in run.logs[name] if f"{step} " not in line or job not in line
            ]

    return spoil


def line(step: str, outcome: str, job: str) -> str:
    return f"pipeline | 2026-11-30 18:40:12.345 INFO    pipeline {step} {outcome} job_id={job}"


def logged(*lines: str) -> Spoil:
    return lambda run: run.logs["up"].extend(lines)


def fault(run: Evidence, target: str, kind: str = "kill") -> Row:
    told = run.before_quiet("fault", id=880, kind=kind, target=target)
    run.before_quiet("fault_over", id=880)
    return told


def calm(run: Evidence) -> None:
    """No pipeline was ever ended, so nothing can have been cut off."""
    run.event("fault", id=801)["target"] = "engine"


def no_end(*spoils: Spoil) -> Spoil:
    def spoil(run: Evidence) -> None:
        for each in (calm, *spoils):
            each(run)

    return spoil


def started_anew(run: Evidence, name: str, target: str) -> None:
    """A machine as a whole was started again at the end: its counts are gone, its log is not."""
    fault(run, target, "restart")
    run.logs[name].append(f"chaos | {name} ended (0)")
    for series in pages(run)[name]:
        if "_runs_" in series or "_seconds_count" in series or "normalized" in series:
            pages(run)[name][series] = 0


def never_counted(run: Evidence) -> None:
    """A restart has cleared the counts; what the log says since then is not on the page."""
    started_anew(run, "second", "second")
    run.logs["second"] += [line("check", "ok", number(2))] * 3


def outside_of_the_log(run: Evidence) -> None:
    """The second machine does not count at all, as if it were not looked at."""
    for series in run.second:
        run.second[series] = 0


def ended_long_before(run: Evidence) -> None:
    """A pipeline was ended before the job was there, which excuses nothing."""
    run.get("jobs", id=number(2)).update(created="2026-11-30 18:41:12.345Z",
                                         updated="2026-11-30 18:42:12.345Z")  # fmt: skip
    unlogged(number(2), "finish")(run)


@pytest.mark.parametrize(
    ("clause", "spoil"),
    [
        (LOGGED, counted(RUNS.format("ok", "check"), 1, "up")),
        (LOGGED, counted(RUNS.format("ok", "check"), 1, "second")),
        (LOGGED, counted(RUNS.format("retry", "check"), 1, "up")),
        (LOGGED, counted(RUNS.format("ok", "check"), -3, "up")),
        (LOGGED, counted(RUNS.format("ok", "check"), -1, "second")),
        (LOGGED, no_end(counted(FINISHED, -1, "up"))),
        (LOGGED, counted(TIMED.format("check"), 3, "up")),
        (LOGGED, counted(TIMED.format("check"), -1, "second")),
        (LOGGED, counted(NORMALISED, -3, "up")),
        (LOGGED, counted(NORMALISED, 1, "second")),
        (LOGGED, outside_of_the_log),
        (LOGGED, never_counted),
        (ENDED, no_end(unlogged(number(1), "finish"))),
        (ENDED, no_end(unlogged(number(3)))),
        (ENDED, no_end(unlogged(number(17)))),
        (ENDED, ended_long_before),
        (ENDED, lambda run: [unlogged(number(n))(run) for n in (1, 2, 3, 4)]),
        (ENDED, logged(line("finish", "ok", number(1)))),
        (ENDED, logged(line("finish", "ok", number(3)))),
        (ENDED, logged(line("normalise", "failed", number(1)))),
        (ENDED, logged(line("finish", "ok", number(77)))),
        (COUNTED, counted(FINISHED, 1, "up")),
        (COUNTED, counted(FINISHED, 1, "second")),
        (COUNTED, no_end(counted(FINISHED, -3, "second"))),
        (COUNTED, counted(FINISHED, -3, *BOTH)),
        (COUNTED, counted(RUNS.format("failed", "normalise"), 3, "up")),
        (COUNTED, no_end(counted(RUNS.format("failed", "normalise"), -1, "second"))),
        (OUTBOX, counted(UNDELIVERED, 2, "up")),
        (OUTBOX, counted(UNDELIVERED, -1, "up")),
        (OUTBOX, lambda run: run.get("answers", recording=number(21)).update(
            state="undelivered", reason="error")),
    ],
)  # fmt: skip
def test_what_was_not_counted_or_not_logged_is_caught(
    clause: str, spoil: Spoil, tmp_path: Path
) -> None:
    caught(spoil, "I7", clause, tmp_path)


# What may happen, and is no violation


def counted_less_by_a_kill(run: Evidence) -> None:
    """Two threads normalise, one finishes."""
    for series in (FINISHED, TIMED.format("finish")):
        run.metrics[series] -= 1
    for series in (RUNS.format("ok", "normalise"), TIMED.format("normalise"), NORMALISED):
        run.metrics[series] -= 2


def logged_less_by_a_kill(run: Evidence) -> None:
    unlogged(number(1), "finish")(run)
    for series in (FINISHED, TIMED.format("finish")):
        run.metrics[series] -= 1


def all_began_anew(run: Evidence) -> None:
    started_anew(run, "up", "up")
    for series in run.metrics:
        if "accepted" in series or "rejected" in series:  # PocketBase's own
            run.metrics[series] = 0


def the_second_began_anew(run: Evidence) -> None:
    started_anew(run, "second", "second")


def older_evidence(run: Evidence) -> None:
    """Nobody kept what the second machine counted: its log stands for it."""
    run.second.clear()


def no_second_machine(run: Evidence) -> None:
    """As in runs that were made by hand."""
    run.logs["up"] += run.logs.pop("second")
    for series, value in run.second.items():
        run.metrics[series] += value
    run.second.clear()


def short_of_room(run: Evidence) -> None:
    """Such retries are counted, and told of once and not each."""
    fault(run, "data", "disk_full")
    for series in (RUNS.format("retry", "normalise"), TIMED.format("normalise")):
        run.second[series] += 5


def not_told_by_a_kill(run: Evidence) -> None:
    fault(run, "telegram")["t"] = 12.0
    run.metrics[UNDELIVERED] = 0


@pytest.mark.parametrize(
    "change",
    [
        counted_less_by_a_kill, logged_less_by_a_kill, all_began_anew, the_second_began_anew,
        older_evidence, no_second_machine, short_of_room, not_told_by_a_kill,
    ],
)  # fmt: skip
def test_what_a_kill_leaves_uncounted_is_let_pass(change: Spoil, tmp_path: Path) -> None:
    run = whole()
    change(run)
    ledger = run.judge(tmp_path)
    assert ledger.violations == 0, ledger.table()


@pytest.mark.parametrize(
    ("machine", "change"),
    [("up", all_began_anew), ("second", the_second_began_anew), ("second", older_evidence)],
)
def test_the_bounds_are_compared_where_counts_are_gone(
    machine: str, change: Spoil, tmp_path: Path
) -> None:
    """A start of `up` clears the counts; that a machine's ends are missing all the same shows."""
    run = whole()
    change(run)
    calm(run)
    run.logs[machine] = [line for line in run.logs[machine] if " finish ok " not in line]
    assert any(each.startswith(COUNTED) for each in run.judge(tmp_path).broken("I7"))
