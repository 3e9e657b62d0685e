"""Running a function in a process of its own, which may crash, hang or swell up alone.

Decoders are large C libraries fed with strangers' files. The process that runs one has a limit of
memory and of time, no core dump, no descriptor of its parent but one pipe, and dies with it. It is
forked from a server that has everything loaded, so it starts in milliseconds, from any thread.
This contains accidents; it is no jail for code that an attacker already runs: same user, same
files.
"""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
import pickle
import resource
import signal
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any, ParamSpec, Self, TypeVar, cast

from worker.errors import Cancelled, DecoderDied, TranscriberError

P = ParamSpec("P")
T = TypeVar("T")

MEMORY = 512 * 2**20
"""Bytes of address space on top of what the loaded libraries take. Measured: 30 MB are used."""
DESCRIPTORS = 32
STARTS = 3
"""Tries to start a process: the fork server may have died since the last one."""
STOP_SECONDS = 0.1
"""How often a wait looks at `stop`."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["worker.media.preload"])
# multiprocessing looks after all its processes in passing, and two threads that reap the same one
# would take the exit code from each other.
_lock = threading.Lock()


def run(
    function: Callable[..., T],
    *args: object,
    timeout: float,
    stop: threading.Event | None = None,
    memory: int = MEMORY,
) -> T:
    """Call `function(*args)` in a fresh process and return what it returns.

    The function must be importable, its arguments and result picklable. `timeout` is in seconds.

    Raises:
        MediaError: as raised inside, of the same type.
        OSError: as raised inside, without the name of the file.
        DecoderDied: the process crashed, ran into a limit, or raised anything else.
        Cancelled: `stop` was set.
    """
    with Sandbox(memory) as sandbox:
        return sandbox.call(function, *args, timeout=timeout, stop=stop)


class Sandbox:
    """A process that runs one function after the other, until one of them kills it."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._pipe, theirs = _context.Pipe()
        with theirs:
            try:
                self._process = _start(theirs, memory)
            except BaseException:
                self._pipe.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(
        self,
        function: Callable[..., T],
        *args: object,
        timeout: float,
        stop: threading.Event | None = None,
    ) -> T:
        """As `run`, in this process. After `DecoderDied` and `Cancelled` it is gone for good."""
        deadline = time.monotonic() + timeout
        try:
            self._pipe.send((function, args, timeout))
            while not self._pipe.poll(min(STOP_SECONDS, max(0.0, deadline - time.monotonic()))):
                if stop is not None and stop.is_set():
                    self.close()
                    raise Cancelled
                if time.monotonic() >= deadline:
                    self.close()
                    raise DecoderDied(f"took longer than {timeout:g} s")
            outcome = self._pipe.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            self.close()
            if stop is not None and stop.is_set():
                raise Cancelled from None
            raise DecoderDied(self._how_it_ended()) from None
        if isinstance(outcome, _Raised):
            raise outcome.rebuilt()
        return cast(T, outcome)

    def close(self) -> None:
        """End the process, at once if it is busy."""
        self._pipe.close()
        with _lock:
            # It leaves by itself when the pipe closes, unless it is at work.
            self._process.join(0.05)
            if self._process.is_alive():
                self._process.kill()
                self._process.join(5)

    def _how_it_ended(self) -> str:
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"ended with code {code}"
        return f"ended by {signal.Signals(-code).name}"


def _start(pipe: Connection[Any, Any], memory: int) -> ForkServerProcess:
    for _ in range(STARTS - 1):
        try:
            return _start_once(pipe, memory)
        except (OSError, EOFError):  # the server died: the next start brings up another
            time.sleep(0.05)
    try:
        return _start_once(pipe, memory)
    except (OSError, EOFError) as error:
        raise DecoderDied("its process could not be started") from error


def _start_once(pipe: Connection[Any, Any], memory: int) -> ForkServerProcess:
    process = _context.Process(target=_serve, args=(pipe, memory), daemon=True)
    with _lock:
        process.start()
    return process


# From here on: inside the process.


@dataclass(frozen=True)
class _Raised:
    """An error on its way out. Pickled as it is, it would be built again from its message."""

    kind: type[BaseException]
    args: tuple[Any, ...]
    fields: dict[str, Any]

    def rebuilt(self) -> BaseException:
        error = self.kind.__new__(self.kind, *self.args)
        error.args = self.args
        error.__dict__.update(self.fields)
        return error


def _serve(pipe: Connection[Any, Any], memory: int) -> None:
    _confine(pipe.fileno(), memory)
    while True:
        try:
            function, args, timeout = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)
        # By the kernel, should the parent be unable to: an orphan or a spin in native code ends.
        signal.setitimer(signal.ITIMER_REAL, timeout + 1)
        outcome = _attempt(function, args)
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            pipe.send(outcome)
        except OSError:
            os._exit(0)


def _confine(pipe: int, memory: int) -> None:
    _die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shutdown reaches it through the parent
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # Everything inherited goes, above all the pipe that tells the fork server of a living parent.
    os.closerange(3, pipe)
    os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    space = _address_space() + memory
    resource.setrlimit(resource.RLIMIT_AS, (space, space))


def _die_with_parent() -> None:
    """Have the kernel kill this process when the fork server ends, which ends with its parent."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):  # Linux; elsewhere the timer has to do
        libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _address_space() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123 - at every start; a path object costs more
        return int(file.read().split()[0]) * resource.getpagesize()


def _attempt(function: Callable[..., object], args: tuple[object, ...]) -> object:
    try:
        return function(*args)
    except MemoryError:
        return _raised(DecoderDied("out of memory"))
    except TranscriberError as error:
        return _raised(error)
    except OSError as error:  # without the name of the file, which may be the sender's
        if error.errno in {errno.ENOMEM, errno.EMFILE}:  # limits of this process alone
            return _raised(DecoderDied(f"ran into its limits: {error.strerror}"))
        return _Raised(OSError, (error.errno, error.strerror), {})
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent has to hear of it
        at = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(at.filename)}:{at.lineno}"  # noqa: PTH119 - a piece of text, no file is looked at
        return _raised(DecoderDied(f"unexpected {type(error).__name__} at {place}"))


def _raised(error: BaseException) -> _Raised:
    return _Raised(type(error), error.args, dict(error.__dict__))
