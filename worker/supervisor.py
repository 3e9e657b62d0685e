"""The supervisor: starts the Procfile's processes, keeps them running, ends them in order.

Why our own: docs/decisions/0003-supervisor.md.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from worker.errors import EXIT_CONFIGURATION, ConfigurationError, Problem
from worker.guard import GRACE, Guard, kill_group

LONGEST_PAUSE = 30.0
STABLE = 60.0
"""Seconds of life after which a process counts as well: its next pause is the shortest again."""
LONGEST_LINE = 65536
GATE = ("/bin/sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh")
"""Becomes the command that follows once it is let through, or ends with the supervisor. Without
it a process could be running before the guard knows of it, and outlive a supervisor killed then."""
COLOURS = (36, 33, 32, 35, 34, 31)


@dataclass(frozen=True, slots=True)
class Command:
    """A line of the Procfile."""

    name: str
    argv: tuple[str, ...]


def parse(procfile: str) -> list[Command]:
    """The Procfile's `name: command` lines, in their order; `python` is the one that runs this.

    Raises:
        ConfigurationError: a line is not of that form, a name stands twice, a program is missing.
    """
    commands: dict[str, Command] = {}
    problems = []
    for number, line in enumerate(procfile.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, rest = (part.strip() for part in line.partition(":"))
        argv = _split(rest)
        if not (name and colon and argv) or name in commands:
            problems.append(Problem("Procfile", f"line {number}: must be a new `name: command`"))
            continue
        program = sys.executable if argv[0] == "python" else shutil.which(argv[0])
        if program is None:
            problems.append(Problem("Procfile", f"line {number}: no program {argv[0]}"))
            continue
        commands[name] = Command(name, (program, *argv[1:]))
    if problems or not commands:
        raise ConfigurationError(*problems or [Problem("Procfile", "no processes in it")])
    return list(commands.values())


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an open quotation
        return []


def pause(failures: int) -> float:
    """Seconds before a process starts again that has now failed this many times (from 1) in a row.

    1, 2, 4, ... and at most `LONGEST_PAUSE`.
    """
    return min(2.0 ** min(failures - 1, 10), LONGEST_PAUSE)


class Supervisor:
    """Runs the commands until it is told to stop or one reports a configuration error.

    The first command is what the others need: it is stopped last, when they are gone, so that
    they can still give back what they hold.
    """

    def __init__(
        self,
        commands: Sequence[Command],
        guard: Guard,
        *,
        may_end: Collection[str] = (),
        output: int = 1,
        grace: float = GRACE,
    ) -> None:
        """`may_end`: those for which exit code 0 is an end on purpose, not a death.

        `output`: the file descriptor that all output goes to. `grace`: seconds between SIGTERM
        and SIGKILL.
        """
        self._commands = commands
        self._guard = guard
        self._may_end = may_end
        self._output = output
        self._grace = grace
        self._width = max(len(each.name) for each in commands)
        self._colours = dict(zip((each.name for each in commands), itertools.cycle(COLOURS)))
        self._plain = not os.isatty(output) or "NO_COLOR" in os.environ
        self._groups: dict[str, int] = {}
        self._exit_code = 0
        self._stop = asyncio.Event()

    async def run(self, beside: Callable[[], Awaitable[None]] | None = None) -> int:
        """Run everything, and `beside` next to it; returns the service's exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                loop.add_signal_handler(number, self._told_to_stop)
        kept = [asyncio.create_task(self._keep(each), name=each.name) for each in self._commands]
        more = asyncio.ensure_future(beside()) if beside else None
        everything = asyncio.gather(*kept)  # fails at once with any that fails
        everything.add_done_callback(lambda _: self._stop.set())
        await self._stop.wait()
        if more:
            more.cancel()
        await self._end(kept[1:])
        await self._end(kept[:1])
        await everything
        return self._exit_code

    def say(self, text: str, name: str = "up") -> None:
        """A line of the supervisor's own, among those of the processes."""
        self._write(name, text.encode())

    def show(self, text: str) -> None:
        """Text for the person at the terminal, as it is."""
        self._write_all(text.encode())

    def _told_to_stop(self) -> None:
        if not self._stop.is_set():
            self.say("stopping; once more to stop at once")
            self._stop.set()
        else:
            for group in self._groups.values():
                kill_group(group, signal.SIGKILL)

    async def _keep(self, command: Command) -> None:
        failures = 0
        while not self._stop.is_set():
            started = time.monotonic()
            code = await self._live(command)
            if self._stop.is_set():
                return
            if code == EXIT_CONFIGURATION:
                self.say(f"{command.name} cannot run as it is configured: stopping")
                self._exit_code = code
                self._stop.set()
                return
            if code == 0 and command.name in self._may_end:
                return
            failures = 1 if time.monotonic() - started >= STABLE else failures + 1
            wait = pause(failures)
            self.say(f"{command.name} ended ({_how(code)}): starts again in {wait:g} s")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), wait)

    async def _live(self, command: Command) -> int:
        """One life of the process and of all that it started; its exit code, `-n` for a signal."""
        # A pipe of our own: asyncio's would put off the news of the death until whoever
        # inherited the pipe has closed it.
        reading, writing = os.pipe()
        stream = asyncio.StreamReader()
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb", 0)
        )
        closed_gate, gate = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *GATE,
                *command.argv,
                stdin=closed_gate,
                stdout=writing,
                stderr=writing,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        except OSError as error:  # no memory or no process to spare just now
            self.say(f"start {command.name}: {error.strerror}")
            pipe.close()
            os.close(gate)
            return 1
        finally:
            os.close(writing)
            os.close(closed_gate)
        self._guard.add(process.pid)
        self._groups[command.name] = process.pid
        output = asyncio.create_task(self._pass_on(command.name, stream))
        if not self._stop.is_set():  # told while it was being started: it ends at the gate
            with suppress(BrokenPipeError):
                os.write(gate, b"\n")
        os.close(gate)
        try:
            return await process.wait()
        finally:
            kill_group(process.pid, signal.SIGKILL)  # what it left behind
            del self._groups[command.name]
            self._guard.remove(process.pid)
            # Its last words; whoever left the group with the pipe in hand is not waited for.
            await asyncio.wait({output}, timeout=1)
            output.cancel()
            pipe.close()

    async def _end(self, kept: Sequence[asyncio.Task[None]]) -> None:
        """Ask these to stop, and kill those that have not after the grace."""
        for task in kept:
            if group := self._groups.get(task.get_name()):
                with suppress(ProcessLookupError):
                    os.kill(group, signal.SIGTERM)  # what it started is its own business
        if kept:
            await asyncio.wait(kept, timeout=self._grace)
        for task in kept:
            if group := self._groups.get(task.get_name()):
                self.say(f"{task.get_name()} did not stop: killed")
                kill_group(group, signal.SIGKILL)
        if kept:
            await asyncio.wait(kept)

    async def _pass_on(self, name: str, stream: asyncio.StreamReader) -> None:
        pending = b""
        while chunk := await stream.read(LONGEST_LINE):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                self._write(name, line)
            if len(pending) >= LONGEST_LINE:
                self._write(name, pending)
                pending = b""
        if pending:
            self._write(name, pending)

    def _write(self, name: str, line: bytes) -> None:
        prefix = f"{name:<{self._width}} | "
        if not self._plain:
            prefix = f"\x1b[{self._colours.get(name, 1)}m{prefix}\x1b[0m"
        self._write_all(prefix.encode() + line.rstrip(b"\r") + b"\n")

    def _write_all(self, data: bytes) -> None:
        with suppress(OSError):  # nobody reads any more; the service goes on
            while data:
                data = data[os.write(self._output, data) :]


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
