"""Answers to senders. What cannot be delivered is logged and counted, and changes nothing else."""

from __future__ import annotations

from typing import Final, Literal, Protocol

from loguru import logger

from worker.errors import TranscriberError, describe
from worker.jobs import Job

Kind = Literal["text", "failure"]
"""What the sender is told: that the text is there, or that there will be none."""

INPUT_DOWN: Final = "input_down"
NO_ADDRESSEE: Final = "no_addressee"

_LEVELS: Final = {
    # An input that is off is declared: worth a look. A Telegram job without a chat is a sign of a
    # spoilt record, and must not drown among those.
    INPUT_DOWN: "WARNING",
    NO_ADDRESSEE: "ERROR",
}


class Undelivered(TranscriberError):
    """The sender could not be told."""

    def __init__(self, job_id: str, reason: str) -> None:
        self.job_id = job_id
        self.reason = reason
        super().__init__(f"answer to job {job_id}: {reason}")


class Notifier(Protocol):
    """One input's way back to its senders."""

    def deliver(self, job: Job, kind: Kind) -> None:
        """Tell the sender of a job.

        Raises:
            Undelivered: with the reason, when it could not be told.
        """
        ...


class Counter(Protocol):
    """Counts undelivered answers by reason."""

    def __call__(self, reason: str) -> None: ...


class Answers:
    """Sends each job's answer back by the input it came from."""

    def __init__(self, telegram: Notifier | None, count: Counter) -> None:
        self._telegram = telegram
        self._count = count

    def send(self, job: Job, kind: Kind) -> None:
        """Tell the sender, if it waits anywhere; never raises for want of delivery."""
        if job.source != "telegram":
            return  # who came by HTTP asks for the status
        try:
            self._deliver(job, kind)
        except Undelivered as error:
            self._count(error.reason)
            logger.log(
                _LEVELS.get(error.reason, "WARNING"),
                "answer not delivered",
                job_id=job.id,
                reason=error.reason,
            )
        except Exception as error:  # noqa: BLE001 - the work is done and saved; nothing undoes that
            self._count("error")
            logger.error("answer not delivered", job_id=job.id, reason=describe(error))

    def _deliver(self, job: Job, kind: Kind) -> None:
        if not job.chat_id:
            raise Undelivered(job.id, NO_ADDRESSEE)
        if self._telegram is None:
            raise Undelivered(job.id, INPUT_DOWN)
        self._telegram.deliver(job, kind)
