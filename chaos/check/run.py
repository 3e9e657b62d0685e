"""One run's folder, read: the journal of what the outside saw, and how things stood at the end."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from chaos.check.journal import Journal, Row, Unusable

MILESTONES = ("uploaded", "normalized", "submitted", "transcribed", "done")
STOPPED = ("failed", "dead")
TABLES = (
    "recordings", "jobs", "transcripts", "answers", "operations", "segments", "chats", "users",
)  # fmt: skip


class Run(Journal):
    """Everything in the folder, each part read when first asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.end = folder / "end"
        if not (self.end / "data.db").exists():
            raise Unusable(f"{self.end / 'data.db'}: missing; the run did not come to its end")

    def _json(self, name: str, default: Any) -> Any:
        path = self.end / name
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else default

    # The end

    @cached_property
    def tables(self) -> dict[str, list[Row]]:
        """The database's rows."""
        with closing(looked_at(self.end / "data.db")) as database:
            database.row_factory = sqlite3.Row
            return {
                name: [dict(row) for row in database.execute(f"SELECT * FROM {name}")]
                for name in TABLES
            }

    @cached_property
    def recordings(self) -> dict[str, Row]:
        """By id."""
        return {each["id"]: each for each in self.tables["recordings"]}

    @cached_property
    def jobs(self) -> dict[str, Row]:
        """By the recording's id."""
        return {each["recording"]: each for each in self.tables["jobs"]}

    @cached_property
    def raw(self) -> dict[str, Row]:
        """The raw transcripts, by the recording's id."""
        return {
            each["recording"]: each for each in self.tables["transcripts"] if each["kind"] == "raw"
        }

    @cached_property
    def answer_rows(self) -> dict[str, list[Row]]:
        """The outbox, by the recording's id."""
        found: dict[str, list[Row]] = defaultdict(list)
        for each in self.tables["answers"]:
            found[each["recording"]].append(each)
        return found

    @cached_property
    def statuses(self) -> dict[str, Row]:
        """What senders are told in the end, by job."""
        return {str(each["job_id"]): each for each in self.lines(self.end / "statuses.jsonl")}

    @cached_property
    def stored(self) -> dict[str, Row]:
        """Stored files by their path below the storage folder."""
        return {each["path"]: each for each in self._storage.get("files") or []}

    @cached_property
    def _storage(self) -> Row:
        found: Row = self._json("storage.json", {})
        return found

    @cached_property
    def swept(self) -> bool:
        """Whether the sweep was run when every file was older than its grace."""
        return bool(self._storage.get("swept"))

    @cached_property
    def stored_names(self) -> dict[tuple[str, str], Row]:
        """Stored files by recording and name, PocketBase's notes (`.attrs`) included."""
        found = {}
        for path, row in self.stored.items():
            parts = path.strip("/").split("/")
            if len(parts) >= 2:
                found[parts[-2], parts[-1]] = row
        return found

    @cached_property
    def scratch(self) -> list[str] | None:
        """What lies in the scratch folders; None where the rig did not look."""
        found: list[str] | None = self._storage.get("scratch")
        return found

    @cached_property
    def bot(self) -> Row:
        """What the Bot API's server saw and delivered."""
        found: Row = self._json("telegram.json", {})
        return found

    @cached_property
    def recogniser_calls(self) -> list[Row]:
        """What the remote recognisers were asked and answered."""
        found: dict[str, list[Row]] = self._json("recogniser.json", {})
        return [{"recogniser": name, **each} for name, calls in found.items() for each in calls]

    @cached_property
    def delivered(self) -> list[Row]:
        """What the bot's chats got, in order, each with its `chat`."""
        return [
            {"chat": chat, **each}
            for chat, sent in (self.bot.get("sent") or {}).items()
            for each in sent
        ]

    @cached_property
    def metrics(self) -> dict[str, float]:
        """The metrics page, as {"name{label=...}": value}."""
        path = self.end / "metrics.txt"
        found: dict[str, float] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            if line and not line.startswith("#"):
                series, _, value = line.rpartition(" ")
                found[series] = float(value)
        return found

    # Who sent what

    @cached_property
    def users(self) -> dict[str, str]:
        """The senders' account ids by e-mail."""
        return {each["email"]: each["id"] for each in self.tables["users"]}

    @cached_property
    def unattributed(self) -> set[str]:
        """Deleted recordings of which nobody noted who had sent them."""
        named = set(self.accepted) | set(self.deleted_messages.values())
        return (self.deleted | self.perhaps_deleted) - named - set(self.recordings)

    @cached_property
    def gone_messages(self) -> set[tuple[str, str]]:
        """Messages that their senders deleted: answers to them may come without the reply mark."""
        told = {(str(e["chat"]), str(e["message_id"])) for e in self.events("message_gone")}
        return told | {(str(chat), str(number)) for chat, number in self.bot.get("gone") or []}

    def item_of(self, recording: str) -> Row | None:
        """The corpus' item whose bytes the recording's stored file holds."""
        row = self.recordings.get(recording)
        file = self.stored_names.get((recording, row["audio"])) if row else None
        by_bytes = self.items_by_sha.get(file["sha256"]) if file else None
        origin = self.origin.get(recording)
        return by_bytes or (self.items.get(origin["item"]) if origin else None)

    @cached_property
    def origin(self) -> dict[str, Row]:
        """The send or message that each recording at the end came from, where that is known."""
        found: dict[str, Row] = {}
        by_title = {
            (send.get("sender"), send["title"]): send
            for send in self.sends.values()
            if send.get("title")
        }
        by_message = {(str(m["chat"]), str(m["message_id"])): m for m in self.messages}
        emails = {number: email for email, number in self.users.items()}
        for number, row in self.recordings.items():
            job = self.jobs.get(number, {})
            if number in self.accepted:
                found[number] = self.accepted[number]
            elif row["source"] == "telegram":
                message = by_message.get((str(job.get("chat_id")), str(job.get("message_id"))))
                if message:
                    found[number] = message
            elif send := by_title.get((emails.get(row["owner"]), row["title"])):
                found[number] = send
        return found

    def right_texts(self, item: Row, engine: str | None = None) -> set[str]:
        """Texts that are right for an item; of one recogniser where `engine` names it."""
        texts: set[str] = set()
        wanted = None if engine is None else recogniser_of(engine)
        for name, expected in (item.get("expected") or {}).items():
            if wanted in (None, name) and expected.get("outcome") == "done":
                texts.add(expected.get("text", ""))
                texts.update(expected.get("texts") or [])
        return texts

    def outcomes(self, item: Row) -> set[str]:
        """How an item ends, undisturbed, by whichever recogniser."""
        return {str(each.get("outcome")) for each in (item.get("expected") or {}).values()}

    def given_texts(self, recording: str) -> set[str]:
        """Texts that the owner wrote, or may have written, into a recording's transcripts."""
        known = {row["id"]: row["recording"] for row in self.tables["transcripts"]}
        return {
            str(edit.fields["text"])
            for edit in self.edits
            if edit.collection == "transcripts"
            and (edit.recording or known.get(edit.record)) == recording
            and "text" in edit.fields
            and (edit.sure or edit.maybe)
        }

    def text_may_be_missing(self, recording: str) -> bool:
        """Whether the owner deleted (or may have deleted) a transcript of this recording."""
        return any(
            edit.collection == "transcripts" and edit.deletes and (edit.sure or edit.maybe)
            and edit.recording in ("", recording)
            for edit in self.edits
        )  # fmt: skip

    def seconds(self, stamp: str) -> float | None:
        """A time of the database as seconds since the run's start."""
        start = self.settings.get("started_at")
        if not stamp or start is None:
            return None
        then = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S.%fZ").replace(tzinfo=UTC)
        return then.timestamp() - float(start)


def looked_at(path: Path) -> sqlite3.Connection:
    """A database that is evidence: nothing is written beside it, either."""
    journal = path.with_name(f"{path.name}-wal")
    untouched = "" if journal.exists() and journal.stat().st_size else "&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{untouched}", uri=True)


def recogniser_of(engine: str) -> str:
    """Whose text it is, by the transcript's `engine`."""
    head = engine.partition("/")[0]
    return head if head in ("openai", "speechkit") else "local"


def squeezed(text: str) -> str:
    """The text without its white space: what is left when it was cut between words."""
    return "".join(text.split())


def shown(text: str, most: int = 70) -> str:
    """A text for a report."""
    return repr(text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)")
