"""The queue's value objects, and how outcomes look on the wire."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import get_args

import pytest

from worker.jobs import (
    Advanced,
    Dead,
    Failed,
    Job,
    Milestone,
    Normalised,
    Outcome,
    Released,
    Retry,
    SentBack,
    Step,
    Transcript,
    Waiting,
)
from worker.pocketbase.queue import _fields

ROW = {
    "id": "abc", "state": "submitted", "attempts": 2, "lease_token": "t", "operation": "op",
    "error_text": "", "waited": 1.5, "sent_back": 0, "created": "2026-01-01 00:00:00.000Z",
    "priority": 0, "chat_id": "7", "thread_id": "", "message_id": "1", "source": "telegram",
}  # fmt: skip

WIRE = [
    (
        Advanced(Milestone.SUBMITTED, "op", 5.0),
        {"outcome": "advanced", "to": "submitted", "operation": "op", "delay": 5.0,
         "transcript": None},
    ),
    (
        Advanced(Milestone.TRANSCRIBED, transcript=Transcript("да", [], "ru", "x/base")),
        {"outcome": "advanced", "to": "transcribed", "operation": "", "delay": 0.0,
         "transcript": {"kind": "raw", "text": "да", "segments": [], "language": "ru",
                        "engine": "x/base"}},
    ),
    (
        SentBack(Milestone.NORMALIZED, 5.0, "lost"),
        {"outcome": "sent_back", "to": "normalized", "pause": 5.0, "error_text": "lost"},
    ),
    (Waiting(5.0), {"outcome": "waiting", "delay": 5.0}),
    (Retry(5.0, "away"), {"outcome": "retry", "pause": 5.0, "error_text": "away"}),
    (Failed("no"), {"outcome": "failed", "error_text": "no"}),
    (Dead("enough"), {"outcome": "dead", "error_text": "enough"}),
    (Released(), {"outcome": "released"}),
]  # fmt: skip


@pytest.mark.parametrize(("outcome", "wire"), WIRE)
def test_an_outcome_carries_its_own_values_and_no_others(outcome, wire):
    assert _fields(outcome) == wire


def test_every_outcome_has_a_form():
    """A new one must be written somewhere, or be uploaded as normalised audio is."""
    assert {type(outcome) for outcome, _ in WIRE} | {Normalised} == set(get_args(Outcome))
    with pytest.raises(TypeError):
        _fields(Normalised(Path("x"), 1.0, "wav"))


def test_no_outcome_has_a_time_of_day():
    """Delays in seconds only: a worker's clock must not matter."""
    for kind in get_args(Outcome):
        for field in dataclasses.fields(kind):
            assert not field.name.endswith(("_at", "_time")), (kind, field.name)
            assert "datetime" not in str(field.type)


def test_a_job_is_its_row():
    job = Job.from_row(ROW)
    assert job.state is Milestone.SUBMITTED
    for field in dataclasses.fields(Job):
        assert getattr(job, field.name) == ROW[field.name]


def test_a_row_in_a_state_that_no_step_knows_is_no_job():
    with pytest.raises(ValueError, match="dead"):
        Job.from_row({**ROW, "state": "dead"})


def test_each_step_takes_a_milestone_of_its_own_and_together_they_reach_the_end():
    assert [step.takes for step in Step] == list(Milestone)[:-1]
