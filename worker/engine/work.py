"""The work on one claimed operation: fetch, cut, recognise, write unit by unit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from loguru import logger

from worker.engine import RATE
from worker.engine.child import Cut, Decode, Recognise
from worker.engine.lease import Lease, Link
from worker.engine.operations import AudioMissing, Operation, Operations, Outcome, Unit
from worker.engine.pool import Child, Interrupted
from worker.engine.scratch import Scratch, second
from worker.errors import EngineDied, LeaseLost, describe

DEATHS: Final = 3
"""A unit that kills the engine so often is given up, and its recording with it."""
CLAIMS: Final = 10
"""Claims without a result after which a recording is given up, whatever they ended with: of engines
that nobody starts again under their name no more is known than that their leases ran out."""
BATCH: Final = 4
"""Units recognised at once, at most; their texts do not depend on it."""
TURN: Final = 5.0
"""Seconds that a batch should take: others wait no longer than that for their turn."""
GAIN: Final = 0.7
"""What a unit takes in company, of what it takes alone (measured on two idle cores)."""
GRACE: Final = 1.5
"""Seconds that a unit in work has at a stop."""
QUIET: Final = 120.0
"""Seconds within which decoding and cutting give a sign of life."""


class Hopeless(Exception):
    """This recording cannot be recognised; the message is the owner's diagnosis."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What one thread works with."""

    child: Child
    operations: Operations
    link: Link
    scratch: Scratch
    stop: threading.Event
    recognised: Callable[[float], None]
    """Counts seconds of audio."""
    drafts: dict[str, tuple[Path, Path]] = field(default_factory=dict)
    """Of recordings that were put aside before they were decoded: what was fetched, and what the
    child has decoded of it. The child goes on only with the same two."""


class Pace:
    """How much to recognise at once, from how long it has taken: alone, and in company."""

    def __init__(self) -> None:
        self._alone: float | None = None  # seconds for one of audio
        self._together: float | None = None

    def batch(self, lengths: Sequence[float]) -> int:
        """How many of the units that come next, by their seconds, fit one turn."""
        if self._alone is None and self._together is None:
            return 1
        rate = self._together if self._together is not None else (self._alone or 0.0) * GAIN
        total = accumulate(lengths[:BATCH])
        fit = max(1, sum(1 for audio in total if audio * rate <= TURN))
        # A last one alone would take longer than two pairs do.
        return fit - 1 if fit > 2 and len(lengths) == fit + 1 else fit

    def took(self, seconds: float, audio: float, units: int) -> None:
        """Remember a batch. A fast one makes bolder only by and by: it may have been easy."""
        rate = seconds / max(audio, 1.0)
        if units == 1:
            self._alone = rate if self._alone is None else max(rate, 0.8 * self._alone)
            # Company is no slower, whatever it was once.
            self._together = self._together and min(self._together, self._alone)
        else:
            self._together = rate if self._together is None else max(rate, 0.8 * self._together)


