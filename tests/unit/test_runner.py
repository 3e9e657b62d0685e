"""Parts of the runner that need no PocketBase: idling, sight, and threads that end together."""

from __future__ import annotations

import threading
import time

import pytest
from loguru import logger
from prometheus_client import CollectorRegistry

from worker.errors import LeaseLost, NoWork, PocketBaseRefused, PocketBaseUnavailable
from worker.jobs import Step
from worker.metrics import Metrics
from worker.notify import Answers
from worker.pipeline.runner import Runner, run_all
from worker.pipeline.steps import Context
from worker.pocketbase.realtime import Listener, Wakeups
from worker.pocketbase.sight import Sight
from worker.settings import Settings


class Idle:
    """A queue without work."""

    def give_back(self) -> int:
        return 0

    def claim(self, state, lease, count):
        raise NoWork(state)


class Clocked(Listener):
    """Notes how long it was asked to wait, and does not."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__(threading.Event(), stop)
        self.waits: list[float] = []

    def wait(self, timeout: float) -> None:
        self.waits.append(timeout)


def runner(queue, listener, stop, folder, **settings) -> Runner:
    config = Settings(_env_file=None, telegram_enabled=False, **settings)
    context = Context(config, queue, None, stop)
    answers = Answers(None, lambda reason: None)
    return Runner(Step.CHECK, context, listener, answers, Metrics(CollectorRegistry()), folder)


def test_idle_polls_keep_their_distance_and_part(tmp_path):
    """Cases: the polls of all workers lock into phase."""
    stop = threading.Event()
    listener = Clocked(stop)
    idle = runner(Idle(), listener, stop, tmp_path, poll_seconds=10)
    for _ in range(200):
        idle.poll()
    assert all(8 <= wait <= 12 for wait in listener.waits)
    assert max(listener.waits) - min(listener.waits) > 2
    assert len(set(listener.waits)) > 150


def test_what_is_no_empty_poll_is_raised(tmp_path):
    class Away(Idle):
        def claim(self, state, lease, count):
            raise PocketBaseUnavailable("claim")

    stop = threading.Event()
    listener = Clocked(stop)
    with pytest.raises(PocketBaseUnavailable):
        runner(Away(), listener, stop, tmp_path).poll()
    assert listener.waits == []


def test_a_failed_claim_is_followed_by_giving_back(tmp_path):
    calls = []

    class Flaky(Idle):
        def give_back(self):
            calls.append("give back")
            return 0

        def claim(self, state, lease, count):
            calls.append("claim")
            if len(calls) == 2:
                raise PocketBaseUnavailable("claim")
            stop.set()
            raise NoWork(state)

    stop = threading.Event()
    runner(Flaky(), Clocked(stop), stop, tmp_path).run()
    assert calls == ["give back", "claim", "give back", "claim"]


def test_one_runners_end_ends_them_all(tmp_path):
    class Broken(Idle):
        def claim(self, state, lease, count):
            raise ZeroDivisionError("a bug")

    stop = threading.Event()
    runners = [
        runner(queue, Listener(threading.Event(), stop), stop, tmp_path, poll_seconds=0.05)
        for queue in (Idle(), Broken(), Idle())
    ]
    with pytest.raises(ZeroDivisionError):
        run_all(runners, stop)
    assert stop.is_set()


class TestListener:
    def test_a_wake_up_ends_the_wait_and_is_spent_by_it(self):
        woken, stop = threading.Event(), threading.Event()
        listener = Listener(woken, stop)
        woken.set()  # before the wait, as when it came while the step was at work
        started = time.monotonic()
        listener.wait(30)
        assert time.monotonic() - started < 5
        started = time.monotonic()
        listener.wait(0.1)
        assert time.monotonic() - started >= 0.1

    def test_a_stop_ends_every_wait(self):
        wakeups = Wakeups(None)
        listeners = [wakeups.listen(state) for state in ("uploaded", "submitted", "uploaded")]
        threads = [threading.Thread(target=each.wait, args=(30,)) for each in listeners]
        for thread in threads:
            thread.start()
        wakeups.stop()
        for thread in threads:
            thread.join(5)
            assert not thread.is_alive()


class TestSight:
    @pytest.fixture
    def lines(self):
        lines = []
        sink = logger.add(lambda message: lines.append(message.record["message"]), level=0)
        yield lines
        logger.remove(sink)

    AWAY, BACK = "pocketbase is away, waiting for it", "pocketbase is back"

    def fails(self, sight: Sight, error: Exception) -> None:
        with pytest.raises(type(error)), sight.call():
            raise error

    def test_each_absence_is_told_once(self, lines):
        sight = Sight()
        for _ in range(2):
            with sight.call():
                pass
            for _ in range(5):
                self.fails(sight, PocketBaseUnavailable("claim"))
            for _ in range(5):
                with sight.call():
                    pass
        assert lines == [self.AWAY, self.BACK] * 2

    def test_an_answer_of_whatever_kind_is_a_presence(self, lines):
        sight = Sight()
        self.fails(sight, PocketBaseRefused("finish", 409))
        self.fails(sight, LeaseLost("x"))
        assert lines == []
        self.fails(sight, PocketBaseUnavailable("claim"))
        self.fails(sight, LeaseLost("x"))
        assert lines == [self.AWAY, self.BACK]

    def test_a_call_from_before_the_loss_does_not_end_it(self, lines):
        """Several threads call at once; what was answered before it went proves nothing."""
        sight = Sight()
        with sight.call():
            self.fails(sight, PocketBaseUnavailable("claim"))
        assert lines == [self.AWAY]
        with sight.call():
            pass
        assert lines == [self.AWAY, self.BACK]

    def test_a_call_from_before_the_return_does_not_lose_it_again(self, lines):
        sight = Sight()
        self.fails(sight, PocketBaseUnavailable("claim"))
        late = pytest.raises(PocketBaseUnavailable)
        with late, sight.call():
            with sight.call():
                pass
            raise PocketBaseUnavailable("finish")
        assert lines == [self.AWAY, self.BACK]
