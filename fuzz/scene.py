"""A PocketBase with marked rows, who may call it, and a good request for each of its routes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.service import (
    OWNER,
    REPOSITORY,
    USER_PASSWORD,
    WORKER_PASSWORD,
    Service,
    User,
    tone,
    wait_until,
)

MARKS = {"a": "zvezdochet-of-a", "b": "kolokolchik-of-b"}
"""Stand in everything that is a sender's."""
SECRET = "diagnosis-for-the-owner"
LEASE = "1ea5e1ea5e1ea5e1ea5e1ea5e1ea5e1e"
CHAT = "-100555"
TABLES = ("recordings", "jobs", "transcripts", "operations", "segments", "chats", "answers",
          "users", "workers", "_superusers")  # fmt: skip
_NOW = "strftime('%Y-%m-%d %H:%M:%fZ', 'now')"


@dataclass(frozen=True)
class Good:
    """A request that is well formed."""

    method: str
    path: str
    body: Any = None
    """JSON."""
    form: dict[str, str] = field(default_factory=dict)
    file: str = ""
    """The field that carries a recording."""
    query: dict[str, str] = field(default_factory=dict)
    callers: tuple[str, ...] = ("worker",)


class Scene:
    """Rows that are the same before each case."""

    def __init__(self, folder: Path) -> None:
        self.service = Service(folder)
        try:
            self._begin(folder)
        except BaseException:
            self.service.close()
            raise

    def _begin(self, folder: Path) -> None:
        self.service.start("pb", "media")
        self.tone = tone(folder, "tone.wav", 0.3).read_bytes()
        self.senders = {name: self.service.user() for name in MARKS}
        self.names: dict[str, str] = {"chat": CHAT, "lease": LEASE}
        """What stands for what in the templates: {a_new} is a recording's id."""
        for who, user in self.senders.items():
            for kind in ("new", "held", "done", "running"):
                self.names[f"{who}_{kind}"] = self._upload(user, MARKS[who])
        self._set()
        worker = self.service.client()
        worker._log_in("")
        self.tokens = {
            "": "",
            "worker": worker._token,
            "owner": str(self.service.owner.headers["Authorization"]),
            **{
                name: str(user.http.headers["Authorization"]) for name, user in self.senders.items()
            },
        }
        self._kept = self.rows()

    def close(self) -> None:
        """End it."""
        self.service.close()

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of the tables that are ours."""
        with self.service.database() as database:
            return {
                table: sorted(
                    (tuple(row) for row in database.execute(f"SELECT * FROM {table}")), key=repr
                )
                for table in TABLES
            }

    def restore(self) -> None:
        """Put every row back."""
        with self.service.database() as database:
            for table, rows in self._kept.items():
                database.execute(f"DELETE FROM {table}")
                for row in rows:
                    database.execute(
                        f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row
                    )
            database.commit()

    def secrets(self) -> set[str]:
        """What no log line may hold."""
        media = (self.service.data / "secrets" / "media_secret").read_text().strip()
        tokens = {token for token in self.tokens.values() if token}
        return {OWNER[1], WORKER_PASSWORD, USER_PASSWORD, media, LEASE, *MARKS.values(), *tokens}

    def logged(self) -> str:
        """PocketBase's log table, once what happened until now stands in it."""
        marker = f"/api/marker/{os.urandom(6).hex()}"
        httpx.get(f"{self.service.url}{marker}", timeout=5, trust_env=False)

        def lines() -> str | None:
            with self.service.database("auxiliary.db") as database:
                database.text_factory = lambda data: data.decode(errors="replace")
                found = database.execute("SELECT level, message, data FROM _logs").fetchall()
            text = "\n".join(" ".join(map(str, row)) for row in found)
            return text if marker in text else None

        return wait_until(lines, 20, "pocketbase's log") or ""

    def _upload(self, user: User, mark: str) -> str:
        answer = user.post(
            (f"{mark}.wav", self.tone), title=mark, vocabulary=f"{mark}, {mark}", language="ru"
        )
        assert answer.status_code == 201, answer.text
        return str(answer.json()["job_id"])

    def _set(self) -> None:
        run = self.service.execute
        for who, mark in MARKS.items():
            done, running = self.names[f"{who}_done"], self.names[f"{who}_running"]
            operation = f"oper{who}tion000001"
            self.names[f"{who}_operation"] = operation
            for kind in ("raw", "proofread"):
                run(
                    f"""INSERT INTO transcripts (recording, kind, text, segments, language, engine,
                        created, updated) VALUES (?, ?, ?, ?, 'ru', 'test', {_NOW}, {_NOW})""",
                    done, kind, f"{mark} {kind}", f'[{{"start":0,"end":1,"text":"{mark}"}}]',
                )  # fmt: skip
            run("UPDATE jobs SET state = 'done', milestone = 'done' WHERE id = ?", done)
            run(
                f"""UPDATE jobs SET state = 'normalized', milestone = 'normalized',
                    lease_token = ?, leased_at = {_NOW}, leased_by = 'w1' WHERE id = ?""",
                LEASE, self.names[f"{who}_held"],
            )  # fmt: skip
            run(
                f"""UPDATE jobs SET state = 'submitted', milestone = 'submitted', operation = ?,
                    lease_token = ?, leased_at = {_NOW}, leased_by = 'w1', error_text = ?,
                    submitted_at = {_NOW} WHERE id = ?""",
                operation, LEASE, SECRET, running,
            )  # fmt: skip
            run(
                f"""INSERT INTO operations (id, recording, state, sender, duration, lease_token,
                    leased_at, leased_by, units, vocabulary, created, updated)
                    VALUES (?, ?, 'queued', ?, 1, ?, {_NOW}, 'e1', '[[0,1],[1,2]]', ?,
                            {_NOW}, {_NOW})""",
                operation, running, who, LEASE, mark,
            )  # fmt: skip
        self._telegram(run)

    def _telegram(self, run: Any) -> None:
        failed = self.names["failed"] = self._upload(self.senders["b"], MARKS["b"])
        run("UPDATE recordings SET owner = '', source = 'telegram' WHERE id = ?", failed)
        run(
            """UPDATE jobs SET state = 'failed', chat_id = ?, message_id = '7', error_text = ?
               WHERE id = ?""",
            CHAT, SECRET, failed,
        )  # fmt: skip
        run(
            f"""INSERT INTO chats (chat_id, admitted, created, updated)
                VALUES (?, 1, {_NOW}, {_NOW})""",
            CHAT,
        )
        self.names["answer"] = "answer000000001"
        run(
            f"""INSERT INTO answers (id, recording, cause, kind, state, chat_id, message_id,
                lease_token, leased_at, leased_by, created, updated)
                VALUES ('answer000000001', ?, 'x', 'failure', 'pending', ?, '7', ?, {_NOW}, 't1',
                        {_NOW}, {_NOW})""",
            failed, CHAT, LEASE,
        )  # fmt: skip


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """A service that runs."""
    made = Scene(folder)
    try:
        yield made
    finally:
        made.close()


