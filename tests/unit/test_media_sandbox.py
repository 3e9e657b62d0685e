"""A decoder may crash, hang or swell up, and takes nobody with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver
from pathlib import Path

import pytest

from tests.media_corpus import m4a, silent_video
from tests.media_inside import announce_and_hang, die_once, fail, inside, segfault, spin, swell
from worker.errors import Cancelled, DecoderDied, NoAudioTrack, TooLong, UnreadableMedia
from worker.media import sandbox
from worker.media.normalise import normalise
from worker.media.pool import Pool
from worker.media.sandbox import Sandbox


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait_for(condition: Callable[[], bool], seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


# Tests


def test_a_result_comes_back_from_another_process() -> None:
    assert sandbox.run(os.getpid, timeout=5) != os.getpid()


def test_an_error_of_ours_keeps_its_type_and_its_fields(tmp_path: Path) -> None:
    (tmp_path / "recording").write_bytes(m4a())
    (tmp_path / "video").write_bytes(silent_video())
    (tmp_path / "text").write_bytes(b"text" * 100)
    out = tmp_path / "out"

    with pytest.raises(TooLong, match=r"^read media: longer than 1 h$") as caught:
        sandbox.run(fail, TooLong, 3600, timeout=5)
    assert caught.value.limit_seconds == 3600
    with pytest.raises(NoAudioTrack, match=r"^read media: no audio track$"):
        sandbox.run(normalise, tmp_path / "video", out, 60.0, timeout=5)
    with pytest.raises(UnreadableMedia) as unreadable:
        sandbox.run(normalise, tmp_path / "text", out, 60.0, timeout=5)
    assert str(unreadable.value) == f"read media: {unreadable.value.reason}"
    assert sandbox.run(normalise, tmp_path / "recording", out, 60.0, timeout=5).duration > 2.9


def test_an_error_of_the_system_loses_the_name_of_the_file() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        sandbox.run(fail, FileNotFoundError, 2, "No such file", "секретное-слово", timeout=5)

    assert "секретное" not in str(caught.value)
    assert caught.value.filename is None


def test_any_other_error_is_a_dead_decoder_without_its_text() -> None:
    with pytest.raises(DecoderDied, match=r"unexpected ValueError at media_inside\.py") as e:
        sandbox.run(fail, ValueError, "секретное-слово", timeout=5)

    assert "секретное" not in str(e.value)


@pytest.mark.parametrize(
    ("function", "args", "reason"),
    [
        (segfault, (), "ended by SIGSEGV"),
        (os.abort, (), "ended by SIGABRT"),
        (os._exit, (0,), "ended with code 0"),
        (swell, (4 << 30,), "out of memory"),
        (spin, (), "took longer than 0.3 s"),
        (time.sleep, (60,), "took longer than 0.3 s"),
    ],
)
def test_a_process_that_ends_badly(
    function: Callable[..., object], args: tuple[object, ...], reason: str
) -> None:
    started = time.monotonic()

    with pytest.raises(DecoderDied, match=reason):
        sandbox.run(function, *args, timeout=0.3)

    assert time.monotonic() - started < 2


def test_memory_within_the_limit_is_given() -> None:
    assert sandbox.run(swell, 300 << 20, timeout=5) == 300 << 20
    with pytest.raises(DecoderDied, match="out of memory"):
        sandbox.run(swell, 100 << 20, timeout=5, memory=50 << 20)


def test_it_holds_no_descriptor_of_the_parent_and_dumps_no_core() -> None:
    with open("/etc/hostname") as held:  # noqa: PTH123 - the plain descriptor is meant
        os.set_inheritable(held.fileno(), True)
        seen = sandbox.run(inside, timeout=5)

    others = [each for each in seen["descriptors"] if "hostname" in each]
    sockets = [each for each in seen["descriptors"] if each.startswith("socket:")]
    assert others == []
    assert len(sockets) == 1  # the way out
    assert seen["core"] == (0, 0)


def test_stopping_breaks_off_a_busy_process_at_once(tmp_path: Path) -> None:
    stop, mark = threading.Event(), tmp_path / "mark"
    with ThreadPoolExecutor(1) as threads:
        work = threads.submit(sandbox.run, announce_and_hang, mark, timeout=60, stop=stop)
        assert wait_for(lambda: mark.exists() and mark.read_text() != "")
        pid, started = int(mark.read_text()), time.monotonic()
        stop.set()
        with pytest.raises(Cancelled):
            work.result(timeout=5)

    assert time.monotonic() - started < 1
    assert wait_for(lambda: not alive(pid), 1)


def test_starting_is_fast() -> None:
    """Against what a fresh interpreter needs for the same, so that a slow machine may be slow."""
    sandbox.run(os.getpid, timeout=5)
    times = []
    for _ in range(10):
        started = time.perf_counter()
        sandbox.run(os.getpid, timeout=5)
        times.append(time.perf_counter() - started)
    started = time.perf_counter()
    command = "import worker.media.preload, os; os.getpid()"
    subprocess.run([sys.executable, "-c", command], check=True)
    fresh = time.perf_counter() - started

    assert sorted(times)[5] < fresh / 3


def test_the_parent_s_program_is_not_run_again(tmp_path: Path) -> None:
    """As multiprocessing would for a console script: slow, and whatever the script does."""
    script, mark = tmp_path / "script.py", tmp_path / "mark"
    script.write_text(
        f"import os\nfrom pathlib import Path\nfrom worker.media import sandbox\n"
        f"with Path({str(mark)!r}).open('a') as file: file.write('run ')\n"
        f"if __name__ == '__main__': sandbox.run(os.getpid, timeout=20)\n"
    )
    root = str(Path(__file__).parents[2])

    subprocess.run(
        [sys.executable, script], check=True, env={**os.environ, "PYTHONPATH": root}, timeout=30
    )

    assert mark.read_text() == "run "


def test_many_threads_at_once() -> None:
    def one(number: int) -> int:
        if number % 5 == 0:
            with pytest.raises(DecoderDied, match="ended by SIGSEGV"):
                sandbox.run(segfault, timeout=10)
            return number
        return sandbox.run(abs, -number, timeout=10)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(one, range(40))) == list(range(40))


def test_nothing_is_left_behind() -> None:
    sandbox.run(os.getpid, timeout=5)
    before = len(list(Path("/proc/self/fd").iterdir()))
    pids = [sandbox.run(os.getpid, timeout=5) for _ in range(5)]
    for function in (segfault, spin):
        with pytest.raises(DecoderDied):
            sandbox.run(function, timeout=0.1)

    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 2)  # no zombie


def test_a_dead_fork_server_is_replaced() -> None:
    sandbox.run(os.getpid, timeout=5)
    server = forkserver._forkserver._forkserver_pid
    os.kill(server, signal.SIGKILL)

    assert sandbox.run(os.getpid, timeout=5) > 0
    assert forkserver._forkserver._forkserver_pid != server


def test_work_under_a_dying_fork_server_ends() -> None:
    sandbox.run(os.getpid, timeout=5)
    server = forkserver._forkserver._forkserver_pid
    with ThreadPoolExecutor(1) as threads:
        work = threads.submit(sandbox.run, spin, timeout=30)
        time.sleep(0.2)
        os.kill(server, signal.SIGKILL)
        with pytest.raises(DecoderDied, match="ended"):
            work.result(timeout=5)


PARENT = """
import sys
from pathlib import Path
from tests.media_inside import announce_and_hang
from worker.media import sandbox
sandbox.run(announce_and_hang, Path(sys.argv[1]), timeout=60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_does_not_outlive_its_parent(number: int, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, mark], cwd=Path(__file__).parents[2])
    assert wait_for(lambda: mark.exists() and mark.read_text() != "", 20)
    pid = int(mark.read_text())
    server = parent_of(pid)

    parent.send_signal(number)
    parent.wait(5)

    assert wait_for(lambda: not alive(pid), 3)
    assert wait_for(lambda: not alive(server), 3)


