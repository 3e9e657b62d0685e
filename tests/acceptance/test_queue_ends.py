"""Which results leave an answer for the sender, all of them in one batch."""

from __future__ import annotations

from typing import Any

from tests.acceptance.bench import Bench

RAW = {"kind": "raw", "text": "said", "segments": [], "language": "ru", "engine": "x"}
DONE = {"outcome": "advanced", "to": "done", "transcript": RAW}
FAILED = {"outcome": "failed", "error_text": "no"}
DEAD = {"outcome": "dead", "error_text": "no"}
RETRY = {"outcome": "retry", "pause": 1, "error_text": "no"}
TRANSCRIBED = {"outcome": "advanced", "to": "transcribed"}


def test_only_the_end_of_what_came_by_telegram_is_told(bench: Bench):
    """However they are mixed, whoever's recording or chat is gone, and once if they come again."""
    bench.service.execute("DELETE FROM answers")
    batch: list[dict[str, Any]] = []

    def ends(outcome: dict[str, Any], source: str = "telegram", chat: str = "7") -> str:
        job = bench.job("submitted", source, chat_id=chat, message_id=str(len(batch)))
        batch.append({"id": job, "lease_token": bench.hold(job), **outcome})
        return job

    told = {
        ends(DONE): ("text", "7"),
        ends(FAILED): ("failure", "7"),
        ends(DEAD): ("failure", "7"),
        ends(FAILED, chat=""): ("failure", ""),  # closed, and reported, as one without an addressee
    }
    quiet = [ends(outcome, "http") for outcome in (DONE, FAILED, DEAD)]
    quiet += [ends(outcome) for outcome in (RETRY, TRANSCRIBED)]
    gone, lost = ends(FAILED), ends(DONE)
    bench.service.execute("DELETE FROM recordings WHERE id = ?", gone)
    bench.hold(lost)  # by somebody else, since

    for _ in range(2):
        answer = bench.client.request("POST", "/api/queue/finish", json={"results": batch})
        assert answer == {"lost": [lost]}
        rows = bench.service.rows("SELECT recording, kind, chat_id, state FROM answers")
        assert {row["recording"]: (row["kind"], row["chat_id"]) for row in rows} == told
        assert len(rows) == len(told)
        assert {row["state"] for row in rows} == {"pending"}
    states = ["done", "failed", "dead", "submitted", "transcribed", "failed", "submitted"]
    assert [bench.row(job)["state"] for job in (*quiet, gone, lost)] == states