TEXT = {"kind": "raw", "text": "new", "segments": [{"start": 0, "end": 1, "text": "new"}],
        "language": "ru", "engine": "e"}  # fmt: skip
OUTCOMES: tuple[dict[str, Any], ...] = (
    {"outcome": "advanced", "to": "transcribed", "operation": "op", "delay": 1, "transcript": TEXT},
    {"outcome": "advanced", "to": "done", "operation": "", "delay": 0, "transcript": None},
    {"outcome": "sent_back", "to": "normalized", "pause": 1.0, "error_text": "x"},
    {"outcome": "waiting", "delay": 5.0},
    {"outcome": "retry", "pause": 5.0, "error_text": "x", "cap": 3},
    {"outcome": "failed", "error_text": "x"},
    {"outcome": "dead", "error_text": "x"},
    {"outcome": "released"},
)
TOLD = {"lease_token": "{lease}", "begun": 1, "sent": 0, "unsure": 0}
WORKERS: tuple[Good, ...] = (
    Good("POST", "/api/queue/due", {"claims": [{"state": "uploaded", "lease_seconds": 60}]}),
    Good("POST", "/api/queue/claim",
         {"state": "uploaded", "lease_seconds": 60, "count": 2, "worker": "w1"}),
    *(Good("POST", "/api/queue/finish",
           {"results": [{"id": "{b_running}", "lease_token": "{lease}", **outcome}]})
      for outcome in OUTCOMES),
    Good("POST", "/api/queue/finish",
         {"results": [{"id": "{b_running}", "lease_token": "{lease}", **OUTCOMES[3]}],
          "next": {"state": "uploaded", "lease_seconds": 60, "count": 2, "worker": "w1"}}),
    Good("POST", "/api/queue/restart", {"worker": "w1", "keep": ["{lease}"]}),
    Good("POST", "/api/queue/restart", {"worker": "w1"}),
    Good("POST", "/api/queue/normalized/{id}", file="normalized",
         form={"lease_token": "{lease}", "duration": "0.3"}),
    Good("GET", "/api/queue/recording/{id}"),
    Good("GET", "/api/queue/transcript/{id}/{kind}"),
    Good("GET", "/api/queue/audio/{id}/{kind}"),
    Good("GET", "/api/queue/stats"),
    Good("POST", "/api/queue/recordings", file="audio",
         form={"chat_id": "5", "thread_id": "1", "message_id": "2"}),
    Good("GET", "/api/queue/chats/{chat}", query={"message_id": "7"}),
    Good("GET", "/api/queue/chats/{chat}/jobs"),
    Good("POST", "/api/queue/chats/{chat}/moved", {"to": "-100777"}),
    Good("POST", "/api/queue/rejections", {"error_code": "too_large"}),
    Good("POST", "/api/queue/answers/claim", {"worker": "t1", "lease_seconds": 60, "count": 5}),
    Good("POST", "/api/queue/answers/restart", {"worker": "t1"}),
    Good("POST", "/api/queue/answers/close",
         {"recording": "{failed}", "all": False, "reason": "input_down"}),
    Good("POST", "/api/queue/answers/again",
         {"job_id": "{failed}", "chat_id": "{chat}", "message_id": "9"}),
    Good("POST", "/api/queue/answers/write/{id}", {**TOLD, "outcome": "begun"}),
    Good("POST", "/api/queue/answers/write/{id}",
         {**TOLD, "outcome": "later", "pause": 3.0, "failing": True}),
    Good("POST", "/api/queue/answers/write/{id}",
         {**TOLD, "outcome": "ended", "state": "sent", "reason": ""}),
    Good("POST", "/api/queue/leftovers", {"operation": "speechkit:x"}),
    Good("POST", "/api/queue/leftovers/claim", {}),
    Good("POST", "/api/queue/leftovers/removed", {"operation": "speechkit:x"}),
    Good("POST", "/api/operations", {"recording": "{a_held}", "lease_token": "{lease}"}),
    Good("POST", "/api/operations/claim", {"worker": "e1", "lease_seconds": 60}),
    Good("POST", "/api/operations/take",
         {"recording": "{a_held}", "recogniser": "openai", "lease_token": "{lease}"}),
    Good("POST", "/api/operations/restart", {"worker": "e1"}),
    Good("GET", "/api/operations/{id}"),
    Good("DELETE", "/api/operations/{id}"),
    Good("POST", "/api/operations/{id}/{action}",
         {"lease_token": "{lease}", "units": [[0, 1], [1, 2, 0]], "language": "ru"}),
    Good("POST", "/api/operations/{id}/{action}",
         {"lease_token": "{lease}", "unit": 1, "segments": [{"start": 0, "end": 1, "text": "x"}]}),
    *(Good("POST", "/api/operations/{id}/{action}",
           {"lease_token": "{lease}", "outcome": outcome, "engine": "e", "language": "ru",
            "error_text": ""}) for outcome in ("done", "failed", "released", "lost")),
)  # fmt: skip
SENDERS = ("a", "b")
PUBLIC: tuple[Good, ...] = (
    Good("POST", "/api/audio", file="audio", callers=SENDERS,
         form={"language": "ru", "vocabulary": "x, y", "title": "t", "channels": "mix"}),
    Good("GET", "/api/status/{id}", callers=SENDERS),
    Good("GET", "/api/transcript/{id}/{kind}", callers=SENDERS),
)  # fmt: skip
ANYBODY = ("a", "b", "", "worker", "owner")
RECORDS = "/api/collections/{collection}/records"
POCKETBASE: tuple[Good, ...] = (
    *(Good("GET", RECORDS, callers=ANYBODY, query=query) for query in (
        {}, {"filter": "id != ''", "sort": "-created", "expand": "recording,owner", "perPage": "5"},
        {"filter": "recording.owner != ''", "fields": "*"}, {"filter": "owner.email ~ 'a'"},
        {"filter": "@collection.jobs.state = 'done'"}, {"filter": "text ~ 'o'", "skipTotal": "1"},
    )),
    Good("GET", RECORDS + "/{id}", callers=ANYBODY, query={"expand": "recording,owner"}),
    Good("POST", RECORDS, {"recording": "{b_done}", "owner": "x", "state": "done", "kind": "raw"},
         callers=ANYBODY),
    Good("POST", RECORDS, {"email": "new@example.com", "password": "12345678",
                           "passwordConfirm": "12345678"}, callers=("a", "b", "", "worker")),
    Good("PATCH", "/api/collections/jobs/records/{id}",
         {"state": "uploaded", "priority": 3, "note": "n", "updated": "", "attempts": 9,
          "lease_token": "x", "not_before": "2050-01-01 00:00:00.000Z", "error_text": "e"},
         callers=ANYBODY),
    Good("PATCH", "/api/collections/recordings/records/{id}",
         {"title": "t", "language": "en", "vocabulary": "v", "owner": "x", "recogniser": "openai",
          "audio": "x.wav", "size": 1}, callers=ANYBODY),
    Good("PATCH", RECORDS + "/{id}", {"text": "t", "state": "sent", "admitted": False},
         callers=("a", "b", "", "worker")),
    Good("DELETE", RECORDS + "/{id}", callers=("a", "b", "", "worker")),
    Good("DELETE", "/api/collections/jobs/records/{id}", callers=("owner",)),
    Good("POST", "/api/collections/{collection}/auth-with-password",
         {"identity": "owner@example.com", "password": "wrong"}, callers=ANYBODY),
    Good("POST", "/api/collections/{collection}/auth-refresh", callers=("a", "b", "", "worker")),
    Good("POST", "/api/collections/{collection}/impersonate/{id}", {"duration": 1},
         callers=("a", "b", "", "worker")),
    Good("POST", "/api/batch", {"requests": [{"method": "POST", "url": RECORDS, "body": {}}]},
         callers=ANYBODY),
    Good("POST", "/api/realtime", {"clientId": "x", "subscriptions": ["transcriber/wake"]},
         callers=ANYBODY),
    Good("POST", "/api/files/token", callers=ANYBODY),
    Good("GET", "/api/files/{collection}/{id}/audio.wav", query={"token": "{b_token}"},
         callers=ANYBODY),
    *(Good(method, path, {"name": "x"}, callers=("a", "b", "", "worker")) for method, path in (
        ("GET", "/api/settings"), ("PATCH", "/api/settings"), ("GET", "/api/logs"),
        ("GET", "/api/collections"), ("POST", "/api/collections"), ("GET", "/api/backups"),
        ("POST", "/api/backups"), ("GET", "/api/crons"), ("POST", "/api/sql"),
        ("DELETE", "/api/collections/{collection}"),
        ("DELETE", "/api/collections/{collection}/truncate"),
    )),
)  # fmt: skip
OURS = re.compile(r"/api/(audio|status|transcript|queue|operations)(/|$)")


def not_covered() -> set[str]:
    """Routes of the hooks that have no good request here."""
    known = {(good.method, good.path) for good in (*WORKERS, *PUBLIC)}
    found = set()
    for file in (REPOSITORY / "pb" / "pb_hooks").glob("*.pb.js"):
        found |= set(re.findall(r'routerAdd\(\s*"(\w+)",\s*"([^"]+)"', file.read_text()))
    assert found, "no route is found in the hooks"
    return {f"{method} {path}" for method, path in found - known}


def kinds_of(name: str, names: dict[str, str]) -> list[str]:
    """What may stand in a place of a path."""
    ids = [value for key, value in names.items() if key not in {"chat", "lease"}]
    return {
        "id": ids,
        "kind": ["raw", "proofread", "audio", "normalized"],
        "chat": [CHAT, "5"],
        "action": ["cut", "segments", "renew", "finish"],
        "collection": [*TABLES, "_authOrigins", "_externalAuths", "_logs"],
    }.get(name, [names.get(name, name)])
