"""The supervisor, with real processes: restarts, exit code 78, the order of a stop, no orphans."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from worker.errors import ConfigurationError
from worker.supervisor import LONGEST_PAUSE, Supervisor, parse, pause

DRIVER = """
import asyncio, os, sys
from worker import supervisor
from worker.guard import Guard
commands = supervisor.parse(open("Procfile").read())
grace = float(sys.argv[1])
supervisor.STABLE = float(os.environ.get("STABLE", "60"))
guard = Guard(grace=grace)
async def serve():
    return await supervisor.Supervisor(commands, guard, may_end=sys.argv[2:], grace=grace).run()
code = asyncio.run(serve())
guard.close()
sys.exit(code)
"""
STAYS = "while :; do sleep 0.02; done"


def until(condition: Callable[[], object], limit: float = 10.0) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.01)


def alive(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


class Service:
    """The supervisor in a process of its own, in a folder that its processes write to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes]

    def start(self, *lines: str, grace: float = 10.0, may_end: tuple[str, ...] = ()) -> None:
        (self.folder / "Procfile").write_text("\n".join(lines) + "\n")
        with (self.folder / "output").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", DRIVER, str(grace), *may_end],
                cwd=self.folder,
                stdout=output,
                stderr=output,
            )

    def output(self) -> bytes:
        return (self.folder / "output").read_bytes()

    def pids(self, name: str) -> list[int]:
        """What a process has written of its own pids, oldest first."""
        path = self.folder / name
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(10)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path)
    yield service
    if service.process.poll() is None:
        service.process.kill()
        service.process.wait()


def sh(name: str, script: str) -> str:
    return f"{name}: sh -c '{script}'"


def test_output_is_prefixed_line_by_line_whatever_the_bytes(service):
    service.start(
        sh("web", r'printf "one\ntw\377o\r\nrest"; exec sleep 60'),
        sh("worker", "echo aside >&2; exec sleep 60"),
        grace=1,
    )
    until(lambda: b"aside" in service.output() and b"tw\xffo" in service.output())
    assert service.end() == 0
    lines = service.output().split(b"\n")
    for line in (b"web    | one", b"web    | tw\xffo", b"web    | rest", b"worker | aside"):
        assert line in lines


def test_a_killed_process_starts_again_and_what_it_had_started_is_gone(service):
    service.start(sh("web", f"sleep 60 & echo $! >> inner; echo $$ >> outer; {STAYS}"), grace=1)
    until(lambda: service.pids("outer"))
    outer, inner = service.pids("outer")[0], service.pids("inner")[0]
    os.kill(outer, signal.SIGKILL)
    until(lambda: len(service.pids("outer")) == 2)
    assert not alive(inner)
    assert b"web ended (SIGKILL): starts again in 1 s" in service.output()


def test_an_ordinary_end_is_a_death_too(service):
    service.start(sh("web", "echo $$ >> pids; [ $(wc -l < pids) = 2 ] || exit 0; exec sleep 60"))
    until(lambda: len(service.pids("pids")) == 2)
    assert b"web ended (exit code 0)" in service.output()


def test_the_pause_grows_with_each_failure(service):
    service.start(sh("web", "exit 3"))
    until(lambda: b"again in 2 s" in service.output())
    assert b"again in 1 s" in service.output()


def test_a_long_life_makes_the_pause_short_again(service, monkeypatch):
    monkeypatch.setenv("STABLE", "0.1")
    service.start(sh("web", "sleep 0.2; exit 3"))
    until(lambda: service.output().count(b"again in ") == 2)
    assert service.output().count(b"again in 1 s") == 2


def test_one_told_to_stop_while_it_is_being_started_stops(monkeypatch, capfd):
    class NoGuard:
        add = remove = lambda self, group: None

    service: Supervisor

    async def meanwhile(*arguments, **options):
        process = await start(*arguments, **options)
        service._told_to_stop()
        await asyncio.sleep(0.1)  # the others are told now; this one is not known yet
        return process

    async def run() -> int:
        nonlocal service
        service = Supervisor(parse(sh("web", STAYS)), NoGuard(), grace=60)
        return await asyncio.wait_for(service.run(), 10)

    start = asyncio.create_subprocess_exec
    monkeypatch.setattr(asyncio, "create_subprocess_exec", meanwhile)
    assert asyncio.run(run()) == 0


