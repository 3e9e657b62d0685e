"""Threads that claim, write, die and come late, all at once, and a check of what they saw.

Leases are short enough to end under those who hold them. Whatever is claimed, written and answered
is noted down, and `tests/model/history.py` finds one line of holders for each job, or says why not.
`QUEUE_ROUNDS` names how often it is done, each time with another seed.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from math import inf
from typing import Any

import httpx
import pytest

from tests.acceptance.bench import Bench
from tests.acceptance.service import wait_until
from tests.model.history import Call, Row, faults
from worker.errors import LeaseLost, NoWork
from worker.jobs import (
    Advanced,
    Failed,
    Job,
    Milestone,
    Outcome,
    Released,
    Retry,
    SentBack,
    Transcript,
    Waiting,
    Wanted,
)

LEASE = 0.25
"""Seconds."""
JOBS = 10
THREADS = 6
STEPS = 40
ROUNDS = int(os.environ.get("QUEUE_ROUNDS", "1"))
STATES = list(Milestone)[:-1]


class Crowd:
    """Workers who do what workers do, in any order and at any moment, and what they saw."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.seed = seed
        self.jobs = [bench.job("uploaded") for _ in range(JOBS)]
        self.calls: dict[str, list[Call]] = defaultdict(list)
        self.claims: list[Job] = []
        self.seen = Counter[str]()
        self.late = ThreadPoolExecutor(8)
        self.waiting: list[Future[None]] = []
        self.notes: dict[str, str] = {}

    def work(self, number: int) -> None:
        """One worker's life: a hundred things, some of which are its death."""
        chance = random.Random(f"{self.seed}-{number}")
        worker = f"worker-{number}"
        held: list[Job] = []
        for _ in range(STEPS):
            what = chance.random()
            if held and what < 0.5:
                job = held.pop(chance.randrange(len(held)))
                outcome = self.outcome(chance, job)
                if chance.random() < 0.2:  # nobody will hear the answer, and it may come late
                    self.lose(lambda d, j=job, o=outcome: self.write(j, o, d), chance)
                if not held and chance.random() < 0.3:
                    held += self.write_and_claim(worker, job, outcome, chance.choice([1, 3]))
                elif chance.random() < 0.8:
                    self.write(job, outcome)
                if chance.random() < 0.2:
                    self.write(job, outcome)
            elif held and what < 0.6:
                time.sleep(chance.random() * 2 * LEASE)  # its lease may end meanwhile
            elif held and what < 0.7:  # it dies, and starts again
                held.clear()
                self.give_back(worker)
            elif self.claims and what < 0.78:  # a job of anybody's, from any time
                job = chance.choice(self.claims)
                self.write(job, self.outcome(chance, job))
            else:
                state = chance.choice(STATES)
                if self.seen["claim unheard"] < 5 and what > 0.97:
                    self.seen["claim unheard"] += 1
                    if held:  # with a result, of which nobody will hear either
                        job, outcome = held[0], self.outcome(chance, held[0])
                        self.lose(
                            lambda d, j=job, o=outcome: self.write_and_claim(worker, j, o, 1, d),
                            chance,
                        )
                    else:
                        self.lose(lambda d, s=state: self.claim(worker, s, 1, d), chance)
                    held.clear()
                    self.give_back(worker)
                else:
                    held += self.claim(worker, state, chance.choice([1, 1, 3]))

    def outcome(self, chance: random.Random, job: Job) -> Outcome:
        to = list(Milestone)[list(Milestone).index(job.state) + 1]
        text = Transcript(job.lease_token, [], "ru", "x") if to == Milestone.TRANSCRIBED else None
        others = [Retry(0, "no"), Released(), Waiting(0), SentBack(Milestone.UPLOADED, 0, "gone")]
        if chance.random() < 0.45:
            return Advanced(to, transcript=text)
        return Failed("no") if chance.random() < 0.05 else chance.choice(others)

    def lose(self, call: Any, chance: random.Random) -> None:
        began, delay = time.monotonic(), chance.random() * 2 * LEASE

        def later() -> None:
            time.sleep(delay)
            call(began)

        self.waiting.append(self.late.submit(later))

    # Calls, each noted down; with `lost`, as one that began then and was never answered

    def claim(self, worker: str, state: Milestone, count: int, lost: float = 0) -> list[Job]:
        queue = self.bench.queue(worker)
        if lost:
            for job_id in self.jobs:
                self.note(job_id, Call("claim", worker, lost, state=state))
        began = time.monotonic()
        try:
            jobs = queue.claim(state, LEASE, count)
        except NoWork:
            return []
        if lost:
            return []
        ended = time.monotonic()
        for job in jobs:
            call = Call("claim", worker, began, ended, job.lease_token, job.state, job.attempts)
            self.note(job.id, call)
        self.claims += jobs
        return jobs

    def write_and_claim(
        self, worker: str, job: Job, outcome: Outcome, count: int, lost: float = 0
    ) -> list[Job]:
        """As a runner does with the last job at hand: in one call, and in this order."""
        began, state = time.monotonic(), job.state
        if lost:
            unheard = Call("write", "", lost, inf, job.lease_token, outcome=named(outcome))
            self.note(job.id, unheard)
            for job_id in self.jobs:
                self.note(job_id, Call("claim", worker, lost, state=state))
        try:
            jobs = self.bench.queue(worker).write(job, outcome, Wanted(state, LEASE, count))
        except LeaseLost:
            jobs, accepted = None, False
        else:
            accepted = True
        if lost:
            return []
        ended = time.monotonic()
        self.note(
            job.id,
            Call("write", "", began, ended, job.lease_token, outcome=named(outcome),
                 accepted=accepted),
        )  # fmt: skip
        for each in jobs or ():
            call = Call("claim", worker, began, ended, each.lease_token, each.state, each.attempts)
            self.note(each.id, call)
        self.seen["claimed with a result"] += len(jobs or ())
        self.claims += jobs or ()
        return jobs or []

    def write(self, job: Job, outcome: Outcome, lost: float = 0) -> None:
        name = named(outcome)
        if lost:
            self.note(job.id, Call("write", "", lost, inf, job.lease_token, outcome=name))
        began, accepted = time.monotonic(), True
        try:
            self.bench.queue().write(job, outcome)
        except LeaseLost:
            accepted = False
        if not lost:
            ended = time.monotonic()
            call = Call("write", "", began, ended, job.lease_token, outcome=name, accepted=accepted)
            self.note(job.id, call)

    def give_back(self, worker: str) -> None:
        began = time.monotonic()
        self.bench.queue(worker).give_back()
        ended = time.monotonic()
        for job_id in self.jobs:
            self.note(job_id, Call("give_back", worker, began, ended))

    def note(self, job_id: str, call: Call) -> None:
        self.calls[job_id].append(call)
        if call.name == "write":
            self.seen["accepted" if call.accepted else "refused"] += 1
        elif call.token:
            self.seen["claimed"] += 1

    def edit(self, owner: httpx.Client, stop: threading.Event) -> None:
        """The owner, who writes a note on one job after the other."""
        number = 0
        while not stop.is_set():
            job_id = self.jobs[number % JOBS]
            number += 1
            answer = owner.patch(
                f"/api/collections/jobs/records/{job_id}", json={"note": str(number)}
            )
            assert answer.status_code == 200, answer.text
            self.notes[job_id] = str(number)

    def drain(self) -> None:
        """One worker, alone, to whom nothing happens: every job comes to its end."""

        def ended() -> bool:
            for state in STATES:
                for job in self.claim("the last", state, JOBS):
                    to = list(Milestone)[list(Milestone).index(job.state) + 1]
                    self.write(job, Advanced(to, transcript=Transcript("last", [], "ru", "x")))
            rows = self.bench.service.rows("SELECT state FROM jobs")
            return all(row["state"] in {"done", "failed"} for row in rows)

        wait_until(ended, 30, "the end of every job")