def test_a_signal_to_the_whole_group_leaves_the_cancelling_to_the_parent(tmp_path: Path) -> None:
    """Ctrl-C, a hang-up, a supervisor's TERM: a decode must not look like a crash because of it."""
    mark = tmp_path / "mark"
    # By a handler: an ignored signal would be inherited, and prove nothing.
    ignore = "\n".join(f"signal.signal({each}, lambda *_: None)" for each in (1, 15))
    command = PARENT.replace("import sys", f"import signal, sys\n{ignore}")
    parent = subprocess.Popen(
        [sys.executable, "-c", command, mark],
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    )
    try:
        assert wait_for(lambda: mark.exists() and mark.read_text() != "", 20)
        pid = int(mark.read_text())
        server = parent_of(pid)
        os.killpg(parent.pid, signal.SIGHUP)
        os.killpg(parent.pid, signal.SIGTERM)
        os.kill(server, signal.SIGTERM)  # as systemd does, to each process of a service
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)
        time.sleep(0.3)
        assert alive(pid)
    finally:
        parent.kill()
        parent.wait(5)


def test_a_process_is_used_again_until_it_dies() -> None:
    with Sandbox() as one:
        first = one.call(os.getpid, timeout=5)
        assert one.call(os.getpid, timeout=5) == first
        with pytest.raises(UnreadableMedia):
            one.call(fail, UnreadableMedia, "nothing", timeout=5)
        assert one.call(os.getpid, timeout=5) == first
        with pytest.raises(DecoderDied):
            one.call(segfault, timeout=5)
        with pytest.raises(DecoderDied):
            one.call(os.getpid, timeout=5)


# The pool


@pytest.fixture
def pool():
    pool = Pool(2, 5)
    yield pool
    pool.close()


def test_a_pool_starts_no_process_per_call(pool: Pool) -> None:
    assert len({pool.call(os.getpid) for _ in range(10)}) == 1


def test_an_innocent_call_is_made_once_more(pool: Pool, tmp_path: Path) -> None:
    assert pool.call(die_once, tmp_path / "mark") == "second"


def test_a_call_that_kills_is_made_twice_and_no_more(pool: Pool) -> None:
    first = pool.call(os.getpid)
    with pytest.raises(DecoderDied, match="SIGSEGV"):
        pool.call(segfault)

    assert pool.call(os.getpid) != first


def test_a_call_that_hangs_costs_only_itself() -> None:
    pool = Pool(2, 0.5)
    with ThreadPoolExecutor(1) as threads:
        pool.call(os.getpid)
        hanging = threads.submit(pool.call, spin)
        started = time.monotonic()
        while not hanging.done():
            assert pool.call(abs, -1) == 1
        with pytest.raises(DecoderDied, match="took longer"):
            hanging.result()
    assert time.monotonic() - started < 2
    pool.close()


def test_a_pool_without_a_free_process_says_so() -> None:
    pool = Pool(1, 0.4)
    with ThreadPoolExecutor(2) as threads:
        hanging = [threads.submit(pool.call, spin) for _ in range(2)]
        reasons = sorted(str(each.exception()) for each in hanging)

    assert "all processes are busy" in reasons[0] or "took longer" in reasons[0]
    assert pool.call(abs, -1) == 1
    pool.close()


def test_a_process_is_replaced_after_its_uses(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.media.pool.USES", 3)

    assert len({pool.call(os.getpid) for _ in range(6)}) == 2