def test_one_that_may_end_is_not_started_again_and_the_rest_stays(service):
    service.start(
        sh("web", f"echo $$ >> web; {STAYS}"),
        sh("bot", "echo $$ >> bot"),
        may_end=("bot",),
    )
    until(lambda: service.pids("bot") and not alive(service.pids("bot")[0]))
    time.sleep(1.3)  # longer than the pause after which it would be there again
    assert len(service.pids("bot")) == 1
    assert alive(service.pids("web")[0])
    assert b"bot ended" not in service.output()
    assert service.end() == 0


def test_a_configuration_error_of_one_ends_all_with_its_exit_code(service):
    service.start(
        sh("web", f'trap "echo web stopped; exit 0" TERM; echo $$ >> web; {STAYS}'),
        sh("worker", "while ! [ -e web ]; do sleep 0.01; done; exit 78"),
    )
    assert service.process.wait(10) == 78
    assert b"web stopped" in service.output()
    assert b"worker cannot run as it is configured" in service.output()
    assert not alive(service.pids("web")[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_is_stopped_when_the_others_are_gone(service, number):
    def stops(name: str, slowly: str) -> str:
        trap = f'trap "sleep {slowly}; echo {name} >> order; exit 0" TERM'
        return sh(name, f"{trap}; echo $$ >> {name}; {STAYS}")

    service.start(stops("pb", "0"), stops("worker", "0.3"))
    until(lambda: service.pids("pb") and service.pids("worker"))
    assert service.end(number) == 0
    assert (service.folder / "order").read_text().split() == ["worker", "pb"]
    assert b"killed" not in service.output()


STUBBORN = f'trap "" TERM; sleep 60 & echo $! >> pids; echo $$ >> pids; {STAYS}'


def test_one_that_does_not_stop_is_killed_with_all_it_started(service):
    service.start(sh("web", STUBBORN), grace=0.3)
    until(lambda: len(service.pids("pids")) == 2)
    assert service.end() == 0
    assert not any(map(alive, service.pids("pids")))
    assert b"web did not stop: killed" in service.output()


def test_a_second_interrupt_hurries(service):
    service.start(sh("web", STUBBORN), sh("worker", STUBBORN), grace=60)
    until(lambda: len(service.pids("pids")) == 4)
    service.process.send_signal(signal.SIGINT)
    until(lambda: b"stopping" in service.output())
    assert service.end(signal.SIGINT) == 0
    assert not any(map(alive, service.pids("pids")))


def test_nothing_outlives_a_supervisor_that_was_killed(service):
    service.start(sh("web", STUBBORN), sh("worker", f"echo $$ >> pids; {STAYS}"), grace=0.3)
    until(lambda: len(service.pids("pids")) == 3)
    service.process.kill()
    until(lambda: not any(map(alive, service.pids("pids"))))


def test_what_outlives_a_killed_supervisor_is_asked_before_it_is_killed(service):
    service.start(sh("web", f'trap "echo 1 >> asked; exit 0" TERM; echo $$ >> pids; {STAYS}'))
    until(lambda: service.pids("pids"))
    service.process.kill()
    until(lambda: not alive(service.pids("pids")[0]))
    assert service.pids("asked")


def test_it_goes_on_when_nobody_reads_its_output(service, tmp_path):
    (tmp_path / "Procfile").write_text(sh("web", f"echo a; echo $$ >> web; echo b; {STAYS}"))
    service.process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, "1"], cwd=tmp_path, stdout=subprocess.PIPE
    )
    service.process.stdout.close()
    (tmp_path / "web").touch()
    until(lambda: (tmp_path / "web").read_text().endswith("\n"))  # it is there before its line is
    web = int((tmp_path / "web").read_text())
    assert service.end() == 0
    assert not alive(web)


def test_the_procfile_of_the_service_reads_as_designed():
    procfile = Path(__file__).parents[2] / "Procfile"
    commands = parse(procfile.read_text())
    names = ["pb", "media", "pipeline", "engine", "telegram"]
    assert [command.name for command in commands] == names
    assert [command.argv for command in commands] == [
        (sys.executable, "-m", "worker", name) for name in names
    ]


def test_every_bad_line_of_a_procfile_is_named():
    with pytest.raises(ConfigurationError) as caught:
        parse("# fine\n\nweb: true\nno command\nweb: true\nx: no-such-program\ny: sh -c 'open\n")
    assert [problem.message.partition(":")[0] for problem in caught.value.problems] == [
        "line 4",
        "line 5",
        "line 6",
        "line 7",
    ]
    with pytest.raises(ConfigurationError):
        parse("\n")


def test_pauses_double_up_to_the_longest():
    assert [pause(n) for n in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]
    assert pause(10**9) == LONGEST_PAUSE
