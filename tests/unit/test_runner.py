"""Parts of the runner that need no PocketBase: idling, sight, and threads that end together."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from loguru import logger
from prometheus_client import CollectorRegistry

from worker.errors import LeaseLost, NoWork, PocketBaseRefused, PocketBaseUnavailable
from worker.jobs import Advanced, Job, Milestone, Released, Step, Waiting, Wanted
from worker.metrics import Metrics
from worker.notify import Answers
from worker.pipeline.runner import OWN_LOOK, Runner, run_all
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


class Chain(Idle):
    """A queue that gives two jobs, and then with the last result what it is told to."""

    def __init__(self, *answers: list[Job] | Exception | None) -> None:
        self.answers = list(answers)
        self.asked: list[Wanted | None] = []
        self.calls: list[str] = []

    def give_back(self) -> int:
        self.calls.append("give back")
        return 0

    def claim(self, state, lease, count):
        self.calls.append("claim")
        return [job(1), job(2)]

    def write(self, job, outcome, wanted):
        self.calls.append(job.id)
        self.asked.append(wanted)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


def job(number: int) -> Job:
    return Job(f"j{number}", Milestone.SUBMITTED, 1, f"t{number}", "", "", 0, 0, "http", "", "", "")


class Clocked(Listener):
    """Notes how long it was asked to wait, and does not."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__(threading.Event(), stop)
        self.waits: list[float] = []

    def wait(self, timeout: float) -> None:
        self.waits.append(timeout)


def runner(queue, listener, stop, folder, function=None, **settings) -> Runner:
    config = Settings(_env_file=None, telegram_enabled=False, **settings)
    context = Context(config, queue, None, stop)
    answers = Answers(None, lambda reason: None)
    metrics = Metrics(CollectorRegistry())
    return Runner(Step.CHECK, context, listener, answers, metrics, folder, 2, function)


@pytest.mark.parametrize(("poll", "pause"), [(10, OWN_LOOK), (60, 60)])
def test_idle_polls_keep_their_distance_and_part(tmp_path, poll, pause):
    """Cases: the polls of all workers lock into phase."""
    stop = threading.Event()
    listener = Clocked(stop)
    idle = runner(Idle(), listener, stop, tmp_path, poll_seconds=poll)
    for _ in range(200):
        idle.poll()
    assert all(0.8 <= wait / pause <= 1.2 for wait in listener.waits)
    assert max(listener.waits) - min(listener.waits) > pause / 5
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


class TestTheNext:
    """What comes with the last result at hand."""

    WANTED = Wanted(Milestone.SUBMITTED, 300.0, 2)

    def polled(self, queue: Chain, folder, function=lambda *_: Waiting(1.0), polls=1) -> Clocked:
        self.stop = threading.Event()
        listener = Clocked(self.stop)
        one = runner(queue, listener, self.stop, folder, function)
        for _ in range(polls):
            one.poll()
        return listener

    def test_it_is_worked_on_until_there_is_none(self, tmp_path):
        queue = Chain(None, [job(3)], [job(4), job(5)], None, [])
        listener = self.polled(queue, tmp_path)
        assert queue.calls == ["give back", "claim", "j1", "j2", "j3", "j4", "j5"]
        assert queue.asked == [None, self.WANTED, self.WANTED, None, self.WANTED]
        assert len(listener.waits) == 1, "no work: the queue's answer to the last one"

    def test_none_is_no_answer_about_work(self, tmp_path):
        listener = self.polled(Chain(None, None), tmp_path)
        assert listener.waits == []

    def test_after_a_lost_answer_it_is_not_asked_for_until_all_is_given_back(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(threading.Event, "wait", lambda *_: False)
        queue = Chain(None, PocketBaseUnavailable("finish"))
        self.polled(queue, tmp_path, polls=2)
        first = ["give back", "claim", "j1", "j2", "j2"]
        assert queue.calls == [*first, "give back", "claim", "j1", "j2"]
        assert queue.asked == [None, self.WANTED, None, None, self.WANTED]

    def test_a_lost_lease_brings_none(self, tmp_path):
        queue = Chain(None, LeaseLost("j2"))
        assert self.polled(queue, tmp_path).waits == []
        assert queue.calls == ["give back", "claim", "j1", "j2"]

    def test_it_is_not_asked_for_when_giving_back_is_due(self, tmp_path, monkeypatch):
        monkeypatch.setattr("worker.pipeline.runner.GIVE_BACK_EVERY", -1.0)
        queue = Chain()
        self.polled(queue, tmp_path, polls=2)
        assert queue.asked == [None] * 4
        assert queue.calls.count("give back") == 2

    def test_a_worker_that_stops_asks_for_none_and_gives_back_what_came(self, tmp_path):
        written = []

        class Stopping(Chain):
            def write(inner, job, outcome, wanted):  # noqa: N805 - self is the test
                written.append((job.id, type(outcome)))
                if job.id == "j2":
                    self.stop.set()  # while the answer is on its way
                return super().write(job, outcome, wanted)

        queue = Stopping(None, [job(3), job(4)])
        self.polled(queue, tmp_path)
        assert written[2:] == [("j3", Released), ("j4", Released)]
        assert queue.asked == [None, self.WANTED, None, None]


def test_what_the_queue_would_not_take_is_not_settled(tmp_path):
    """A job was put off, and its operation, which is asked for again, was removed all the same."""

    class Refusing(Chain):
        def claim(self, state, lease, count):
            return [replace(job(1), operation="o")]

        def leave(self, operation):
            self.calls.append("leave")

    queue = Refusing(PocketBaseRefused("finish", 400), None)
    stop = threading.Event()
    one = runner(queue, Clocked(stop), stop, tmp_path, lambda *_: Advanced(Milestone.TRANSCRIBED))
    one.poll()
    assert queue.calls == ["give back", "j1", "j1"]


def test_one_runners_end_ends_them_all(tmp_path):
    class Broken(Idle):
        def claim(self, state, lease, count):
            raise ZeroDivisionError("a bug")

    stop = threading.Event()
    woken = threading.Event()
    runners = {
        name: runner(queue, Listener(woken, stop), stop, tmp_path).run
        for name, queue in {"a": Idle(), "b": Broken(), "c": Idle()}.items()
    }

    def bell() -> None:  # as the wake-ups do at a stop
        stop.wait()
        woken.set()

    with pytest.raises(ZeroDivisionError):
        run_all({**runners, "bell": bell}, stop)
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
