"""What each machine of a run counted and logged, and when its processes were ended.

A machine's counters outlast its processes and are cleared when its `transcriber up` starts; its log
is one file for the whole run, and the rig notes each end of `up` in it. So the log from the last
such note on is of the same time as the counters.

The second machine runs no process that serves a metrics page. Read are the files which such a page
is made of; they stay in the folder of the run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from prometheus_client.multiprocess import MultiProcessCollector

from chaos.check.journal import EVERYTHING
from chaos.check.run import Run

NAMES = ("up", "second")
"""As their logs are called; the first is the one with PocketBase."""
ENDS = ("kill", "restart", "clock")
"""Faults that end a process. One that was only stopped goes on with what it has in hand."""
_RUN = re.compile(r" pipeline (\w+) (ok|retry|refused|failed|dead) job_id=(\w+)")
_UNDELIVERED = re.compile(r" answer not delivered job_id=\w+ reason=(\w+)")


class Machine:
    """One of them."""

    def __init__(self, run: Run, name: str) -> None:
        self.run = run
        self.name = name
        log = run.folder / "logs" / f"{name}.log"
        self.logs = log.exists()
        text = log.read_text(encoding="utf-8", errors="replace") if self.logs else ""
        lines = text.splitlines()
        starts = [n for n, line in enumerate(lines) if line.startswith(f"chaos | {name} ended")]
        self.before = lines[: starts[-1]] if starts else []
        self.since = lines[starts[-1] :] if starts else lines
        self.page: Mapping[str, float] | None = run.metrics
        if name != NAMES[0]:
            self.page = _counters(run.folder / name / "run" / "metrics")

    def runs(self) -> list[tuple[str, str, str]]:
        """Every run that it logged: the step, the outcome and the job."""
        return [*_runs(self.before), *_runs(self.since)]

    def logged(self) -> Counter[tuple[str, str]]:
        """The runs since its last start, by step and outcome."""
        return Counter((step, outcome) for step, outcome, _ in _runs(self.since))

    def counted(self, name: str, **labels: str) -> float:
        """The sum of its counter's series that carry these labels."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(
            value
            for series, value in (self.page or {}).items()
            if series.partition("{")[0] == name and all(each in series for each in wanted)
        )

    def ever(self, outcome: str, step: str = "") -> float:
        """Runs that it counted in the whole run: where its counts were cleared, or where none were
        kept, the log stands for them."""
        lines = _runs(self.before if self.page else [*self.before, *self.since])
        found = sum(o == outcome and step in ("", s) for s, o, _ in lines)
        labels = {"outcome": outcome, **({"step": step} if step else {})}
        return found + self.counted("transcriber_worker_runs_total", **labels)

    def undelivered(self, reason: str) -> float:
        """Answers that it could not deliver in the whole run, in the same way."""
        lines = self.before if self.page else [*self.before, *self.since]
        found = sum(bool((m := _UNDELIVERED.search(line)) and m[1] == reason) for line in lines)
        return found + self.counted("transcriber_undelivered_replies_total", reason=reason)

    def ends(self, process: str, *, since: bool = False) -> list[float]:
        """When its process of this name was ended; `since`: since the last start of its `up`."""
        whole = EVERYTHING if self.name == NAMES[0] else (self.name,)
        own = process if self.name == NAMES[0] else f"{self.name}/{process}"
        found, last = [], 0.0
        for fault in self.run.faults:
            at, target = float(fault["t"]), fault.get("target")
            if fault.get("kind") in ENDS and target in (own, *whole):
                found.append(at)
                last = at if target in whole else last
                if fault["kind"] == "clock":  # its clock is put right by another start
                    found.append(self.run.over.get(fault["id"], at))
        return [at for at in found if at > last] if since else found


def machines(run: Run) -> list[Machine]:
    """Those that left a log."""
    return [each for name in NAMES if (each := Machine(run, name)).logs]


def _runs(lines: list[str]) -> list[tuple[str, str, str]]:
    return [
        (found[1], "retry" if found[2] == "refused" else found[2], found[3])
        for line in lines
        if (found := _RUN.search(line))
    ]


def _counters(folder: Path) -> dict[str, float] | None:
    files = [str(each) for each in folder.glob("*.db") if each.stat().st_size]
    if not files:
        return None
    return {
        _series(sample.name, sample.labels): sample.value
        for metric in MultiProcessCollector.merge(files, accumulate=True)
        for sample in metric.samples
    }


def _series(name: str, labels: Mapping[str, str]) -> str:
    carried = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
    return f"{name}{{{carried}}}"