def named(outcome: Outcome) -> str:
    """An outcome as the history has it."""
    name = {Advanced: "advanced", Retry: "retry", Released: "released", Waiting: "waiting",
            SentBack: "sent_back", Failed: "failed"}[type(outcome)]  # fmt: skip
    return f"{name}:{outcome.to}" if isinstance(outcome, Advanced | SentBack) else name


@pytest.mark.parametrize("seed", range(1, ROUNDS + 1))
def test_the_writes_of_each_job_are_one_line_of_its_holders(bench: Bench, seed: int):
    crowd = Crowd(bench, seed)
    start = {job_id: Row("uploaded") for job_id in crowd.jobs}
    stop = threading.Event()
    with ThreadPoolExecutor(THREADS + 1) as pool:
        owner = pool.submit(crowd.edit, bench.service.owner, stop)
        try:
            for life in [pool.submit(crowd.work, number) for number in range(THREADS)]:
                life.result()
        finally:
            stop.set()
        owner.result()
    for call in crowd.waiting:
        call.result()
    crowd.late.shutdown()
    crowd.drain()
    rows = bench.service.rows("SELECT * FROM jobs")
    end = {
        row["id"]: Row(row["state"], row["attempts"], row["lease_token"], row["written_token"])
        for row in rows
    }
    print(dict(crowd.seen), sum(map(len, crowd.calls.values())))
    assert faults(start, crowd.calls, end, LEASE - 0.005) == []  # the store counts milliseconds

    for name, least in (("claimed", JOBS * 4), ("accepted", JOBS * 4), ("refused", 3),
                        ("claimed with a result", 3)):  # fmt: skip
        assert crowd.seen[name] >= least, crowd.seen
    assert {row["id"]: row["note"] for row in rows if row["note"]} == crowd.notes
    texts = {
        row["recording"]: row["text"] for row in bench.service.rows("SELECT * FROM transcripts")
    }
    for row in rows:
        if row["state"] == "done":
            written = {call.token for call in crowd.calls[row["id"]] if call.accepted}
            assert texts[row["id"]] in written | {"last"}
