"""I7: the metrics page agrees with the database, and its labels come from closed lists.

- Gauges (`transcriber_jobs{state}`, `transcriber_queue_oldest_seconds{state}`) are what the
  database holds when the page is read (design 8). When everything has settled nothing waits for a
  step, so the oldest of each is 0. Both inputs are up once the faults are lifted.
- What the Python processes count is in `counts.py`.
- PocketBase's own counters (`accepted`, `rejected`) are in its memory and begin anew at each
  start, as Prometheus expects of counters: compared is what came in since the last start.
- "Every label value comes from a closed list" (design 8; intake, "Метка метрики несёт только
  известное расширение").
"""

from __future__ import annotations

import re
from collections import Counter

from chaos.check import counts
from chaos.check.counts import REASONS, STEPS
from chaos.check.ledger import Ledger
from chaos.check.machines import Machine, machines
from chaos.check.run import MILESTONES, STOPPED, Run

_EXTENSIONS = (
    "mp3", "wav", "ogg", "oga", "opus", "flac", "m4a", "aac", "wma", "mp4", "mkv", "mov", "avi",
    "webm", "audio", "other",
)  # fmt: skip
_CODES = (
    "unauthorized", "forbidden", "not_found", "bad_request", "too_large", "too_many_requests",
    "not_ready", "no_space", "internal",
)  # fmt: skip
LABELS = {
    "state": (*MILESTONES, *STOPPED),
    "input": ("http", "telegram"),
    "extension": _EXTENSIONS,
    "error_code": _CODES,
    "step": STEPS,
    "outcome": ("ok", "waiting", "retry", "failed", "dead", "lost"),
    "reason": REASONS,
}


def check(run: Run, ledger: Ledger) -> None:
    """Compare the page with the rest."""
    page = ledger.clause("I7", "there is a page with the service's series", needed=True)
    ours = [series for series in run.metrics if series.startswith("transcriber_")]
    if not page.expect(ours, "end/metrics.txt holds no series of the service"):
        return
    _gauges(run, ledger)
    _labels(run, ledger)
    _intake(run, ledger)
    counts.check(run, ledger)


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
    for series in (series for machine in machines(run) for series in machine.page or ()):
        if series.startswith("transcriber_"):
            for name, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', series):
                if name in LABELS:
                    clause.expect(value in LABELS[name], series)
                elif name == "engine":
                    known = re.fullmatch(r"[\w.-]+/[\w./-]+", value)
                    clause.expect(known and len(value) < 200, series)


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
    page = Machine(run, "up")
    got = page.counted("transcriber_recordings_accepted_total", input="http")
    clause.expect(
        least <= got <= most,
        f"accepted over http is {got}; since {over:g} s it was {least} to {most}",
    )
    total = sum(row["source"] == "telegram" for row in run.recordings.values())
    total += len(run.deleted_messages)
    got = page.counted("transcriber_recordings_accepted_total", input="telegram")
    clause.expect(got <= total, f"accepted from telegram is {got}, of {total} in all")
    refused = ledger.clause("I7", "rejected are those since PocketBase's last start")
    answers = [
        (float(send["t"]), float(run.replies[number]["t"]))
        for number, send in run.sends.items()
        if run.replies.get(number, {}).get("status") not in (None, 201)
    ]
    least = sum(sent >= over for sent, _ in answers)
    most = sum(answered >= began for _, answered in answers) + unknown
    got = page.counted("transcriber_rejected_total", input="http")
    strangers = len(run.events("refused_probe"))
    refused.expect(
        least <= got <= most + strangers,
        f"rejected over http is {got}; since {over:g} s it was {least} to {most}",
    )
