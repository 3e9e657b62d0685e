"""The process `pipeline`: the steps, each in threads of its own."""

from __future__ import annotations

import shutil
import threading
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Final

from worker import names, secrets
from worker.jobs import Step
from worker.metrics import Metrics
from worker.notify import Answers
from worker.pipeline import leftovers
from worker.pipeline.lookout import Lookout
from worker.pipeline.runner import Runner, run_all
from worker.pipeline.shortage import Shortage
from worker.pipeline.steps import Context
from worker.pocketbase.client import Client
from worker.pocketbase.queue import Queue
from worker.pocketbase.realtime import Wakeups
from worker.pocketbase.sight import Sight
from worker.proofreading.proofreader import Proofreader
from worker.recognisers.choice import Recognisers
from worker.settings import Settings
from worker.telegram import outbox

THREADS: Final = {Step.NORMALISE: 2, Step.SUBMIT: 1, Step.CHECK: 1, Step.FINISH: 1}
"""Normalising has two, so that a long recording does not hold up a short one."""
BATCHES: Final = {Step.NORMALISE: 1, Step.SUBMIT: 8, Step.CHECK: 8, Step.FINISH: 8}
"""How many jobs a claim takes at once, where each is a matter of milliseconds."""
PROOFREADERS: Final = 8
"""Threads that finish, one job at a time, where texts are proofread: they mostly wait."""


def threads(step: Step, settings: Settings) -> tuple[int, int]:
    """How many threads a step has, and how many jobs each claims at once."""
    if settings.recognisers != ("local",) and step in {Step.SUBMIT, Step.CHECK}:
        # Handing a recording to a remote recogniser takes minutes, and its answer may be slow.
        return (settings.recogniser_parallel if step is Step.SUBMIT else 2), 1
    if settings.proofread_url and step is Step.FINISH:
        return PROOFREADERS, 1
    return THREADS[step], BATCHES[step]


def run(settings: Settings, stop: threading.Event) -> None:
    """Work until the stop; then give back what is held."""
    scratch = settings.folders.run / "pipeline"
    with (
        names.hold(settings, "pipeline") as name,
        Client(settings.url, lambda: secrets.worker_password(settings)) as client,
        Proofreader(settings) if settings.proofread_url else nullcontext() as proofreader,
        Recognisers(settings, client, stop, metrics := Metrics()) as recogniser,
    ):
        shutil.rmtree(scratch, ignore_errors=True)  # what a killed predecessor left
        scratch.mkdir(parents=True)
        metrics.show()
        wakeups = Wakeups(client)
        wakeups.start()
        sight, shortage = Sight(), Shortage()
        answers = _answers(settings, client, metrics, stop)
        base = Context(settings, Queue(client, name), recogniser, stop, proofreader)
        runners = [
            Runner(
                step,
                # A name for each thread: what one of them gives back is its own alone.
                replace(base, queue=Queue(client, f"{step}-{number}.{name}")),
                wakeups.listen(step.takes),
                answers,
                metrics,
                scratch,
                batch,
                sight=sight,
                shortage=shortage,
            )
            for step in Step
            for count, batch in [threads(step, settings)]
            for number in range(count)
        ]
        listener = wakeups.listen("leftovers")
        threading.Thread(target=leftovers.run, args=(base, listener), daemon=True).start()
        threading.Thread(target=_end, args=(stop, wakeups, proofreader), daemon=True).start()
        claims = list(dict.fromkeys(each.wanted for each in runners))
        lookout = Lookout(base.queue, wakeups, claims, settings.poll_seconds, sight, stop)
        loops = {f"{each.step}-{number}": each.run for number, each in enumerate(runners)}
        run_all({**loops, "lookout": lookout.run}, stop)


def _answers(
    settings: Settings, client: Client, metrics: Metrics, stop: threading.Event
) -> Answers:
    enabled = settings.telegram_enabled

    def count(reason: str) -> None:
        metrics.undelivered.labels(reason).inc()

    threading.Thread(
        target=outbox.close_left, args=(client, enabled, count, stop), daemon=True
    ).start()
    return Answers(outbox.Outbox() if enabled else None, count, partial(outbox.close, client))


def _end(stop: threading.Event, wakeups: Wakeups, proofreader: Proofreader | None) -> None:
    stop.wait()
    wakeups.stop()
    if proofreader:
        proofreader.close()
