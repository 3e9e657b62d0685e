"""Whose turn it is at the engines: between lengths, senders and priorities, and at what cost."""

from __future__ import annotations

import re
import time
from collections import Counter

import pytest

from tests.acceptance.bench import Bench
from tests.acceptance.service import REPOSITORY
from worker.engine.operations import HttpOperations, Operation
from worker.recognisers.local import LocalRecogniser

LECTURE = 3 * 3600
UNIT = 20.0


class Desk:
    """An engine that recognises a unit in no time, and senders with recordings of any length."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.engine = HttpOperations(bench.client, "engine@test")
        self.recogniser = LocalRecogniser(bench.client)
        self.had: Counter[str] = Counter()
        self.ended: list[str] = []
        self.names: dict[str, str] = {}

    def send(self, sender: str, seconds: float, name: str = "", **columns: object) -> str:
        """A sender's recording, submitted. Chats are senders too."""
        job = self.bench.job("normalized", **columns)
        column = "owner" if sender.startswith("user") else ""
        if column:
            self.bench.service.execute("UPDATE recordings SET owner = ? WHERE id = ?", sender, job)
        else:
            self.bench.set(job, chat_id=sender)
        self.bench.service.execute("UPDATE recordings SET duration = ? WHERE id = ?", seconds, job)
        self.bench.service.operation(job, self.bench.client)
        self.names[job] = name or sender
        return job

    def turn(self, units: int = 10_000) -> str:
        """One claim, worked on until its turn is over or so many units are done; its name."""
        operation = self.engine.claim()
        assert operation is not None
        name = self.names[operation.recording]
        if operation.units is None:
            operation = self.cut(operation)
        assert operation.units is not None
        for n in range(len(operation.units)):
            if n in operation.done:
                continue
            turn_over = self.engine.write(operation, n, [])
            self.had[name] += 1
            units -= 1
            if n + 1 < len(operation.units) and (turn_over or units == 0):
                self.engine.finish(operation, "released")
                return name
        self.engine.finish(operation, "done")
        self.ended.append(name)
        return name

    def cut(self, operation: Operation) -> Operation:
        [row] = self.bench.service.rows(
            "SELECT duration FROM recordings WHERE id = ?", operation.recording
        )
        count = max(1, round(row["duration"] / UNIT))
        units = tuple((n * UNIT, (n + 1) * UNIT) for n in range(count))
        self.engine.cut(operation, units, "ru")
        fields = {name: getattr(operation, name) for name in Operation.__slots__}
        return Operation(**{**fields, "units": units})


@pytest.fixture
def desk(bench: Bench) -> Desk:
    return Desk(bench)


def test_a_message_goes_before_any_lecture_of_anybody(desk: Desk) -> None:
    desk.send("chat1", LECTURE, "lecture")
    assert desk.turn(units=16) == "lecture"
    desk.send("chat1", 10, "own message")
    desk.send("user1", 10, "another's message")
    desk.send("user2", LECTURE, "another's lecture")
    assert {desk.turn(), desk.turn()} == {"own message", "another's message"}
    assert desk.turn(units=1) == "another's lecture"  # they had less


def test_the_holder_learns_at_its_next_word_that_its_turn_is_over(desk: Desk) -> None:
    lecture = desk.send("chat1", LECTURE)
    operation = desk.engine.claim()
    assert operation is not None
    assert operation.recording == lecture
    assert not desk.engine.renew(operation)
    desk.send("chat1", LECTURE, "its equal, which has to wait")
    assert not desk.engine.renew(operation)
    desk.send("chat1", 10, "message")
    assert desk.engine.renew(operation)  # while it is decoded or cut
    operation = desk.cut(operation)
    assert desk.engine.write(operation, 0, [])
    assert desk.turn() == "message"  # another engine takes it
    assert not desk.engine.renew(operation)
    assert not desk.engine.write(operation, 1, [])


def test_a_lease_that_ran_out_is_no_crash_and_a_slice_clears_both(desk: Desk) -> None:
    """An engine that slept or was cut off is not held against the recording as its death is."""
    desk.send("chat1", 100)

    def claimed() -> tuple[Operation, tuple[int, int]]:
        operation = desk.engine.claim()
        assert operation is not None
        return operation, (operation.attempts, operation.crashes)

    assert claimed()[1] == (1, 0)
    desk.bench.service.execute("UPDATE operations SET leased_at = '2020-01-01 00:00:00.000Z'")
    assert claimed()[1] == (2, 0)
    assert desk.engine.restart() == 1
    assert desk.engine.restart() == 0, "it held nothing any more"
    operation, counted = claimed()
    assert counted == (3, 1)
    desk.cut(operation)
    assert desk.engine.restart() == 1
    operation, counted = claimed()
    assert counted == (1, 1)
    desk.engine.write(operation, 0, [])
    desk.engine.finish(operation, "released")
    assert claimed()[1] == (1, 0)


