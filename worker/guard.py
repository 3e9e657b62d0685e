"""The guard: outlives a supervisor that was killed, just long enough to take its processes along.

`transcriber up` starts it and tells it, over its standard input, which process groups live:
`+123` and `-123`, a line each. The end of that input, however it came about, is the sign that the
supervisor is gone. What still lives then is asked to stop, and killed when it does not.

Not `PR_SET_PDEATHSIG`: that knows no grandchildren, only Linux, and must be set between fork and
exec, where Python promises nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

GRACE = 15.0
"""Seconds between asking and killing."""


class Guard:
    """The supervisor's end of it. Also keeps `keep_open` (a lock) held until all are gone."""

    def __init__(self, keep_open: tuple[int, ...] = (), grace: float = GRACE) -> None:
        reading, self._pipe = os.pipe()
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "worker.guard", str(grace)],
            stdin=reading,
            pass_fds=keep_open,
            start_new_session=True,
        )
        os.close(reading)

    def add(self, group: int) -> None:
        """From now on this process group must not outlive the supervisor."""
        self._tell(f"+{group}\n")

    def remove(self, group: int) -> None:
        """The group is gone."""
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """Kill what is left, if anything, and wait for the guard's own end."""
        os.close(self._pipe)
        self._process.wait()

    def _tell(self, line: str) -> None:
        with suppress(BrokenPipeError):  # somebody killed the guard; the service goes on
            os.write(self._pipe, line.encode())


def kill_group(group: int, number: int) -> bool:
    """Send a signal to the whole group; false when nothing of it is left."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # something of it runs as somebody else; nothing to do about that
        return False
    return True


def main() -> None:
    """Wait for the supervisor's end, then make an end of its processes."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        change = int(line)
        if change > 0:
            groups.add(change)
        else:
            groups.discard(-change)
    for group in groups:
        with suppress(OSError):
            os.kill(group, signal.SIGTERM)  # its leader; the leader's own children are its business
    deadline = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < deadline and any(kill_group(group, 0) for group in groups):
        time.sleep(0.05)
    for group in groups:
        kill_group(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
