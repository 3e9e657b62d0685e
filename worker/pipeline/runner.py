"""Drives one step: claim, run, write the outcome, answer the sender. One thread a runner."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from loguru import logger

from worker.errors import (
    LeaseLost,
    NoWork,
    PocketBaseError,
    PocketBaseRefused,
    PocketBaseUnavailable,
    describe,
    find,
    is_shortage,
)
from worker.jobs import (
    Advanced,
    Dead,
    Failed,
    Job,
    Milestone,
    Normalised,
    Outcome,
    Released,
    Retry,
    SentBack,
    Step,
    Waiting,
    Wanted,
)
from worker.logs import redact
from worker.metrics import Metrics, extension_label
from worker.notify import Answers
from worker.pipeline.backoff import with_jitter
from worker.pipeline.leases import lease_seconds
from worker.pipeline.shortage import Shortage
from worker.pipeline.steps import STEPS, Context, StepFunction
from worker.pocketbase.realtime import Listener
from worker.pocketbase.sight import Sight

ERROR_TEXT_LIMIT = 2000
"""Characters of `error_text` that are kept."""

LONGEST_REST = 60.0
"""Seconds between two tries while this machine is short of something."""

GIVE_BACK_EVERY = 60.0
"""Seconds, and up to one own look more, between two looks for jobs that the queue counts as ours
and we do not know of. A queue that had stopped may carry out a claim long after we gave up on it,
and after a first look."""

OWN_LOOK = 30.0
"""Seconds between two looks of an idle thread itself, should nobody wake it who ought to."""

_LABELS: dict[type[Outcome], str] = {
    Advanced: "ok",
    Normalised: "ok",
    Waiting: "waiting",
    Retry: "retry",
    SentBack: "retry",
    Failed: "failed",
    Dead: "dead",
}


class _Written(NamedTuple):
    """What became of a run."""

    label: str | None
    """None: not written, or given back."""
    outcome: Outcome
    """What was written, which is another than the step's where the queue would not take that."""
    jobs: list[Job] | None = None
    """What was claimed with it; None: the queue was not asked."""


