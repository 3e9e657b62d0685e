"""The folder of a small run in which everything is as it should be, to be spoilt by the tests.

The tables are the real ones of the migrations, without their unique indexes: the checker shall see
for itself what those keep out of the product. What stands in them a real run has left, made short.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from prometheus_client.mmap_dict import MmapedDict, mmap_key

from chaos.check.ledger import Ledger
from chaos.checker import judge

Row = dict[str, Any]

THEN, NOW = "2026-11-30 18:40:02.345Z", "2026-11-30 18:40:12.345Z"
LONG = " ".join(f"zilverton number {n} walked home." for n in range(300))
"""A text that goes out in three pieces."""
TEXTS = {
    "hello": "Quabbling mornings, dear flimwicks.",
    "remote": "Brukvazhi tromeldyu snofipgax.",
    "again": "Quabbling evenings, dear flimwicks.",
    "lecture": LONG,
    "quiet": "",
}
ENGINES = {"local": "faster-whisper/base", "openai": "openai/whisper-1"}
COLUMNS = {
    "users": "id email created updated",
    "recordings": "id audio normalized owner source extension size duration title language "
    "vocabulary recogniser channels created updated",
    "jobs": "id recording state priority note error_text milestone attempts lease_token leased_at "
    "leased_by not_before operation submitted_at sent_back written_token chat_id thread_id "
    "message_id why source created updated",
    "transcripts": "id recording kind text segments language engine no_speech created updated",
    "operations": "id recording state language vocabulary duration units speech recognised "
    "detected engine attempts crashes lease_token leased_at leased_by progressed_at priority "
    "error_text recogniser sender held held_since created updated",
    "segments": "id operation unit segments",
    "chats": "id chat_id note admitted created updated",
    "answers": "id recording cause kind state reason chat_id thread_id message_id begun sent "
    "unsure attempts failing_since lease_token leased_at leased_by not_before written_token "
    "created updated",
}
NUMBERS = {
    "size", "duration", "priority", "attempts", "crashes", "sent_back", "no_speech", "speech",
    "recognised", "unit", "admitted", "held", "begun", "sent", "unsure",
}  # fmt: skip


def content(item: str) -> bytes:
    return f"the bytes of {item}".encode()


def sha(item: str) -> str:
    return hashlib.sha256(content(item)).hexdigest()


def number(n: int) -> str:
    """An id as PocketBase makes them."""
    return f"job{n:012d}"


class Evidence:
    """Everything that a run leaves. Every part may be changed before it is judged."""

    def __init__(self) -> None:
        self.journal: list[Row] = []
        self.tables: dict[str, list[Row]] = {name: [] for name in COLUMNS}
        self.statuses: list[Row] = []
        self.files: list[Row] = []
        self.sent: dict[str, list[Row]] = {}
        self.unconfirmed: list[int] = []
        self.gone: list[list[Any]] = []
        self.metrics: dict[str, float] = {}
        self.second: dict[str, float] = {}
        """What the second machine counted."""
        self.logs: dict[str, list[str]] = {"up": [], "second": []}
        self.log_table: list[tuple[str, Row]] = []
        self.scratch = ["data/run/pipeline.lock", "data/run/metrics/counter_12.db"]
        self.swept = True
        self.calls: list[Row] = [{"t": 1, "method": "POST", "fault": "refuses", "status": 400}]
        self.plan: list[Row] = [{"seed": 7, "minutes": 2}, {"at": 1, "what": "send", "id": 1}]
        self._clock = 0.0

    # The journal

    def tell(self, event: str, **fields: Any) -> Row:
        self._clock += 1
        row = {"t": self._clock, "event": event, **fields}
        self.journal.append(row)
        return row

    def before_quiet(self, event: str, **fields: Any) -> Row:
        """A line that comes before the faults are lifted."""
        at = next(n for n, row in enumerate(self.journal) if row["event"] == "quiet")
        row = {"t": self.journal[at]["t"] - 0.5, "event": event, **fields}
        self.journal.insert(at, row)
        return row

    def owner(self, action: str, collection: str, record: str, **more: Any) -> Row:
        """The owner did something, and was answered 200 unless it says otherwise."""
        told = {"status": 200} if "lost" not in more else {}
        fields = more.pop("fields", {})
        identifier = 900 + sum(row["event"] == "owner" for row in self.journal)
        return self.before_quiet(
            "owner", id=identifier, action=action, collection=collection, record=record,
            fields=fields, **{**told, **more},
        )  # fmt: skip

    def event(self, kind: str, **known: Any) -> Row:
        """The journal's one line of this kind with these values."""
        [found] = [
            row for row in self.journal
            if row["event"] == kind and all(row.get(key) == value for key, value in known.items())
        ]  # fmt: skip
        return found

    # The database

    def row(self, table: str, **values: Any) -> Row:
        names = COLUMNS[table].split()
        full = {name: 0 if name in NUMBERS else "" for name in names}
        full |= {"created": THEN, "updated": NOW} if "created" in names else {}
        full |= values
        self.tables[table].append(full)
        return full

    def get(self, table: str, **known: Any) -> Row:
        [found] = [
            row
            for row in self.tables[table]
            if all(row[key] == value for key, value in known.items())
        ]
        return found

    def remove(self, job: str) -> None:
        """Take a recording out of everything, as deleting it does."""
        for name, key in (("recordings", "id"), *((each, "recording") for each in (
            "jobs", "transcripts", "answers", "operations"))):  # fmt: skip
            self.tables[name] = [row for row in self.tables[name] if row[key] != job]
        self.files = [row for row in self.files if row["path"].split("/")[1] != job]
        for told in self.statuses:
            if told["job_id"] == job:
                refused = {"code": 404, "body": {"error_code": "not_found", "message": "-"}}
                told |= {"status": refused, "transcript": refused}

    def recording(
        self, n: int, item: str, *, state: str = "done", by: str = "local", **more: Any
    ) -> str:
        """A recording with all that belongs to it, as it stands in the end."""
        job = number(n)
        chat = more.get("chat_id", "")
        stored, normalised = f"{'a' * 8}{n:012d}.ogg", f"{'n' * 8}{n:012d}.flac"
        extra = {key: more[key] for key in ("owner", "title") if key in more}
        self.row(
            "recordings", id=job, audio=stored, normalized=normalised if state == "done" else "",
            source="telegram" if chat else "http", extension="ogg", size=len(content(item)),
            duration=2.5, **extra,
        )  # fmt: skip
        self.file(job, stored, item)
        failed = state in ("failed", "dead")
        milestone = more.get("milestone", "uploaded" if failed else state)
        self.row(
            "jobs", id=job, recording=job, source="telegram" if chat else "http",
            state=state, milestone=milestone,
            written_token=f"token{n}", chat_id=chat, message_id=more.get("message_id", ""),
            attempts={"failed": 1, "dead": 7}.get(state, 0),
            error_text={"failed": "read media: no audio track",
                        "dead": "normalise given up after 6 attempts: x"}.get(state, ""),
        )  # fmt: skip
        text = TEXTS.get(item, "")
        if state == "done":
            self.file(job, normalised, f"normalised {item}")
            self.row(
                "transcripts", id=f"text{n}", recording=job, kind="raw", text=text,
                segments=json.dumps([{"start": 0, "end": 2, "text": text}] if text else []),
                engine=ENGINES[by], no_speech=int(not text),
            )  # fmt: skip
        if chat:
            self.answer(n, "failure" if failed else "text")
        return job

    def file(self, job: str, name: str, item: str, **more: Any) -> Row:
        for each, size in ((name, len(content(item))), (f"{name}.attrs", 60)):
            self.files.append({
                "path": f"pbc_392670462/{job}/{each}", "size": size, "sha256": sha(item),
                "mtime": 1_000_000.0, **more,
            })  # fmt: skip
        return self.files[-2]

    def answer(self, n: int, kind: str, state: str = "sent", **more: Any) -> Row:
        job = self.get("jobs", id=number(n))
        sent = {"begun": 1, "sent": 1} if state == "sent" else {}
        return self.row(
            "answers", id=f"answer{len(self.tables['answers'])}", recording=number(n), kind=kind,
            state=state, chat_id=job["chat_id"], message_id=job["message_id"],
            **{"cause": job["written_token"], **sent, **more},
        )  # fmt: skip

    def bot(self, chat: str, reply_to: int | None, text: str, **more: Any) -> Row:
        sent = self.sent.setdefault(chat, [])
        row = {"message_id": 5000 + len(sent), "text": text, "reply_to": reply_to, "file_name": "",
               "content": "", **more}  # fmt: skip
        sent.append(row)
        return row

    # The folder

    def write(self, folder: Path) -> Path:
        end = folder / "end"
        end.mkdir(parents=True)
        _lines(folder / "journal.jsonl", self.journal)
        _lines(folder / "plan.jsonl", self.plan)
        _lines(end / "statuses.jsonl", self.statuses)
        with closing(_database(end / "data.db")) as database:
            for table, names in COLUMNS.items():
                kinds = ", ".join(
                    f"{name} {'NUMERIC' if name in NUMBERS else 'TEXT'}" for name in names.split()
                )
                database.execute(f"CREATE TABLE {table} ({kinds})")
                marks = ", ".join("?" * len(names.split()))
                database.executemany(
                    f"INSERT INTO {table} VALUES ({marks})",
                    [[row[name] for name in names.split()] for row in self.tables[table]],
                )
            database.commit()
        with closing(_database(end / "auxiliary.db")) as database:
            database.execute("CREATE TABLE _logs (id TEXT, level INT, message TEXT, data JSON)")
            for n, (message, data) in enumerate(self.log_table):
                database.execute(
                    "INSERT INTO _logs VALUES (?, 0, ?, ?)", (f"log{n}", message, json.dumps(data))
                )
            database.commit()
        (folder / "logs").mkdir()
        for name, lines in self.logs.items():
            (folder / "logs" / f"{name}.log").write_text("\n".join(lines), encoding="utf-8")
        (end / "metrics.txt").write_text(
            "# HELP x\n" + "".join(f"{key} {value}\n" for key, value in self.metrics.items())
        )
        if self.second:
            _counters(folder / "second" / "run" / "metrics", self.second)
        _json(end / "storage.json",
              {"files": self.files, "scratch": self.scratch, "swept": self.swept})  # fmt: skip
        _json(end / "recogniser.json", {"openai": self.calls})
        _json(end / "telegram.json",
              {"sent": self.sent, "unconfirmed": self.unconfirmed, "gone": self.gone})  # fmt: skip
        return folder

    def judge(self, folder: Path) -> Ledger:
        return judge(self.write(folder))[1]


def _database(path: Path) -> sqlite3.Connection:
    """A new one, in no fear of power cuts."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA synchronous = OFF")
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("BEGIN")
    return database


def _counters(folder: Path, series: dict[str, float]) -> None:
    """As a process leaves them. Which kind of file they are in makes no difference to their sum."""
    folder.mkdir(parents=True)
    kept = MmapedDict(str(folder / "counter_12.db"))
    for each, value in series.items():
        name, _, labels = each.rstrip("}").partition("{")
        pairs = [pair.split("=") for pair in labels.split(",")]
        values = [value.strip('"') for _, value in pairs]
        kept.write_value(mmap_key(name, name, [key for key, _ in pairs], values, "x"), value, 0.0)
    kept.close()


def _lines(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def _json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
