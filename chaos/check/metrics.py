"""I7: the metrics page agrees with the database, and its labels come from closed lists.

- Gauges (`transcriber_jobs{state}`, `transcriber_queue_oldest_seconds{state}`) are what the
  database holds when the page is read (design 8). When everything has settled nothing waits for a
  step, so the oldest of each is 0. Both inputs are up once the faults are lifted.
- Counters of the Python processes live in files that outlast their processes, until the service
  as a whole is started again (`up` clears them). A run is counted once, after its result is
  saved: a kill between the two loses the count and never the result, so a counter may lag behind
  the database by what was in work at kills, and is never ahead of it.
- PocketBase's own counters (`accepted`, `rejected`) are in its memory and begin anew at each
  start, as Prometheus expects of counters: compared is what came in since the last start.
- "Every label value comes from a closed list" (design 8; intake, "Метка метрики несёт только
  известное расширение").
"""

from __future__ import annotations

import re
from collections import Counter

from chaos.check.ledger import Ledger
from chaos.check.run import MILESTONES, STOPPED, Run

AT_ONCE = 24
"""Results that one pipeline may have written and not counted when it is killed: its batches."""
ANSWERS_AT_ONCE = 32
"""Answers whose end may be written and not counted when the bot is killed."""
THREADS = 16
"""Of the pipeline, each with a run that is logged and not counted yet when it is killed."""

_EXTENSIONS = (
    "mp3", "wav", "ogg", "oga", "opus", "flac", "m4a", "aac", "wma", "mp4", "mkv", "mov", "avi",
    "webm", "audio", "other",
)  # fmt: skip
_CODES = (
    "unauthorized", "forbidden", "not_found", "bad_request", "too_large", "too_many_requests",
    "not_ready", "no_space", "internal",
)  # fmt: skip
_REASONS = (
    "input_down", "no_addressee", "blocked", "gone", "not_reachable", "unsure", "error",
)  # fmt: skip
LABELS = {
    "state": (*MILESTONES, *STOPPED),
    "input": ("http", "telegram"),
    "extension": _EXTENSIONS,
    "error_code": _CODES,
    "step": ("normalise", "submit", "check", "finish"),
    "outcome": ("ok", "waiting", "retry", "failed", "dead", "lost"),
    "reason": _REASONS,
}


def check(run: Run, ledger: Ledger) -> None:
    """Compare the page with the rest."""
    page = ledger.clause("I7", "there is a page with the service's series", needed=True)
    ours = [series for series in run.metrics if series.startswith("transcriber_")]
    if not page.expect(ours, "end/metrics.txt holds no series of the service"):
        return
    _gauges(run, ledger)
    _labels(run, ledger)
    _runs(run, ledger)
    _logged(run, ledger)
    _intake(run, ledger)
    _undelivered(run, ledger)


def _gauges(run: Run, ledger: Ledger) -> None:
    clause = ledger.clause("I7", "gauges say what the database holds", needed=True)
    states = Counter(job["state"] for job in run.jobs.values())
    for state in LABELS["state"]:
        series = f'transcriber_jobs{{state="{state}"}}'
        clause.expect(
            run.metrics.get(series) == states[state],
            f"{series} is {run.metrics.get(series)}, the database has {states[state]}",
        )
    for state in MILESTONES[:-1]:
        series = f'transcriber_queue_oldest_seconds{{state="{state}"}}'
        value = run.metrics.get(series)
        clause.expect(
            value is not None and (value > 0) is (states[state] > 0),
            f"{series} is {value}, with {states[state]} jobs there",
        )
    for source in ("http", *(["telegram"] if run.telegram else [])):
        series = f'transcriber_input_up{{input="{source}"}}'
        clause.expect(run.metrics.get(series) == 1, f"{series} is {run.metrics.get(series)}")


def _labels(run: Run, ledger: Ledger) -> None:
    clause = ledger.clause("I7", "labels come from closed lists", needed=True)
    for series in run.metrics:
        if series.startswith("transcriber_"):
            for name, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', series):
                if name in LABELS:
                    clause.expect(value in LABELS[name], series)
                elif name == "engine":
                    known = re.fullmatch(r"[\w.-]+/[\w./-]+", value)
                    clause.expect(known and len(value) < 200, series)


