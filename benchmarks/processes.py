"""What processes hold, and crews of processes that work for a set time."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Member = Callable[[Callable[[], object], float], tuple[int, float]]
"""From the gate to wait at and how many seconds to work to what was done and CPU seconds spent."""


def tree(pid: int) -> Iterable[int]:
    """The process and whatever descends from it."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for task in Path(f"/proc/{pid}/task").iterdir():
            if task.name != str(pid):
                children += (task / "children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in children:
        yield from tree(int(child))


def private(pid: int) -> int:
    """Bytes of memory that are this process's own: mapped files are the kernel's to drop."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields.get("RssAnon", "0 kB").split()[0]) * 1024


def crew(size: int, seconds: float, member: Member) -> dict[str, float]:
    """Fork so many, let them go at one moment: `done`, and CPU seconds spent in `cpu`."""
    context = multiprocessing.get_context("fork")
    gate = context.Barrier(size)
    answers: Any = context.SimpleQueue()

    def body() -> None:
        answers.put(member(gate.wait, seconds))

    processes = [context.Process(target=body) for _ in range(size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = [answers.get() for process in processes if process.exitcode == 0]
    assert len(found) == size, [process.exitcode for process in processes]
    return {"done": sum(each for each, _ in found), "cpu": sum(each for _, each in found)}


def working(seconds: float, one: Callable[[], int]) -> tuple[int, float]:
    """Do it until the time is over: what was done, and CPU seconds spent."""
    spent, end, done = time.process_time(), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        done += one()
    return done, time.process_time() - spent


class Side:
    """A process that does on request what it serves: a single-threaded one that may fork."""

    def __init__(self, python: str, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [python, "-m", module, *arguments],
            cwd=Path(__file__).resolve().parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, do: str, **named: Any) -> Any:
        """Its answer."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"do": do, **named}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{do}: the other side ended")
        return json.loads(line)

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve(**services: Callable[..., Any]) -> None:
    """The other end of a `Side`."""
    for line in sys.stdin:
        named = json.loads(line)
        answer = services[named.pop("do")](**named)
        print(json.dumps(answer), flush=True)
