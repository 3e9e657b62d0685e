"""Answers: to whom, and what becomes of those that cannot be delivered."""

from __future__ import annotations

from typing import get_args

import pytest
from loguru import logger

from tests.unit.test_jobs import ROW
from worker import notify
from worker.jobs import Job
from worker.metrics import UNDELIVERED
from worker.notify import Answers, Undelivered


def job(**columns) -> Job:
    return Job.from_row({**ROW, **columns})


class Way:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.told: list[tuple[str, str]] = []

    def deliver(self, job: Job, kind: notify.Kind) -> None:
        self.told.append((job.id, kind))
        if self.error:
            raise self.error


@pytest.fixture
def lines():
    records = []
    sink = logger.add(lambda message: records.append(message.record), level=0)
    yield records
    logger.remove(sink)


@pytest.mark.parametrize("kind", get_args(notify.Kind))
def test_the_sender_is_told_by_the_way_it_came(lines, kind):
    way, counted = Way(), []
    Answers(way, counted.append).send(job(), kind)
    assert way.told == [("abc", kind)]
    assert counted == lines == []


def test_who_came_by_http_is_told_nothing(lines):
    way, counted = Way(), []
    Answers(way, counted.append).send(job(source="http", chat_id=""), "text")
    assert way.told == counted == lines == []


REASONS = {
    value for name, value in vars(notify).items() if name.isupper() and isinstance(value, str)
}


def test_every_reason_has_a_label():
    """A label that no list knows would show up late on the page, and unannounced."""
    assert set(UNDELIVERED) == REASONS
    assert {"input_down", "no_addressee", "error"} <= REASONS


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_each_reason_is_counted_once_and_told_once(lines, reason):
    counted, settled = [], []
    way = Way(Undelivered("abc", reason))

    def settle(*what: str) -> bool:
        settled.append(what)
        return True

    Answers(way, counted.append, settle).send(job(), "text")
    assert counted == [reason]
    assert settled == [("abc", reason)]
    [line] = lines
    assert line["extra"] == {"job_id": "abc", "reason": reason}
    spoilt = reason in {"no_addressee", "error"}
    assert line["level"].name == ("ERROR" if spoilt else "WARNING")


def test_what_somebody_else_has_settled_is_not_told_twice(lines):
    counted = []
    Answers(None, counted.append, lambda *_: False).send(job(), "text")
    assert counted == lines == []


def test_an_unexpected_error_is_counted_and_ends_there(lines):
    counted = []
    Answers(Way(OSError(5, "input/output error", "/tmp/секрет.ogg")), counted.append).send(
        job(), "text"
    )
    assert counted == ["error"]
    assert lines[0]["level"].name == "ERROR"
    assert "секрет" not in str(lines[0]["extra"])
