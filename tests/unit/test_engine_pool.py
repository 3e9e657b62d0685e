"""Real child processes that are really killed."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit import engine_children
from worker.engine.pool import Child, Interrupted
from worker.errors import EngineDied, ModelError, UnreadableMedia

ROOT = Path(__file__).parents[2]


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child(engine_children.obedient, tuple)
    yield child
    child.kill()


def _gone(pid: int, within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state == "Z":  # dead; whoever inherited it has yet to notice
            return True
        time.sleep(0.02)
    return False


def _own_memory(pid: int | None) -> int:
    """Bytes, without mapped files."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("RssAnon:")]
    return int(line.split()[1]) * 1024


def test_it_answers_and_stays(child: Child) -> None:
    assert child.ask(("echo", [1, "два"]), 5) == [1, "два"]
    assert child.ask(("pid", None), 5) == child.ask(("pid", None), 5) == child.pid != os.getpid()


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc keeps memory, and lets go"
)
def test_memory_goes_back_to_the_system_when_there_is_nothing_to_do(child: Child) -> None:
    child.ask(("litter", 3000), 30)  # 180 MB
    assert _own_memory(child.pid) > 150 << 20
    deadline = time.monotonic() + 20
    while _own_memory(child.pid) > 80 << 20:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_child_is_noticed_at_once_and_replaced(child: Child) -> None:
    first = child.ask(("pid", None), 5)
    threading.Timer(0.3, os.kill, (first, signal.SIGKILL)).start()
    started = time.monotonic()
    with pytest.raises(EngineDied, match="SIGKILL"):
        child.ask(("sleep", 30.0), 60)
    assert time.monotonic() - started < 2
    assert child.ask(("pid", None), 5) != first


def test_a_child_killed_while_idle_is_replaced(child: Child) -> None:
    first = child.ask(("pid", None), 5)
    os.kill(first, signal.SIGKILL)
    assert _gone(first)
    time.sleep(0.1)
    assert child.ask(("pid", None), 5) != first


def test_a_child_that_crashes_says_how(child: Child) -> None:
    with pytest.raises(EngineDied, match="SIGSEGV"):
        child.ask(("die", int(signal.SIGSEGV)), 5)


def test_a_child_that_hangs_is_killed(child: Child) -> None:
    pid = child.ask(("pid", None), 5)
    with pytest.raises(EngineDied, match=r"no answer in 0|killed"):
        child.ask(("sleep", 60.0), 0.4)
    assert _gone(pid)


def test_signs_of_life_put_the_bound_off(child: Child) -> None:
    assert child.ask(("steps", 1.2), 0.7) == "stepped"


def test_what_nobody_wants_any_more_is_left(child: Child) -> None:
    child.start()
    until = time.monotonic() + 0.3
    with pytest.raises(Interrupted):
        child.ask(("steps", 30.0), 60, lambda: time.monotonic() > until)
    started = time.monotonic()
    assert child.ask(("echo", "next"), 5) == "next"  # and not the answer to the question before
    assert time.monotonic() - started < 2


def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next(child: Child) -> None:
    child.start()
    until = time.monotonic() + 0.2
    with pytest.raises(Interrupted):
        child.ask(("sleep", 0.6), 60, lambda: time.monotonic() > until)
    assert child.ask(("echo", "next"), 5) == "next"


def test_failures_keep_their_kind_and_the_child_lives(child: Child) -> None:
    pid = child.ask(("pid", None), 5)
    with pytest.raises(UnreadableMedia):
        child.ask(("raise", "media"), 5)
    with pytest.raises(OSError, match="No space left") as caught:
        child.ask(("raise", "disk"), 5)
    assert "private" not in str(caught.value)
    with pytest.raises(EngineDied, match="broken"):
        child.ask(("raise", "other"), 5)
    assert child.ask(("pid", None), 5) == pid


def test_a_model_that_cannot_be_loaded_is_the_models_fault() -> None:
    with pytest.raises(ModelError, match="bad magic number"):
        Child(engine_children.modelless, tuple).start()


def test_dying_while_loading_is_no_fault_of_the_model() -> None:
    with pytest.raises(EngineDied, match="SIGKILL"):
        Child(engine_children.stillborn, tuple).start()


@pytest.mark.skipif(sys.platform != "linux", reason="the immediate end needs Linux")
@pytest.mark.parametrize("request_", [("sleep", 60.0), ("echo", 1)], ids=["busy", "idle"])
def test_it_dies_with_a_parent_that_is_killed(request_: tuple[str, object]) -> None:
    program = f"""
import threading, time
from tests.unit import engine_children
from worker.engine.pool import Child
if __name__ == "__main__":
    child = Child(engine_children.obedient, tuple)
    child.start()
    print(child.pid, flush=True)
    child.ask({request_!r}, 100)
    time.sleep(100)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout
    with parent, parent.stdout:
        pid = int(parent.stdout.readline())
        time.sleep(0.3)
        parent.kill()
        assert _gone(pid)
