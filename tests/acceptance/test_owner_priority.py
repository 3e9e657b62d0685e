"""The owner's `priority` in the panel: a whole number of a sensible size, or a clear refusal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.service import Service, tone
from tests.acceptance.test_migrations import go_back_before
from tests.acceptance.test_owner_edits import JOBS


@pytest.fixture
def job(shelf: Service, tmp_path) -> str:
    answer = shelf.user().post(("talk.wav", tone(tmp_path).read_bytes()))
    return str(answer.json()["job_id"])


@pytest.mark.parametrize("priority", [1.5, 1001, -1001, 1e300, "x", "5", [], True])
def test_what_is_no_sensible_priority_is_refused(shelf: Service, job: str, priority: Any):
    shelf.execute("UPDATE jobs SET priority = 7 WHERE id = ?", job)
    answer = shelf.owner.patch(f"{JOBS}/{job}", json={"priority": priority})
    assert answer.status_code == 400, answer.text
    assert "priority" in answer.text
    assert shelf.job(job)["priority"] == 7


@pytest.mark.parametrize(("priority", "kept"), [(1000, 1000), (-1000, -1000), (0, 0), (None, 0)])
def test_a_whole_number_is_taken(shelf: Service, job: str, priority: Any, kept: int):
    shelf.execute("UPDATE jobs SET priority = 7 WHERE id = ?", job)
    answer = shelf.owner.patch(f"{JOBS}/{job}", json={"priority": priority})
    assert answer.status_code == 200, answer.text
    assert shelf.job(job)["priority"] == kept


def test_what_stood_there_before_is_brought_to_the_nearest(own: Service, tmp_path):
    """A job with a priority that is refused now could not be edited at all."""
    own.start("media", "pb")
    user, content = own.user(), tone(tmp_path).read_bytes()
    jobs = [str(user.post(("a.wav", content)).json()["job_id"]) for _ in range(3)]
    own.stop("pb")
    go_back_before(own, "0015_priority.js")
    for job, priority in zip(jobs, (1.5, 1e300, -3), strict=True):
        own.execute("UPDATE jobs SET priority = ? WHERE id = ?", priority, job)
    own.start("pb")
    assert [own.job(job)["priority"] for job in jobs] == [1, 1000, -3]
    answer = own.owner.patch(f"{JOBS}/{jobs[1]}", json={"note": "soon"})
    assert answer.status_code == 200, answer.text
