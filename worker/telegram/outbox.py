"""The pipeline's end of the way back: answers lie in PocketBase, written with the end of their job.

The process `telegram` takes them from there. Where that input is off nobody would: the pipeline
says so and closes them, at once and for what a killed predecessor left.
"""

from __future__ import annotations

import threading

from worker import notify
from worker.errors import ConfigurationError, PocketBaseError
from worker.jobs import Job
from worker.pocketbase.client import Client, reading


class Outbox:
    """`worker.notify.Notifier` for an input that is on: there is nothing left to do."""

    def deliver(self, job: Job, kind: notify.Kind) -> None:
        """The answer is stored, and its process was woken, when the outcome was written."""


def close(client: Client, job_id: str, reason: str) -> bool:
    """Note that a job's answer was not delivered. False when somebody has, and has said so."""
    try:
        answer = client.request(
            "POST", "/api/queue/answers/close", json={"recording": job_id, "reason": reason}
        )
        with reading("close answers"):
            return bool(answer["closed"])
    except PocketBaseError:
        return True  # the next start finds it open, and closes it


def close_left(client: Client, enabled: bool, count: notify.Counter, stop: threading.Event) -> None:
    """Tell of the answers that nobody will send: a predecessor was killed before it could."""
    pause = 0.5
    while not stop.is_set():
        try:
            answer = client.request(
                "POST",
                "/api/queue/answers/close",
                json={"all": not enabled, "reason": notify.INPUT_DOWN},
            )
            with reading("close answers"):
                closed = [(str(row["recording"]), row["chat_id"]) for row in answer["closed"]]
        except PocketBaseError:
            stop.wait(pause)
            pause = min(pause * 2, 30.0)
            continue
        except ConfigurationError:
            return  # the steps meet it too, and end the process over it
        for recording, chat_id in closed:
            reason = notify.INPUT_DOWN if chat_id else notify.NO_ADDRESSEE
            notify.undelivered(recording, reason, count)
        return