class Work:
    """One claim's work."""

    def __init__(self, bench: Bench, pace: Pace, operation: Operation, lease: Lease) -> None:
        self._bench = bench
        self._pace = pace
        self._operation = operation
        self._lease = lease
        self._deaths = operation.crashes
        self._careful = operation.attempts > 1 or operation.crashes > 0
        """Whether to go one unit at a time, so that a deadly one is known and costs no other."""
        self._killer: EngineDied | None = None
        self._stopping: float | None = None

    def outcome(self) -> Outcome:
        """Work until the recording is done, or has to be given back.

        Raises:
            Hopeless: it kills the engine again and again.
            UnreadableMedia: it cannot be decoded.
            LeaseLost: it is somebody else's, or was deleted.
            ModelError, OSError, PocketBaseError: it has to be given back because of these.
        """
        try:
            with self._bench.scratch.hold(self._operation.recording) as samples:
                return self._recognise(samples)
        except AudioMissing:
            logger.warning("audio to recognise is missing", job_id=self._operation.recording)
            return "lost"
        except Interrupted:
            if self._lease.lost:
                raise LeaseLost(self._operation.recording) from None
            return "released"

    def _recognise(self, samples: Path) -> Outcome:
        if what := self._next():
            self._give_up_if_deadly(what)
        units, language = self._cut(samples)
        pending = [n for n in range(len(units)) if n not in self._operation.done]
        while pending:
            if self._bench.stop.is_set():
                return "released"
            lengths = [units[n][1] - units[n][0] for n in pending[: BATCH + 1]]
            batch = pending[: 1 if self._careful else self._pace.batch(lengths)]
            request = Recognise(
                samples,
                tuple(_span(units[n]) for n in batch),
                language,
                mixed=not _same(language, self._operation.language),
                vocabulary=self._operation.vocabulary,
            )
            audio = sum(units[n][1] - units[n][0] for n in batch)
            started = time.monotonic()
            try:
                # Twenty times real time: a large model on a small machine takes ten.
                texts = self._ask(request, 60 + 20 * audio, f"unit {batch[0]}")
            except EngineDied:  # with several in the batch: find out with which
                continue
            self._pace.took(time.monotonic() - started, audio, len(batch))
            turn_over = self._write(dict(zip(batch, texts, strict=True)), units)
            pending = pending[len(batch) :]
            if pending and turn_over:
                return "released"
        return "done"

    def _write(self, texts: dict[int, Any], units: tuple[Unit, ...]) -> bool:
        turn_over = False
        for unit, segments in texts.items():
            write = partial(self._bench.operations.write, self._operation, unit, segments)
            turn_over |= self._bench.link.patiently(write)
            self._bench.recognised(units[unit][1] - units[unit][0])
            self._deaths = 0
        return turn_over

    def _cut(self, samples: Path) -> tuple[tuple[Unit, ...], str]:
        """Where the recording is cut, and its language; found now, unless it was before."""
        operation = self._operation
        if operation.units is not None:
            if len(operation.done) < len(operation.units):
                self._fetch(samples)
            return operation.units, operation.detected
        self._fetch(samples)
        spans, language = self._insist(Cut(samples, operation.language), QUIET, "cutting")
        units = tuple((start / RATE, end / RATE, *channel) for start, end, *channel in spans)
        self._bench.link.patiently(lambda: self._bench.operations.cut(operation, units, language))
        self._deaths = 0
        return units, language

    def _fetch(self, samples: Path) -> None:
        """Download and decode, unless it was only put aside for another's turn."""
        if samples.exists():
            return
        stored, decoded = self._drafts()
        if not stored.exists():
            part = self._bench.scratch.draft(self._operation.recording)
            self._bench.link.patiently(lambda: self._bench.operations.audio(self._operation, part))
            part.rename(stored)
        try:
            self._insist(Decode(stored, decoded), QUIET, "decoding")
        except Interrupted:
            raise
        except BaseException:  # whatever it is, perhaps a full disk: leave nothing behind
            for path in (stored, decoded, second(decoded)):
                path.unlink(missing_ok=True)
            raise
        if second(decoded).exists():
            second(decoded).rename(second(samples))
        decoded.rename(samples)
        stored.unlink()

    def _drafts(self) -> tuple[Path, Path]:
        """Where to fetch and to decode: where that was begun, if it is still there."""
        drafts, recording = self._bench.drafts, self._operation.recording
        for other in [key for key, (stored, _) in drafts.items() if not stored.exists()]:
            del drafts[other]
        if recording not in drafts:
            draft = self._bench.scratch.draft
            drafts[recording] = draft(recording), draft(recording)
        return drafts[recording]

    def _insist(self, request: Cut | Decode, seconds: float, what: str) -> Any:
        while True:
            try:
                return self._ask(request, seconds, what, self._overtaken)
            except EngineDied:
                continue

    def _ask(
        self,
        request: Cut | Decode | Recognise,
        seconds: float,
        what: str,
        unwanted: Callable[[], bool] | None = None,
    ) -> Any:
        self._give_up_if_deadly(what)
        try:
            return self._bench.child.ask(request, seconds, unwanted or self._unwanted)
        except EngineDied as error:
            self._deaths += 1
            self._careful = True
            self._killer = error
            logger.warning(
                "engine died",
                job_id=self._operation.recording,
                attempt=self._deaths,
                reason=describe(error),
            )
            self._bench.stop.wait(1.0)  # memory that ran out may come back
            raise

    def _next(self) -> str:
        """What the claim begins with, for the diagnosis of what its predecessors died of."""
        units, done = self._operation.units, self._operation.done
        if units is None:
            return "cutting"
        return next((f"unit {n}" for n in range(len(units)) if n not in done), "")

    def _give_up_if_deadly(self, what: str) -> None:
        if self._deaths >= DEATHS:
            raise Hopeless(f"the engine died {self._deaths} times on {what}") from self._killer
        if self._operation.attempts > CLAIMS:
            raise Hopeless(f"{CLAIMS} engines stopped without a result on {what}")

    def _unwanted(self) -> bool:
        """Whether to stop waiting for the child: the lease is lost, or a stop has waited enough."""
        if self._bench.stop.is_set() and self._stopping is None:
            self._stopping = time.monotonic()
        overdue = self._stopping is not None and time.monotonic() - self._stopping > GRACE
        return self._lease.lost or overdue

    def _overtaken(self) -> bool:
        """The same for what the child can put aside and go on with later."""
        return self._unwanted() or self._lease.turn_over


def _span(unit: Unit) -> tuple[int, ...]:
    start, end, *channel = unit
    return (round(start * RATE), round(end * RATE), *map(int, channel))


def _same(language: str, hint: str) -> bool:
    """Whether the sender asked for this language, however it was spelt ("ru-RU")."""
    return bool(language) and hint.strip().lower().startswith(language)
