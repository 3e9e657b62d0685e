"""Claims: one job has one holder, a lease ends when it should, and only its holder writes."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from tests.acceptance.bench import TEXT, Bench, Lines, Sender
from tests.acceptance.service import REPOSITORY, WORKER_PASSWORD, wait_until
from worker.errors import LeaseLost, NoWork
from worker.jobs import (
    Advanced,
    Dead,
    Failed,
    Milestone,
    Normalised,
    Released,
    Retry,
    SentBack,
    Step,
    Waiting,
)

AGO = "strftime('%Y-%m-%d %H:%M:%fZ', 'now', '-{} seconds')"

CLAIMER = """
import sys
from worker.errors import NoWork
from worker.jobs import Milestone
from worker.pocketbase.client import Client
from worker.pocketbase.queue import Queue

url, password, name = sys.argv[1:]
queue = Queue(Client(url, lambda: password), name)
queue.transcript("nobody")  # logged in and connected
print("ready", flush=True)
for line in sys.stdin:
    try:
        print(queue.claim(Milestone.UPLOADED, 60)[0].id, flush=True)
    except NoWork:
        print("no work", flush=True)
"""


@pytest.mark.scenario("pipeline", "За задачей пришли трое разом")
def test_of_three_at_once_exactly_one_gets_the_job(bench: Bench):
    """Three processes of their own, started by one word, thirty times."""
    claimers = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIMER, bench.service.url, WORKER_PASSWORD, f"claimer-{n}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )
        for n in range(3)
    ]
    try:
        assert [each.stdout.readline() for each in claimers] == ["ready\n"] * 3
        winners = set()
        for _ in range(30):
            job = bench.job()
            for each in claimers:
                each.stdin.write("go\n")
                each.stdin.flush()
            answers = [each.stdout.readline().strip() for each in claimers]
            assert sorted(answers) == sorted([job, "no work", "no work"])
            assert bench.row(job)["attempts"] == 1
            winners.add(answers.index(job))
        assert len(winners) > 1, "the three never raced"
    finally:
        for each in claimers:
            each.kill()
            each.communicate()


def test_many_threads_share_many_jobs_without_doubles(bench: Bench):
    jobs = {bench.job() for _ in range(60)}
    got: list[str] = []
    tokens: list[str] = []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        queue = bench.queue(f"claimer-{number}")
        start.wait()
        try:
            while True:
                for job in queue.claim(Milestone.UPLOADED, 60, count=3):
                    got.append(job.id)
                    tokens.append(job.lease_token)
        except NoWork:
            return

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(jobs)
    assert len(set(tokens)) == 60, "each job of a batch has a token of its own"
    assert all(len(token) == 32 for token in tokens)


@pytest.mark.scenario("pipeline", "Захваченная задача не выдаётся второй раз")
def test_a_held_job_is_not_given_out_again(bench: Bench):
    job = bench.job()
    [claimed] = bench.queue("first").claim(Milestone.UPLOADED, 60)
    assert claimed.id == job
    with pytest.raises(NoWork):
        bench.queue("second").claim(Milestone.UPLOADED, 60)
    with pytest.raises(NoWork):
        bench.queue("first").claim(Milestone.UPLOADED, 60)
    assert bench.row(job)["lease_token"] == claimed.lease_token
    assert bench.row(job)["leased_by"] == "first"


@pytest.mark.scenario("pipeline", "Захват ушёл под работающим шагом")
def test_a_late_step_writes_nothing_and_answers_nobody(bench: Bench, lines: Lines):
    """A step outlives its lease, another one finishes: one result, one answer, no retry loop."""
    sender = Sender()
    job = bench.job("transcribed", "telegram", chat_id="7", message_id="1")
    at_work, go_on = threading.Event(), threading.Event()

    def slow(context, job, scratch):
        at_work.set()
        assert go_on.wait(20)
        return Advanced(Milestone.DONE)

    late = bench.runner(Step.FINISH, slow, telegram=sender, queue=bench.queue("late"))
    thread = threading.Thread(target=late.poll)
    thread.start()
    assert at_work.wait(10)
    bench.set(job, leased_at=AGO.format(100_000))

    other = bench.runner(
        Step.FINISH,
        lambda context, job, scratch: Failed("judged by the other"),
        telegram=sender,
        queue=bench.queue("other"),
    )
    other.poll()
    after = bench.row(job)
    assert after["state"] == "failed"
    assert sender.told == [(job, "failure")]

    go_on.set()
    thread.join(20)
    assert not thread.is_alive(), "the late step goes on trying"
    assert bench.row(job) == after
    assert sender.told == [(job, "failure")]
    assert bench.runs(Step.FINISH) == {"failed": 1, "lost": 1}
    assert [line["level"].name for line in lines.owners] == ["ERROR"]  # the other's verdict


def test_every_outcome_is_fenced_by_the_token(bench: Bench, tmp_path):
    """Held by another, freed, or finished: nothing of the row or the texts changes."""
    flac = tmp_path / "late.flac"
    flac.write_bytes(b"late")
    outcomes = [
        Advanced(Milestone.DONE, operation="late", transcript=TEXT),
        Normalised(flac, 5.0, "wav"),
        SentBack(Milestone.UPLOADED, 5.0, "late"),
        Waiting(5.0),
        Retry(5.0, "late"),
        Failed("late"),
        Dead("late"),
        Released(),
    ]
    for outcome in outcomes:
        job = bench.job()
        [late] = bench.queue("late").claim(Milestone.UPLOADED, 60)
        bench.set(job, leased_at=AGO.format(61))
        [holder] = bench.queue("holder").claim(Milestone.UPLOADED, 60)
        for write in (lambda: None, lambda h=holder: bench.queue("holder").write(h, Failed("x"))):
            write()
            before = bench.row(job)
            files = bench.service.stored_files()
            with pytest.raises(LeaseLost):
                bench.queue("late").write(late, outcome)
            assert bench.row(job) == before
            assert bench.queue().transcript(job) is None
            assert bench.service.stored_files() == files
            [recording] = bench.service.rows("SELECT * FROM recordings WHERE id = ?", job)
            assert recording["normalized"] == "n.flac"
            assert recording["duration"] == 10


@pytest.mark.scenario("pipeline", "Захват протух")
def test_an_expired_lease_lets_the_job_go_to_the_next(bench: Bench):
    job = bench.job()
    [first] = bench.queue("first").claim(Milestone.UPLOADED, 60)
    bench.set(job, leased_at=AGO.format(60.2))
    [second] = bench.queue("second").claim(Milestone.UPLOADED, 60)
    assert second.id == job
    assert second.lease_token != first.lease_token
    assert second.attempts == 2
    assert bench.row(job)["leased_by"] == "second"
    assert "first stopped without a result" in second.error_text

    # And with no clock but the database's own, in real time.
    with pytest.raises(NoWork):
        bench.queue("third").claim(Milestone.UPLOADED, 1)
    third = wait_until(lambda: claimed(bench, 1), 5, "the lease's end")
    assert third == job


@pytest.mark.scenario("pipeline", "Срок сравнивается с временем, записанным хранилищем")
def test_a_lease_time_has_the_stores_own_form_and_holds_until_the_last_moment(bench: Bench):
    job = bench.job()
    bench.queue("first").claim(Milestone.UPLOADED, 60)
    # A record that PocketBase itself saves: the form of its own times.
    owner = bench.service.owner
    answer = owner.post("/api/collections/chats/records", json={"chat_id": "-7", "admitted": True})
    assert answer.status_code == 200, answer.text
    own = answer.json()["updated"]
    leased = bench.row(job)["leased_at"]
    assert shape(leased) == shape(own) == "0000-00-00 00:00:00.000Z"
    assert leased <= own

    bench.set(job, leased_at=own)
    with pytest.raises(NoWork):
        bench.queue("second").claim(Milestone.UPLOADED, 60)
    # Same day and same second as the lease's end: only a comparison in one form gets these right.
    bench.set(job, leased_at=AGO.format(59))
    with pytest.raises(NoWork):
        bench.queue("second").claim(Milestone.UPLOADED, 60)
    bench.set(job, leased_at=AGO.format(60.05))
    assert claimed(bench, 60) == job


def claimed(bench: Bench, lease: float) -> str | None:
    try:
        return bench.queue("next").claim(Milestone.UPLOADED, lease)[0].id
    except NoWork:
        return None


def shape(time: str) -> str:
    return "".join("0" if character.isdigit() else character for character in time)