class Runner:
    """Runs one step until stopped. A fault of one job is that job's; a fault of the queue waits."""

    def __init__(
        self,
        step: Step,
        context: Context,
        listener: Listener,
        answers: Answers,
        metrics: Metrics,
        scratch: Path,
        batch: int = 1,
        function: StepFunction | None = None,
        sight: Sight | None = None,
        shortage: Shortage | None = None,
    ) -> None:
        self.step = step
        self._context = context
        self._queue = context.queue
        self._listener = listener
        self._answers = answers
        self._metrics = metrics
        self._scratch = scratch
        self._function = function or STEPS[step]
        config = context.settings
        lease = lease_seconds(
            step,
            config.max_duration_seconds,
            config.proofread_timeout_seconds if config.proofread_url else 0.0,
        )
        self.wanted = Wanted(step.takes, lease, batch)
        """What it claims."""
        self._sight = sight or Sight()
        self._shortage = shortage or Shortage()
        self._rest = 0.0  # the last pause because this machine was short of something
        self._clear = float("-inf")  # when the queue last counted no job as ours

    def run(self) -> None:
        """Work until the stop, whatever happens to the queue meanwhile."""
        stop, pause = self._context.stop, 1.0
        while not stop.is_set():
            try:
                self.poll()
                pause = 1.0
            except PocketBaseError:
                self._clear = float("-inf")
                stop.wait(with_jitter(pause))
                pause = min(pause * 2, 30.0)

    def poll(self) -> None:
        """One run: claim what is there and work on it, and on what comes with the last result of
        that; where there is no more, wait to be woken.

        Raises:
            PocketBaseError: the queue did not answer.
        """
        jobs: list[Job] | None = self._claim()
        while jobs:
            for job in jobs[:-1]:
                self._work(job)
            jobs = self._work(jobs[-1], last=True)
        if jobs is not None:
            pause = max(OWN_LOOK, self._context.settings.poll_seconds)
            self._listener.wait(pause * random.uniform(0.8, 1.2))  # noqa: S311 - jitter

    def _claim(self) -> list[Job]:
        """The jobs that there are to work on."""
        try:
            with self._sight.call(PocketBaseError):
                if self._unclear():
                    # A claim whose answer was lost is a claim all the same.
                    self._queue.give_back()
                    self._clear = time.monotonic()
                wanted = self.wanted
                return self._queue.claim(wanted.state, wanted.lease_seconds, wanted.count)
        except Exception as error:
            # Only the queue's answer to this very poll can mean "no work", however explained.
            if find(error, NoWork) is None:
                raise
            return []

    def _next(self, outcome: Outcome) -> Wanted | None:
        """What to claim with the last result at hand; None: nothing. Who stops or rests takes no
        more, and who is to give back what it may hold does that first, when it holds nothing."""
        rests = isinstance(outcome, Retry) and outcome.shortage
        if rests or self._context.stop.is_set() or self._unclear():
            return None
        return self.wanted

    def _unclear(self) -> bool:
        return time.monotonic() - self._clear > GIVE_BACK_EVERY

    def _work(self, job: Job, *, last: bool = False) -> list[Job] | None:
        """Work on a job. With the result of the `last` one at hand comes what is there next: those
        jobs, none where there is no work, and None where the queue was not asked."""
        started = time.monotonic()
        scratch = self._scratch / f"job-{job.lease_token}"
        try:
            outcome = self._outcome(job, scratch)
            label, outcome, jobs = self._write(job, outcome, last=last)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if label is None:
            return jobs
        took = time.monotonic() - started
        self._metrics.runs.labels(self.step, label).inc()
        self._metrics.seconds.labels(self.step).observe(took)
        if label != "lost":
            self._settle(job, outcome)
        if isinstance(outcome, Retry) and outcome.shortage:
            self._context.stop.wait(self._rest)  # another job would fare no better
        elif label == "ok":
            self._rest = 0.0
            self._shortage.over(self.step)
        return jobs

    def _outcome(self, job: Job, scratch: Path) -> Outcome:
        limit = self._context.settings.max_attempts
        if self._context.stop.is_set():
            return Released()
        if job.attempts > limit or job.sent_back > limit:
            # The one place where a job dies: whoever claims it beyond the limit gives it no step.
            return Dead(_cut(f"{self.step} given up after {limit} attempts: {_last(job)}"))
        try:
            scratch.mkdir(parents=True)
            return self._function(self._context, job, scratch)
        except Exception as error:  # noqa: BLE001 - whatever a step raises is this job's failure
            if self._context.stop.is_set():
                return Released()
            if is_shortage(error):
                return self._short(job, error)
            return Retry(self._context.pause(job.attempts), _cut(describe(error)))

    def _short(self, job: Job, error: Exception) -> Retry:
        """This machine is short of something: the job waits for it, at no attempt's cost."""
        self._shortage.met(self.step, error)
        self._rest = min(max(1.0, 2 * self._rest), LONGEST_REST)
        return Retry(self._rest, _cut(describe(error)), cap=job.attempts - 1, shortage=True)

    def _write(self, job: Job, outcome: Outcome, *, last: bool) -> _Written:
        """Write the outcome, through any absence of PocketBase."""
        pause = 0.5
        while True:
            try:
                with self._sight.call():
                    wanted = self._next(outcome) if last else None
                    jobs = self._queue.write(job, outcome, wanted)
            except LeaseLost:
                self._log("DEBUG", "lost", job)
                return _Written("lost", outcome)
            except PocketBaseUnavailable:
                self._clear = float("-inf")  # a claim may have been made with it
                if self._context.stop.wait(pause):
                    return _Written(
                        None, outcome
                    )  # the next process of this name gives the job back
                pause = min(pause * 2, 30.0)
            except OSError as error:  # its file cannot be opened
                if not is_shortage(error):
                    outcome = Retry(self._context.pause(job.attempts), _cut(describe(error)))
                    continue
                self._shortage.met(self.step, error)
                if self._context.stop.wait(pause):
                    return _Written(None, outcome)
                pause = min(pause * 2, 30.0)
            except PocketBaseRefused as error:
                # A result that the queue will not take is this run's failure, and tried again.
                if isinstance(outcome, Retry):
                    self._log("ERROR", "refused", job, reason=describe(error))
                    return _Written("retry", outcome)  # when its lease ends
                outcome = Retry(self._context.pause(job.attempts), _cut(describe(error)))
            else:
                return _Written(self._tell(job, outcome), outcome, jobs)

    def _tell(self, job: Job, outcome: Outcome) -> str | None:
        """One line for one run: what became of the job."""
        match outcome:
            case Released():
                return None
            case Failed(error_text) | Dead(error_text):
                self._log("ERROR", _LABELS[type(outcome)], job, reason=error_text)
            case Retry(error_text=error_text, shortage=True):
                self._log("DEBUG", "retry", job, reason=error_text)
            case Retry(error_text=error_text) | SentBack(error_text=error_text):
                self._log("WARNING", "retry", job, reason=error_text)
            case Waiting():
                self._log("DEBUG", "waiting", job)
            case _:
                self._log("INFO", "ok", job)
        return _LABELS[type(outcome)]

    def _settle(self, job: Job, outcome: Outcome) -> None:
        """What follows once the outcome is saved, and never undoes it."""
        if isinstance(outcome, Normalised):
            self._metrics.normalized.labels(extension_label(outcome.extension)).inc()
        if self.step is Step.CHECK and isinstance(outcome, Advanced | Failed | Dead | SentBack):
            self._forget(job)
        if isinstance(outcome, Failed | Dead):
            self._answers.send(job, "failure")
        elif isinstance(outcome, Advanced) and outcome.to is Milestone.DONE:
            self._answers.send(job, "text")

    def _forget(self, job: Job) -> None:
        """Release what the recogniser still holds of an operation that is over."""
        if not job.operation:
            return
        try:
            gone = self._context.recogniser.cancel(job.operation)
        except Exception as error:  # noqa: BLE001 - the result is saved; the leftover is a nuisance
            logger.warning("operation not removed", job_id=job.id, reason=_cut(describe(error)))
            gone = False
        if not gone:
            with suppress(PocketBaseError):
                self._queue.leave(job.operation)

    def _log(self, level: str, outcome: str, job: Job, **fields: str) -> None:
        logger.log(
            level,
            f"{self.step} {outcome}",
            job_id=job.id,
            step=self.step,
            attempt=job.attempts,
            **fields,
        )


def _last(job: Job) -> str:
    return job.error_text or "the worker stopped each time without a result"


def _cut(text: str) -> str:
    """The text without secrets, cut to the limit with its full size named."""
    clean = redact(text)
    if len(clean) <= ERROR_TEXT_LIMIT:
        return clean
    size = f" ... ({len(clean)} characters in all)"
    return clean[: ERROR_TEXT_LIMIT - len(size)] + size


def run_all(loops: Mapping[str, Callable[[], None]], stop: threading.Event) -> None:
    """Run each in a thread of that name; return when all have ended. An error of one stops all.

    Raises:
        Exception: the first error that ended a loop.
    """
    errors: list[BaseException] = []

    def guarded(loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
            errors.append(error)
            stop.set()

    threads = [
        threading.Thread(target=guarded, args=(loop,), name=name) for name, loop in loops.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
