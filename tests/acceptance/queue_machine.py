"""The real queue and the model side by side: each call goes to both, and both must say the same.

Time is moved in the database itself: what lies a while back lies further back. The lengths are
chosen so that no sum of jumps comes within minutes of a lease or a pause, on slow machines too.
"""

from __future__ import annotations

from typing import Any

from tests.acceptance.bench import Bench
from tests.model.rows import Answer, Database, Job, Operation, Outcome
from tests.model.rules import Rules
from worker import jobs
from worker.engine.operations import HttpOperations
from worker.errors import LeaseLost, NoWork, PocketBaseRefused
from worker.recognisers.base import Finished, Refused, Running, Unknown, Verdict
from worker.recognisers.local import LocalRecogniser

LEASE = 60
PAUSE = 45
JUMPS = (7, 70)
"""Minutes."""

TIMES = {
    "jobs": ("leased_at", "not_before", "submitted_at"),
    "answers": ("leased_at", "not_before", "failing_since"),
    "operations": ("leased_at", "progressed_at"),
}
JOBS = "/api/collections/jobs/records"


class Machine:
    """Two queues, which are to be one."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.service = bench.service
        self.owner = bench.service.owner
        self.rules = Rules()
        self.recogniser = LocalRecogniser(bench.client)
        self.reset()

    def reset(self) -> None:
        with self.service.database() as database:
            for table in ("answers", "segments", "operations", "transcripts", "jobs", "recordings"):
                database.execute(f"DELETE FROM {table}")
            database.commit()
        self.db = Database()
        self.names: dict[int, str] = {0: ""}
        """What the model's tokens and operations are called in the real queue."""
        self.answers: dict[str, tuple[str, int]] = {}
        """The model's keys of the real answers."""
        self.stamps: dict[str, tuple[int, str]] = {}
        self.said = self.made = 0

    # Jobs

    def add(self, state: str, telegram: bool) -> str:
        job_id = self.bench.job(state, "telegram" if telegram else "http")
        chat = "7" if telegram else ""
        self.made += 1
        made = f"2026-01-01 00:{self.made:02}:00.000Z"
        self.bench.set(job_id, chat_id=chat, created=made)
        self.db = self.db._replace(jobs=(*self.db.jobs, Job(job_id, state, state, chat=chat)))
        return job_id

    def jump(self, minutes: int) -> None:
        with self.service.database() as database:
            for table, columns in TIMES.items():
                for column in columns:
                    database.execute(
                        f"UPDATE {table} SET {column} = "
                        f"strftime('%Y-%m-%d %H:%M:%fZ', {column}, '-{minutes} minutes') "
                        f"WHERE {column} <> ''"
                    )
            database.commit()
        self.db = self.db._replace(now=self.db.now + minutes)

    def claim(self, state: str, worker: str, count: int) -> list[tuple[Job, jobs.Job]]:
        queue = self.bench.queue(worker)
        try:
            real = queue.claim(jobs.Milestone(state), LEASE * 60, count)
        except NoWork:
            real = []
        self.db, given = self.rules.claim(self.db, state, LEASE, count, worker)
        return self.given(real, given)

    def given(self, real: list[jobs.Job], given: tuple[Job, ...]) -> list[tuple[Job, jobs.Job]]:
        """What both queues gave out, which is to be the same."""
        assert [job.id for job in real] == [job.id for job in given]
        for job, model in zip(real, given, strict=True):
            self.names[model.token] = job.lease_token
            assert (job.attempts, job.sent_back) == (model.attempts, model.sent_back)
            assert (job.state, job.error_text) == (model.state, model.error)
            assert job.operation == self.names[model.operation]
        return list(zip(given, real, strict=True))

    def write(
        self, claim: tuple[Job, jobs.Job], outcome: Outcome, next_of: str = "", count: int = 1
    ) -> list[tuple[Job, jobs.Job]]:
        """Write, and claim with it, under the name that holds the job, up to `count` of a state."""
        model, real = claim
        wanted = (next_of, LEASE, count, model.leased_by) if next_of else None
        self.db, taken, given = self.rules.finish(self.db, model.id, model.token, outcome, wanted)
        asked = jobs.Wanted(jobs.Milestone(next_of), LEASE * 60, count) if next_of else None
        try:
            claimed = self.bench.queue(model.leased_by).write(real, self.outcome(outcome), asked)
        except LeaseLost:
            assert not taken, "the real queue lost what the model keeps"
            return []
        assert taken, "the real queue took what the model does not"
        assert (claimed is None) == (given is None), "only one of them claimed"
        return self.given(claimed or [], given or ())

    def outcome(self, outcome: Outcome) -> jobs.Outcome:
        seconds = outcome.pause * 60.0
        match outcome.name:
            case "advanced":
                text = outcome.text and jobs.Transcript(
                    outcome.text[1], [], "ru", "x", kind=outcome.text[0]
                )
                operation = self.names[outcome.operation]
                return jobs.Advanced(jobs.Milestone(outcome.to), operation, seconds, text)
            case "normalised":
                raise AssertionError
            case "sent_back":
                return jobs.SentBack(jobs.Milestone(outcome.to), seconds, outcome.error)
            case "waiting":
                return jobs.Waiting(seconds)
            case "retry":
                cap = None if outcome.cap < 0 else outcome.cap
                return jobs.Retry(seconds, outcome.error, cap)
            case "failed":
                return jobs.Failed(outcome.error)
            case "dead":
                return jobs.Dead(outcome.error)
        return jobs.Released()

    def give_back(self, worker: str, keep: list[int]) -> None:
        returned = self.bench.queue(worker).give_back([self.names[token] for token in keep])
        self.db, expected = self.rules.give_back(self.db, worker, tuple(keep))
        assert returned == expected

    # The owner

    def form(self, job_id: str) -> tuple[Job, dict[str, Any]]:
        """The form as it is opened: every column."""
        model = self.db.job(job_id)
        assert model
        return model, self.owner.get(f"{JOBS}/{job_id}").json()

    def save(self, form: tuple[Job, dict[str, Any]] | None, job_id: str, changes: dict) -> None:
        """A save of an open form, or of the changes alone."""
        loaded = self.db.job(job_id)
        body, wanted, seen = changes, changes, None
        if form:
            opened, columns = form
            body = columns | changes
            wanted = {name: getattr(opened, name) for name in ("state", "note", "priority")}
            wanted |= changes
            seen = opened.updated
        answer = self.owner.patch(f"{JOBS}/{job_id}", json=body)
        if loaded is None:
            assert answer.status_code == 404
            return
        self.db, saved = self.rules.save(self.db, loaded, wanted, seen)
        assert answer.status_code == (200 if saved else 400), answer.text

    def edit_text(self, job_id: str, kind: str, value: str) -> None:
        for row in self.service.rows(
            "SELECT id FROM transcripts WHERE recording = ? AND kind = ?", job_id, kind
        ):
            path = f"/api/collections/transcripts/records/{row['id']}"
            assert self.owner.patch(path, json={"text": value}).status_code == 200
        self.db = self.rules.edit_text(self.db, job_id, kind, value)

    def delete(self, job_id: str) -> None:
        answer = self.owner.delete(f"/api/collections/recordings/records/{job_id}")
        assert answer.status_code == 204, answer.text
        self.db = self.rules.delete(self.db, job_id)

    # Operations

    def submit(self, claim: tuple[Job, jobs.Job]) -> bool:
        """Whether it was taken."""
        model, real = claim
        self.db, expected, number = self.rules.submit(self.db, model.id, model.token)
        answer, code = self.post("/api/operations", recording=real.id, lease_token=real.lease_token)
        assert (code or "ok") == expected
        if number:
            assert self.names.setdefault(number, answer["operation"]) == answer["operation"]
        return bool(number)

    def take(self, claim: tuple[Job, jobs.Job]) -> tuple[Operation, Any] | None:
        """A remote recogniser's operation, and its claim."""
        model, real = claim
        self.db, expected, row = self.rules.take_operation(self.db, model.id, model.token, "openai")
        answer, code = self.post(
            "/api/operations/take",
            recording=real.id, recogniser="openai", lease_token=real.lease_token,
        )  # fmt: skip
        assert (code or "ok") == expected
        if row is None:
            return None
        assert self.names.setdefault(row.id, answer["id"]) == answer["id"]
        self.names[row.token] = answer["lease_token"]
        assert (answer["state"], answer["done"]) == (row.state, [unit for unit, _ in row.parts])
        return row, answer

    def post(self, path: str, **body: Any) -> tuple[dict[str, Any], str]:
        """A worker's call: its answer, and the code where it is a refusal."""
        try:
            return self.bench.client.request("POST", path, json=body), ""
        except PocketBaseRefused as refusal:
            return {}, refusal.error_code

    def claim_operation(self, engine: str) -> tuple[Operation, Any] | None:
        body = {"worker": engine, "lease_seconds": LEASE * 60}
        found = self.bench.client.request("POST", "/api/operations/claim", json=body)["operations"]
        due = {self.names[each.id]: each for each in self.rules.claimable(self.db, LEASE)}
        assert bool(found) == bool(due)
        if not found:
            return None
        [real] = found
        assert real["id"] in due, "whose lease still runs, or that has ended"
        self.db, model = self.rules.claim_operation(self.db, due[real["id"]].id, engine)
        self.names[model.token] = real["lease_token"]
        assert (real["attempts"], real["crashes"]) == (model.attempts, model.crashes)
        assert real["done"] == [unit for unit, _ in model.parts]
        return model, real

    def act(self, claim: tuple[Operation, Any], action: str, *values: Any) -> None:
        model, real = claim
        body: dict[str, Any] = {"lease_token": real["lease_token"]}
        path = action
        if action == "cut":
            body |= {"units": [[n, n + 1] for n in range(values[0])], "language": "ru"}
        elif action == "segments":
            words = [{"start": 0, "end": 1, "text": values[1]}]
            body |= {"unit": values[0], "segments": words}
        elif action != "renew":
            body |= {"outcome": action, "engine": "x", "language": "", "error_text": ""}
            path = "finish"
        self.db, expected = self.rules.act(self.db, model.id, model.token, action, *values)
        _, code = self.post(f"/api/operations/{real['id']}/{path}", **body)
        assert (code or "ok") == expected

    def check(self, number: int) -> None:
        """What the check step would see of an operation."""
        real: Verdict = self.recogniser.check(self.names[number])
        row = self.db.operation(number)
        match row and row.state:
            case None:
                assert isinstance(real, Unknown)
            case "queued":
                assert isinstance(real, Running)
            case "failed":
                assert isinstance(real, Refused)
            case "done":
                assert row
                if [unit for unit, _ in row.parts] != list(range(max(row.units, 0))):
                    assert isinstance(real, Unknown), "a missing slice is no shorter text"
                else:
                    assert isinstance(real, Finished)
                    assert real.transcript.text == " ".join(words for _, words in row.parts)

    def cancel(self, number: int) -> None:
        self.recogniser.cancel(self.names[number])
        self.db = self.rules.cancel(self.db, number)

    def give_back_operations(self, engine: str) -> None:
        returned = HttpOperations(self.bench.client, engine).restart()
        self.db, expected = self.rules.give_back_operations(self.db, engine)
        assert returned == expected

    # Answers

    def claim_answers(self, teller: str, count: int) -> list[tuple[Answer, Any]]:
        body = {"worker": teller, "lease_seconds": LEASE * 60, "count": count}
        found = self.bench.client.request("POST", "/api/queue/answers/claim", json=body)["answers"]
        self.db, given = self.rules.claim_answers(self.db, LEASE, count, teller)
        self.know_answers()
        real = {self.answers[row["id"]]: row for row in found}
        assert set(real) == {(answer.job, answer.cause) for answer in given}
        claims = []
        for answer in given:
            row = real[answer.job, answer.cause]
            self.names[answer.token] = row["lease_token"]
            assert (row["kind"], row["begun"], row["sent"]) == (
                answer.kind, answer.begun, answer.sent,
            )  # fmt: skip
            claims.append((answer, row))
        return claims

    def write_answer(self, claim: tuple[Answer, Any], name: str, *at: int, ended: str) -> None:
        answer, row = claim
        begun, sent, unsure = at
        body = {"lease_token": row["lease_token"], "begun": begun, "sent": sent, "unsure": unsure}
        more: dict[str, Any] = {
            "begun": {},
            "later": {"pause": PAUSE * 60, "failing": True},
            "ended": {"state": ended, "reason": "blocked"},
        }[name]
        key = (answer.job, answer.cause)
        self.db, taken = self.rules.write_answer(
            self.db, key, answer.token, name, (begun, sent, unsure), PAUSE, ended, "blocked"
        )
        _, code = self.post(f"/api/queue/answers/write/{row['id']}", **body, **more, outcome=name)
        assert code == ("" if taken else "lease_lost")

    def give_back_answers(self, teller: str) -> None:
        path = "/api/queue/answers/restart"
        returned = self.bench.client.request("POST", path, json={"worker": teller})["returned"]
        self.db, expected = self.rules.give_back_answers(self.db, teller)
        assert returned == expected

    # The rows

    def know_answers(self) -> None:
        tokens = {real: number for number, real in self.names.items() if real}
        for row in self.service.rows("SELECT id, recording, cause FROM answers"):
            self.answers[row["id"]] = (row["recording"], tokens[row["cause"]])

    def compare(self) -> None:
        """Every row of the real queue is the model's, and there is no other."""
        now = self.db.now
        with self.service.database() as database:
            rows = {
                table: [
                    dict(row)
                    for row in database.execute(
                        f"SELECT *, {_minutes('leased_at')} AS lease_age, "
                        f"{_minutes('not_before') if table != 'operations' else '0'} AS pause_left "
                        f"FROM {table}"
                    )
                ]
                for table in TIMES
            }
            texts = database.execute("SELECT recording, kind, text FROM transcripts").fetchall()
            parts = database.execute(
                "SELECT operation, unit, json_extract(segments, '$[0].text') FROM segments "
                "ORDER BY unit"
            ).fetchall()
        assert {tuple(text) for text in texts} == set(self.db.texts)
        assert {row["id"] for row in rows["jobs"]} == {job.id for job in self.db.jobs}
        for row in rows["jobs"]:
            job = self.db.job(row["id"])
            assert job
            for name in ("state", "milestone", "attempts", "sent_back", "priority", "note"):
                assert row[name] == getattr(job, name), (name, row, job)
            assert row["error_text"] == job.error
            assert row["operation"] == self.names[job.operation]
            assert row["written_token"] == self.names[job.written]
            self.lease(row, job)
            _near(max(row["pause_left"] or 0, 0), max(job.not_before - now, 0))
            version, stamp = self.stamps.get(job.id, (job.updated, row["updated"]))
            assert version != job.updated or stamp == row["updated"], (
                "a form became old for nothing"
            )
            self.stamps[job.id] = (job.updated, row["updated"])
        self.know_answers()
        assert len(rows["answers"]) == len(self.db.answers)
        for row in rows["answers"]:
            answer = self.db.answer(*self.answers[row["id"]])
            assert answer
            for name in ("kind", "state", "reason", "begun", "sent", "unsure"):
                assert row[name] == getattr(answer, name), (name, row, answer)
            self.lease(row, answer)
            _near(max(row["pause_left"] or 0, 0), max(answer.not_before - now, 0))
        real = {name: number for number, name in self.names.items()}
        assert {real[row["id"]] for row in rows["operations"]} == {o.id for o in self.db.operations}
        for row in rows["operations"]:
            operation = self.db.operation(real[row["id"]])
            assert operation
            for name in ("state", "attempts", "crashes", "recogniser"):
                assert row[name] == getattr(operation, name), (name, row, operation)
            written = [(unit, words) for owner, unit, words in parts if owner == row["id"]]
            assert written == list(operation.parts)
            self.lease(row, operation)

    def lease(self, row: dict[str, Any], model: Job | Answer | Operation) -> None:
        assert row["lease_token"] == self.names[model.token], (row, model)
        assert row["leased_by"] == model.leased_by
        assert (row["lease_age"] is not None) == bool(model.token), row
        if model.token:
            _near(row["lease_age"], model.leased_at - self.db.now)


def _minutes(column: str) -> str:
    """A time as minutes from now; none where there is none."""
    left = f"(julianday({column}) - julianday('now')) * 1440"
    return f"CASE WHEN {column} = '' THEN NULL ELSE {left} END"


def _near(real: float, model: int) -> None:
    assert abs(real - model) < 2, (real, model)
