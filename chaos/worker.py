"""`python -m worker NAME`, but for two things: its leases are short, and its clock may be wrong.

Leases of minutes, which are right for lectures, could never end within a run of two minutes. The
clock is shifted inside this process alone, by what the file `CHAOS_CLOCKS` says of it.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

R = TypeVar("R")


def shift_clock(seconds: float) -> None:
    """Everything in this process that asks for the time of day is told another one."""
    now, now_ns, real = time.time, time.time_ns, datetime.datetime

    class Shifted(real):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return real.now(tz) + datetime.timedelta(seconds=seconds)

        @classmethod
        def utcnow(cls) -> Any:
            return cls.now(datetime.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return cls.now()

    def of_now(function: Callable[..., R]) -> Callable[..., R]:
        return lambda moment=None: function(now() + seconds if moment is None else moment)

    time.time = lambda: now() + seconds
    time.time_ns = lambda: now_ns() + round(seconds * 1e9)
    time.localtime, time.gmtime = of_now(time.localtime), of_now(time.gmtime)
    datetime.datetime = Shifted  # its place is taken on purpose


def shorten_leases(seconds: float) -> None:
    """Before anybody imports what uses them."""
    # Late, so that the clock is shifted before they read it.
    from worker.engine import operations  # noqa: PLC0415 - after the clock is set
    from worker.jobs import Step  # noqa: PLC0415 - the same
    from worker.pipeline import leases  # noqa: PLC0415 - the same
    from worker.telegram import store  # noqa: PLC0415 - the same

    operations.LEASE = seconds
    # What decodes and searches for speech takes its time on a machine that is busy.
    heavy = {Step.NORMALISE, Step.SUBMIT}
    leases.lease_seconds = lambda step, *_: seconds * (2.5 if step in heavy else 1)
    store.LEASE = seconds


def main() -> int:
    name = sys.argv[1]
    with suppress(OSError, ValueError):
        if shift := json.loads(Path(os.environ["CHAOS_CLOCKS"]).read_text()).get(name):
            shift_clock(float(shift))
    if name != "pb":
        shorten_leases(float(os.environ["CHAOS_LEASE"]))
    from worker.__main__ import main as run  # noqa: PLC0415 - the clock is shifted before

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
