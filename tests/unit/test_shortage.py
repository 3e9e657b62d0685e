"""A machine that is out of something: told from every other fault, and waited for."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from loguru import logger
from prometheus_client import CollectorRegistry

from worker.engine.serve import Server
from worker.errors import DecoderDied, PocketBaseUnavailable, is_shortage
from worker.jobs import Job, Milestone, Outcome, Released, Retry, Step, Waiting, Wanted
from worker.media import sandbox
from worker.metrics import Metrics
from worker.notify import Answers
from worker.pipeline.runner import LONGEST_REST, Runner
from worker.pipeline.steps import Context
from worker.pocketbase.realtime import Listener
from worker.settings import Settings
from worker.telegram.poll import Poller

FULL = OSError(errno.ENOSPC, "No space left on device")


def caused(outer: BaseException, inner: BaseException) -> BaseException:
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    "error",
    [
        FULL,
        OSError(errno.EDQUOT, "Quota exceeded"),
        OSError(errno.EMFILE, "Too many open files"),
        OSError(errno.ENFILE, "Too many open files in system"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        PocketBaseUnavailable("POST /api/queue/finish", 507),
        caused(PocketBaseUnavailable("GET"), caused(httpx.ConnectError("x"), OSError(24, "x"))),
        caused(DecoderDied("its process could not be started"), OSError(errno.ENOMEM, "x")),
    ],
)
def test_a_shortage_is_seen_at_any_depth(error):
    assert is_shortage(error)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "Input/output error"),
        OSError("no number"),
        FileNotFoundError(errno.ENOENT, "x"),
        PocketBaseUnavailable("POST", 500),
        PocketBaseUnavailable("POST"),
        DecoderDied("out of memory"),
        MemoryError(),
    ],
)
def test_another_fault_is_none(error):
    assert not is_shortage(error)


def out_of(number: int) -> None:
    raise OSError(number, os.strerror(number))


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EMFILE])
def test_limits_of_a_decoder_are_not_the_machines(number):
    """Else a bomb of a file would be tried for ever."""
    with pytest.raises(DecoderDied, match="ran into its limits"):
        sandbox.run(out_of, number, timeout=20)


def test_a_full_disk_under_a_decoder_is_the_machines():
    with pytest.raises(OSError, match="No space") as caught:
        sandbox.run(out_of, errno.ENOSPC, timeout=20)
    assert is_shortage(caught.value)


class Stop(threading.Event):
    """Notes for how long a runner rests, and does not."""

    def __init__(self) -> None:
        super().__init__()
        self.rests: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.rests.append(timeout or 0.0)
        return self.is_set()


class OneJob:
    """A queue with the same job at every claim."""

    def __init__(self) -> None:
        self.written: list[Outcome] = []
        self.asked: list[Wanted | None] = []
        self.faults: list[Exception] = []

    def give_back(self) -> int:
        return 0

    def claim(self, state, lease, count):
        row = dict.fromkeys(("operation", "error_text", "source", "chat_id", "thread_id"), "")
        return [Job("j", Milestone.UPLOADED, 3, "t", waited=0, sent_back=0, message_id="", **row)]

    def write(self, job, outcome, wanted):
        if self.faults:
            raise self.faults.pop()
        self.written.append(outcome)
        self.asked.append(wanted)


@pytest.fixture
def lines():
    said: list[tuple[str, str]] = []
    sink = logger.add(lambda m: said.append((m.record["level"].name, m.record["message"])), level=0)
    yield said
    logger.remove(sink)


def runner(queue: OneJob, stop: Stop, folder: Path, function) -> Runner:
    config = Settings(_env_file=None, telegram_enabled=False)
    context = Context(config, queue, None, stop)
    listener = Listener(threading.Event(), stop)
    return Runner(Step.NORMALISE, context, listener, Answers(None, lambda reason: None),
                  Metrics(CollectorRegistry()), folder, function=function)  # fmt: skip


def test_a_step_rests_longer_each_time_and_says_so_once(tmp_path, lines):
    queue, stop = OneJob(), Stop()
    short = [True] * 9

    def function(context, job, scratch):
        if short and short.pop():
            raise FULL
        return Waiting(1.0)

    one = runner(queue, stop, tmp_path, function)
    for _ in range(9):
        one.poll()
    assert all(isinstance(each, Retry) and each.cap == 2 for each in queue.written)
    assert queue.asked == [None] * 9  # who rests leaves the next ones to others
    assert stop.rests == [1, 2, 4, 8, 16, 32, LONGEST_REST, LONGEST_REST, LONGEST_REST]
    assert [each.pause for each in queue.written] == stop.rests
    told = [message for level, message in lines if level == "WARNING"]
    assert told == ["this machine is short of something, waiting"]


def test_another_fault_spends_an_attempt_as_ever(tmp_path, lines):
    queue = OneJob()

    def function(context, job, scratch):
        raise OSError(errno.EIO, "Input/output error")

    runner(queue, Stop(), tmp_path, function).poll()
    [outcome] = queue.written
    assert isinstance(outcome, Retry)
    assert outcome.cap is None
    assert ("WARNING", "normalise retry") in lines


def test_a_result_is_written_once_there_is_room_for_that(tmp_path, lines):
    """The result's own file cannot be opened: it is not made anew, nor is the thread lost."""
    queue, stop = OneJob(), Stop()
    queue.faults = [OSError(errno.EMFILE, "Too many open files")] * 3
    runner(queue, stop, tmp_path, lambda context, job, scratch: Waiting(1.0)).poll()
    assert queue.written == [Waiting(1.0)]
    assert [level for level, _ in lines].count("WARNING") == 1


def test_a_result_whose_file_is_gone_is_made_again(tmp_path):
    queue = OneJob()
    queue.faults = [FileNotFoundError(errno.ENOENT, "No such file")]
    runner(queue, Stop(), tmp_path, lambda context, job, scratch: Waiting(1.0)).poll()
    [outcome] = queue.written
    assert isinstance(outcome, Retry)
    assert outcome.error_text == "[Errno 2] No such file"


def test_a_stop_while_waiting_leaves_the_job_to_the_next_process(tmp_path):
    queue, stop = OneJob(), Stop()
    queue.faults = [FULL] * 3
    stop.set()
    runner(queue, stop, tmp_path, lambda context, job, scratch: Released()).poll()
    assert queue.written == []


def test_an_engine_says_once_what_it_waits_for():
    heard: list[tuple[str, str]] = []
    sink = logger.add(
        lambda m: heard.append((m.record["level"].name, m.record["extra"]["reason"])), level=0
    )
    try:
        server = Server(SimpleNamespace(stop=Stop()), "x", None, 1.0)
        for error in (
            OSError("No space left on device"),
            FULL,
            OSError(5, "I/O error", "/private"),
        ):
            for _ in range(2):
                server._pause("operation given back", error)
    finally:
        logger.remove(sink)
    full, broken = "OSError: No space left on device", "OSError: I/O error"
    assert heard == [("WARNING", full), *[("DEBUG", full)] * 3, ("WARNING", broken),
                     ("DEBUG", broken)]  # fmt: skip


def test_a_telegram_message_waits_for_room_however_long():
    class Times:
        fault = 3600.0

    poller = Poller.__new__(Poller)
    poller._times, poller._give_up_after = Times(), 60.0
    assert poller._patience(FULL) == float("inf")
    assert poller._patience(PocketBaseUnavailable("POST", 507)) == float("inf")
    assert poller._patience(OSError(errno.EIO, "x")) == 3600
    assert poller._patience(PocketBaseUnavailable("POST", 500)) == 3600
