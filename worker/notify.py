"""Answers to senders. What cannot be delivered is logged and counted, and changes nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, Protocol

from loguru import logger

from worker.errors import TranscriberError, describe
from worker.jobs import Job

Kind = Literal["text", "failure"]
"""What the sender is told: that the text is there, or that there will be none."""

INPUT_DOWN: Final = "input_down"
NO_ADDRESSEE: Final = "no_addressee"
BLOCKED: Final = "blocked"
"""The sender, or its group, does not let the bot write."""
GONE: Final = "gone"
"""The chat or its account is no more."""
NOT_REACHABLE: Final = "not_reachable"
"""Telegram could not be reached for as long as that is tried."""
UNSURE: Final = "unsure"
"""It may have arrived and may not; the sender was told how to get it again."""
ERROR: Final = "error"
"""Refused for a reason that should not happen."""

_LEVELS: Final = {
    # An input that is off is declared: worth a look. A Telegram job without a chat is a sign of a
    # spoilt record, and must not drown among those.
    NO_ADDRESSEE: "ERROR",
    ERROR: "ERROR",
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


def undelivered(job_id: str, reason: str, count: Counter, detail: str = "") -> None:
    """Log and count an answer that was not delivered. `detail`: words for the owner, no content."""
    count(reason)
    more = {"detail": detail} if detail else {}
    logger.log(
        _LEVELS.get(reason, "WARNING"),
        "answer not delivered",
        job_id=job_id,
        reason=reason,
        **more,
    )


class Answers:
    """Sends each job's answer back by the input it came from."""

    def __init__(
        self,
        telegram: Notifier | None,
        count: Counter,
        settle: Callable[[str, str], bool] = lambda job_id, reason: True,  # noqa: ARG005 - the caller's form
    ) -> None:
        """`settle` notes, by job id and reason, that an answer will not be delivered; false when
        somebody else has done so, and said so."""
        self._telegram = telegram
        self._count = count
        self._settle = settle

    def send(self, job: Job, kind: Kind) -> None:
        """Tell the sender, if it waits anywhere; never raises for want of delivery."""
        if job.source != "telegram":
            return  # who came by HTTP asks for the status
        try:
            self._deliver(job, kind)
        except Undelivered as error:
            if self._settle(job.id, error.reason):
                undelivered(job.id, error.reason, self._count)
        except Exception as error:  # noqa: BLE001 - the work is done and saved; nothing undoes that
            undelivered(job.id, ERROR, self._count, describe(error))

    def _deliver(self, job: Job, kind: Kind) -> None:
        if not job.chat_id:
            raise Undelivered(job.id, NO_ADDRESSEE)
        if self._telegram is None:
            raise Undelivered(job.id, INPUT_DOWN)
        self._telegram.deliver(job, kind)