def _total(run: Run, name: str, **labels: str) -> float:
    """The sum of a counter's series that carry these labels."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    return sum(
        value
        for series, value in run.metrics.items()
        if series.partition("{")[0] == name and all(each in series for each in wanted)
    )


def _runs(run: Run, ledger: Ledger) -> None:
    """The counts of ends, against the ends that there are."""
    clause = ledger.clause("I7", "counted runs agree with what became of the jobs", needed=True)
    if run.wiped:
        ledger.note("counters began anew with `up`: only their upper bounds were compared")
        slack = float("inf")
    else:
        slack = float(AT_ONCE * run.ended("pipeline"))
    states = Counter(job["state"] for job in run.jobs.values())
    sure, perhaps = map(
        sum, zip(*[(0, 0), *(run.returns(number) for number in run.jobs)], strict=True)
    )
    gone = len({e.record for e in run.edits if e.collection == "recordings" and e.deletes})
    by_hand = sum(run.by_hand(number) for number in run.jobs)
    of_gone = sum(sum(run.returns(number)) for number in run.deleted | run.perhaps_deleted)
    done = _total(run, "transcriber_worker_runs_total", step="finish", outcome="ok")
    clause.expect(
        states["done"] - by_hand - slack <= done <= states["done"] + gone,
        f"finish/ok is {done}; done are {states['done']} ({by_hand} by hand), {gone} were deleted, "
        f"the pipeline was ended {run.ended('pipeline')} times",
    )
    stops = sum(
        _total(run, "transcriber_worker_runs_total", outcome=outcome) for outcome in STOPPED
    )
    stopped = states["failed"] + states["dead"]
    clause.expect(
        stopped + sure - slack <= stops <= stopped + sure + perhaps + gone + of_gone,
        f"runs that ended failed or dead are {stops}; stopped are {stopped}, returned were {sure} "
        f"(+{perhaps}?), deleted {gone}",
    )
    normalised = _total(run, "transcriber_normalized_total")
    ran = _total(run, "transcriber_worker_runs_total", step="normalise", outcome="ok")
    clause.expect(
        abs(normalised - ran) <= slack, f"normalized_total is {normalised}, normalise/ok {ran}"
    )
    for step in LABELS["step"]:
        counted = _total(run, "transcriber_worker_runs_total", step=step)
        timed = _total(run, "transcriber_step_seconds_count", step=step)
        clause.expect(
            abs(counted - timed) <= slack, f"{step}: {counted} runs are counted, {timed} timed"
        )


def _logged(run: Run, ledger: Ledger) -> None:
    """The counts since the last start of the service, against the lines that its pipeline wrote.

    A run is logged, and then counted. `waiting` and `lost` are not logged at the usual level.
    """
    log = run.folder / "logs" / "up.log"
    if not log.exists():
        return
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("chaos | up ended")]
    since = lines[starts[-1] if starts else 0 :]
    logged = Counter(
        (found[1], "retry" if found[2] == "refused" else found[2])
        for line in since
        if (found := re.search(r" pipeline (\w+) (ok|retry|refused|failed|dead) job_id=", line))
    )
    clause = ledger.clause("I7", "counted runs are those that were logged")
    slack = THREADS * run.ended("pipeline")
    for step in LABELS["step"]:
        for outcome in ("ok", "retry", "failed", "dead"):
            got = _total(run, "transcriber_worker_runs_total", step=step, outcome=outcome)
            lines_ = logged[step, outcome]
            if got or lines_:
                clause.expect(
                    lines_ - slack <= got <= lines_,
                    f"{step}/{outcome} is {got}, logged were {lines_} since the last start",
                )


def _intake(run: Run, ledger: Ledger) -> None:
    clause = ledger.clause("I7", "accepted are those since PocketBase's last start", needed=True)
    began, over = run.last_start
    http = [
        (float(send.get("t", 0)), float(run.replies[number]["t"]))
        for number, send in run.sends.items()
        if run.replies.get(number, {}).get("status") == 201
    ]
    unknown = sum(1 for each in run.unanswered)
    least = sum(sent >= over for sent, _ in http)
    # What a 201 was read for after the end had begun may have been counted before it or after.
    most = sum(answered >= began for _, answered in http) + unknown
    most += len(run.events("reference")) if began == 0 else 0
    got = _total(run, "transcriber_recordings_accepted_total", input="http")
    clause.expect(
        least <= got <= most,
        f"accepted over http is {got}; since {over:g} s it was {least} to {most}",
    )
    total = sum(row["source"] == "telegram" for row in run.recordings.values())
    total += len(run.deleted_messages)
    got = _total(run, "transcriber_recordings_accepted_total", input="telegram")
    clause.expect(got <= total, f"accepted from telegram is {got}, of {total} in all")
    refused = ledger.clause("I7", "rejected are those since PocketBase's last start")
    answers = [
        (float(send["t"]), float(run.replies[number]["t"]))
        for number, send in run.sends.items()
        if run.replies.get(number, {}).get("status") not in (None, 201)
    ]
    least = sum(sent >= over for sent, _ in answers)
    most = sum(answered >= began for _, answered in answers) + unknown
    got = _total(run, "transcriber_rejected_total", input="http")
    strangers = len(run.events("refused_probe"))
    refused.expect(
        least <= got <= most + strangers,
        f"rejected over http is {got}; since {over:g} s it was {least} to {most}",
    )


def _undelivered(run: Run, ledger: Ledger) -> None:
    clause = ledger.clause("I7", "undelivered answers are those of the outbox", needed=True)
    slack = float("inf") if run.wiped else float(ANSWERS_AT_ONCE * run.ended("telegram"))
    gone = len(run.deleted_messages)
    for reason in LABELS["reason"]:
        rows = sum(row["reason"] == reason for row in run.tables["answers"])
        got = _total(run, "transcriber_undelivered_replies_total", reason=reason)
        clause.expect(
            rows - slack <= got <= rows + gone,
            f"undelivered for {reason} is {got}; the outbox has {rows}, {gone} were deleted",
        )