def test_many_recordings_of_one_sender_leave_the_others_their_share(desk: Desk) -> None:
    """Cases: one sender's hundred lectures starve everyone else."""
    for _ in range(100):
        desk.send("user1", LECTURE, "crowd")
    for _ in range(3):
        desk.turn(units=15)
    for sender in ("user2", "-100500"):
        desk.send(sender, LECTURE)
    before = desk.had["crowd"]
    while sum(desk.had.values()) < 600:
        desk.turn(units=15)
    for sender in ("user2", "-100500"):
        assert desk.had[sender] > 0.3 * 600, desk.had
    assert desk.had["crowd"] - before > 0.2 * 600, "nor does it starve"


def test_nor_do_many_messages_of_one_sender(desk: Desk) -> None:
    for _ in range(200):
        desk.send("flood", 60)
    for _ in range(20):
        desk.turn()
    desk.send("user1", 60, "other's message")
    assert desk.turn() == "other's message"
    desk.send("user2", LECTURE, "other's lecture")
    turns = []
    while "other's lecture" not in turns:
        turns.append(desk.turn(units=15))
    assert len(turns) < 35  # half an hour of messages, and no more, goes before it


def test_of_one_senders_recordings_the_shorter_come_first_and_none_is_begun_in_vain(
    desk: Desk,
) -> None:
    for name, seconds in (("a", LECTURE), ("b", LECTURE), ("c", 1800), ("d", 300)):
        desk.send("user1", seconds, name)
    while len(desk.ended) < 4:
        desk.turn()
    assert desk.ended == ["d", "c", "a", "b"]


def test_the_owners_priority_is_above_all_that(desk: Desk) -> None:
    desk.send("user1", 10, "message")
    urgent = desk.send("user1", LECTURE, "lecture")
    with desk.bench.service.owner as owner:
        answer = owner.patch(f"/api/collections/jobs/records/{urgent}", json={"priority": 5})
    assert answer.status_code == 200, answer.text
    assert desk.turn(units=2) == "lecture"
    assert desk.turn(units=2) == "lecture"
    desk.send("user1", 10, "later and more urgent", priority=6)
    assert desk.turn() == "later and more urgent"


def test_a_hundred_thousand_finished_operations_change_nothing(desk: Desk) -> None:
    """Cases: claims slow down as finished rows pile up."""

    def claims() -> float:
        for _ in range(20):
            desk.send("user1", LECTURE)
        took = []
        for _ in range(20):
            started = time.perf_counter()
            assert desk.engine.claim()
            took.append(time.perf_counter() - started)
        return min(took)  # the machine may be busy with others

    service = desk.bench.service
    desk.send("user9", 10)
    service.execute("ANALYZE")
    before = claims()
    with service.database() as database:
        database.execute(
            """INSERT INTO operations (id, recording, state, sender, recognised, duration,
                 progressed_at, created, updated)
               WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
               SELECT 'row' || i, 'row' || i, 'done', 'user1', 60, 60, '2025-01-01 00:00:00.000Z',
                 '2025-01-01 00:00:00.000Z', '2025-01-01 00:00:00.000Z' FROM n"""
        )
        database.commit()
    try:
        after = claims()
        plan = [row["detail"] for row in service.rows(f"EXPLAIN QUERY PLAN {claim()}")]
        assert not [line for line in plan if re.match(r"SCAN (operations|o|x)\b", line)], plan
        assert after < 3 * before + 0.005, (before, after)
    finally:
        service.execute("DELETE FROM operations WHERE id LIKE 'row%'")


def claim() -> str:
    """The claim's own statement, as it stands in the operations' file."""
    source = (REPOSITORY / "pb" / "pb_hooks" / "lib" / "operations.js").read_text()
    constants = dict(re.findall(r"^const (\w+) =\s+[`\"]([^`]*?)[`\"]$", source, re.MULTILINE))
    found = re.search(r"`(UPDATE operations INDEXED BY [^`]*RETURNING[^`]*)`", source)
    assert found
    sql = found.group(1)
    for _ in range(3):
        for name, value in constants.items():
            sql = sql.replace(f"${{{name}}}", value)
    sql = re.sub(r"\$\{[^}]*\}", "'2026-01-01 00:00:00.000Z'", sql)
    return re.sub(r"\{:\w+\}", "1", sql)
