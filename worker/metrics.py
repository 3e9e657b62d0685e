"""The counters of the Python processes, by the names of the design. Every label has a closed list.

Processes share their values through files (prometheus-client's multiprocess mode) in a folder that
`share` names before prometheus_client is first imported; `worker.pages` puts them on one page.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from worker.jobs import Step

if TYPE_CHECKING:
    import prometheus_client

OUTCOMES: Final = ("ok", "waiting", "retry", "failed", "dead", "lost")
UNDELIVERED: Final = (
    "input_down", "no_addressee", "blocked", "gone", "not_reachable", "unsure", "error",
)  # fmt: skip
EXTENSIONS: Final = (
    "mp3", "wav", "ogg", "oga", "opus", "flac", "m4a", "aac", "wma", "mp4", "mkv", "mov", "avi",
    "webm", "audio",
)  # fmt: skip
OTHER: Final = "other"
ROOM: Final = 1 << 16
"""Bytes of a process's counters of one kind; a tenth of it is used."""


def extension_label(extension: str) -> str:
    """The extension as a metric may show it: one of the closed list, or `other`."""
    lowered = extension.lower().lstrip(".")
    return lowered if lowered in EXTENSIONS else OTHER


def share(folder: Path) -> None:
    """Keep this process's counters in `folder`. Call before anything imports prometheus_client.

    Raises:
        OSError: there is no room for them. They are mapped, so that a disk that became full later
            would end the process by SIGBUS: what they need is taken now.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("counter", "histogram"):
        _take_room(folder / f"{kind}_{os.getpid()}.db")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)


def _take_room(file: Path) -> None:
    """Whole or not at all: a file of no bytes is none that the page could read."""
    if not hasattr(os, "posix_fallocate"):
        return
    draft = file if file.exists() else file.with_suffix(".new")  # an earlier process's number
    try:
        with draft.open("ab") as room:
            os.posix_fallocate(room.fileno(), 0, ROOM)
        draft.rename(file)
    except OSError:
        if draft != file:
            draft.unlink(missing_ok=True)
        raise


class Metrics:
    """The counters themselves; each exists once a process and is made when first used.

    `registry`: for tests; None is the process's own.
    """

    def __init__(self, registry: prometheus_client.CollectorRegistry | None = None) -> None:
        import prometheus_client  # noqa: PLC0415 - only after `share`

        self._make = prometheus_client
        self._registry = registry or prometheus_client.REGISTRY

    def show(self) -> None:
        """Put the pipeline's series on the page before anything is counted: a rise from nothing
        would be missed."""
        for _ in (self.runs, self.seconds, self.normalized, self.undelivered):
            pass

    @cached_property
    def runs(self) -> prometheus_client.Counter:
        """Runs of a step by outcome. An empty poll is no run."""
        runs = self._make.Counter(
            "transcriber_worker_runs_total",
            "Runs of a step, by outcome",
            ["step", "outcome"],
            registry=self._registry,
        )
        for step in Step:
            for outcome in OUTCOMES:
                runs.labels(step, outcome)
        return runs

    @cached_property
    def seconds(self) -> prometheus_client.Histogram:
        """How long the runs of a step took."""
        seconds = self._make.Histogram(
            "transcriber_step_seconds",
            "Seconds that a run of a step took",
            ["step"],
            buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 1800),
            registry=self._registry,
        )
        for step in Step:
            seconds.labels(step)
        return seconds

    @cached_property
    def normalized(self) -> prometheus_client.Counter:
        """Recordings normalised, by the sender's extension."""
        normalized = self._make.Counter(
            "transcriber_normalized_total",
            "Recordings brought to one audio form, by extension",
            ["extension"],
            registry=self._registry,
        )
        for extension in (*EXTENSIONS, OTHER):
            normalized.labels(extension)
        return normalized

    @cached_property
    def undelivered(self) -> prometheus_client.Counter:
        """Answers that could not be delivered, by reason."""
        undelivered = self._make.Counter(
            "transcriber_undelivered_replies_total",
            "Answers to senders that could not be delivered, by reason",
            ["reason"],
            registry=self._registry,
        )
        for reason in UNDELIVERED:
            undelivered.labels(reason)
        return undelivered

    @cached_property
    def recognised(self) -> prometheus_client.Counter:
        """Seconds of audio recognised, by engine."""
        return self._make.Counter(
            "transcriber_recognised_audio_seconds_total",
            "Seconds of audio recognised, by engine",
            ["engine"],
            registry=self._registry,
        )
