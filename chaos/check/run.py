"""One run's folder, read: the journal of what the outside saw, and how things stood at the end."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

Row = dict[str, Any]

MILESTONES = ("uploaded", "normalized", "submitted", "transcribed", "done")
STOPPED = ("failed", "dead")
TABLES = (
    "recordings", "jobs", "transcripts", "answers", "operations", "segments", "chats", "users",
)  # fmt: skip
ENDING = ("kill", "pb_kill", "restart", "stop", "kill_child", "clock")
"""Kinds of faults that end, stop or start a process; a clock is set by a new start, twice."""
EVERYTHING = ("service", "up")
"""Targets whose end is that of every process beside them."""


class Unusable(Exception):
    """The folder is not one of a finished run; the message says what is missing."""


class Edit:
    """One thing that the owner (or a sender) asked of a record through PocketBase's own API."""

    def __init__(self, event: Row) -> None:
        self.event = event
        self.id = event.get("id")
        self.action = str(event.get("action", ""))
        self.collection = str(event.get("collection", ""))
        self.record = str(event.get("record", ""))
        self.fields: Row = event.get("fields") or {}
        self.ended = float(event["t"])
        self.began = float(event.get("began", self.ended))
        status = event.get("status")
        self.sure = isinstance(status, int) and 200 <= status < 300
        """It was answered as done."""
        self.maybe = not isinstance(status, int) or status >= 500
        """Nobody knows: its answer was lost. It may even have taken effect later than it ended."""

    @property
    def returns(self) -> bool:
        """Whether it puts a job into another state.

        A whole form with its `updated` does not: it holds the state that it was opened with, and is
        refused when that is not the stored one any more.
        """
        return self.collection == "jobs" and (
            self.action == "return" or ("state" in self.fields and "updated" not in self.fields)
        )

    @property
    def recording(self) -> str:
        """The recording that it is about, where that is known."""
        if self.collection in ("recordings", "jobs"):
            return self.record
        return str(self.event.get("of") or self.event.get("recording") or "")

    @property
    def deletes(self) -> bool:
        """Whether it asks for the record to be gone."""
        return self.action.startswith("delete") or self.action == "cancel"

    def __str__(self) -> str:
        outcome = self.event.get("status") or f"lost ({self.event.get('lost')})"
        return f"{self.action} #{self.id} of {self.collection}/{self.record} -> {outcome}"


class Run:
    """Everything in the folder, each part read when first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.end = folder / "end"
        self.broken_lines: list[str] = []
        self.journal = list(self._lines(folder / "journal.jsonl"))
        if not self.journal:
            raise Unusable(f"{folder / 'journal.jsonl'}: missing or empty")
        if not (self.end / "data.db").exists():
            raise Unusable(f"{self.end / 'data.db'}: missing; the run did not come to its end")

    def _lines(self, path: Path) -> Iterator[Row]:
        if not path.exists():
            return
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if isinstance(row, dict):
                yield row
            elif line.strip():
                self.broken_lines.append(f"{path.name}:{number}")

    def _json(self, name: str, default: Any) -> Any:
        path = self.end / name
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else default

    # The journal

    def events(self, *kinds: str) -> list[Row]:
        """The journal's lines of these kinds, in order."""
        return [each for each in self.journal if each.get("event") in kinds]

    @cached_property
    def settings(self) -> Row:
        """How the service was set up."""
        found = self.events("settings")
        return found[0] if found else {}

    @cached_property
    def max_attempts(self) -> int:
        """`MAX_ATTEMPTS`."""
        return int(self.settings.get("max_attempts", 10))

    @cached_property
    def telegram(self) -> bool:
        """Whether there was a Telegram input: somebody sent something by it, or meant to."""
        return bool(self.events("message")) or bool(self.settings.get("telegram"))

    @cached_property
    def items(self) -> dict[str, Row]:
        """The corpus by name."""
        return {each["name"]: each for each in self.events("item")}

    @cached_property
    def items_by_sha(self) -> dict[str, Row]:
        """The corpus by the files' sha256."""
        return {each["sha256"]: each for each in self.items.values()}

    @cached_property
    def sends(self) -> dict[Any, Row]:
        """What HTTP senders sent, by id."""
        return {each["id"]: each for each in self.events("send")}

    @cached_property
    def replies(self) -> dict[Any, Row]:
        """What came back for each send: its `answer` or `lost` line."""
        return {each["id"]: each for each in self.events("answer", "lost") if "id" in each}

    @cached_property
    def accepted(self) -> dict[str, Row]:
        """The sends that were answered 201, by the job's id; those of the undisturbed start too."""
        before = {str(each["job_id"]): each for each in self.events("reference")}
        return before | {
            str(reply["body"]["job_id"]): self.sends[number]
            for number, reply in self.replies.items()
            if reply.get("status") == 201 and number in self.sends and _job_id(reply)
        }

    @cached_property
    def unanswered(self) -> list[Row]:
        """The sends of which nobody knows whether they were taken."""
        return [
            send
            for number, send in self.sends.items()
            if number not in self.replies or self.replies[number]["event"] == "lost"
        ]

    @cached_property
    def messages(self) -> list[Row]:
        """What Telegram users sent, commands left out."""
        return [each for each in self.events("message") if each.get("item")]

    @cached_property
    def commands(self) -> list[Row]:
        """What Telegram users wrote."""
        return [each for each in self.events("message") if each.get("text")]

    @cached_property
    def edits(self) -> list[Edit]:
        """What was asked of records, in the order of the answers."""
        return [Edit(each) for each in self.events("owner", "sender_delete")]

    @cached_property
    def users(self) -> dict[str, str]:
        """The senders' account ids by e-mail."""
        return {each["email"]: each["id"] for each in self.tables["users"]}

    @cached_property
    def faults(self) -> list[Row]:
        """What was done to the service; what did not meet its target was not."""
        return [each for each in self.events("fault") if each.get("met", True)]

    @cached_property
    def over(self) -> dict[Any, float]:
        """When each fault was over."""
        return {each["id"]: float(each["t"]) for each in self.events("fault_over")}

    def fault_kinds(self, *words: str) -> list[Row]:
        """Faults whose kind holds one of these words."""
        return [each for each in self.faults if any(w in str(each.get("kind")) for w in words)]

    def ended(self, process: str) -> int:
        """How often a process of this name was ended or stopped, on whichever machine."""
        found = 0
        for each in self.faults:
            parts = re.split(r"[^a-z]+", str(each.get("target", "")))
            if each.get("kind") in ENDING and {process, *EVERYTHING}.intersection(parts):
                found += 2 if each["kind"] == "clock" else 1
        return found

    @property
    def wiped(self) -> bool:
        """Whether the service as a whole was started again, which clears its counters."""
        return any(each.get("target") in EVERYTHING for each in self.faults)

    @cached_property
    def plan(self) -> dict[Any, Row]:
        """What was to be done, by id."""
        return {
            each["id"]: each for each in self._lines(self.folder / "plan.jsonl") if "id" in each
        }

    @cached_property
    def last_start(self) -> tuple[float, float]:
        """When PocketBase's last end began, and from when on only its next life can answer.

        0 where it never ended. A stop (SIGSTOP) is no end: the process and its counts live on.
        """
        began, over = 0.0, 0.0
        for each in self.faults:
            ends = each.get("kind") in ("kill", "pb_kill", "restart")
            if ends and each.get("target") in ("pb", *EVERYTHING):
                # The line is written just after the signal, and only SIGKILL is at once.
                at, last = float(each["t"]), self.over.get(each["id"], float(each["t"]))
                began = max(began, at - 1)
                over = max(over, last + (0 if each["kind"] != "restart" else 15))
        return began, over

    # What was deleted

    @cached_property
    def deleted(self) -> set[str]:
        """Recordings that were deleted for certain."""
        return {
            e.record for e in self.edits if e.collection == "recordings" and e.deletes and e.sure
        }

    @cached_property
    def perhaps_deleted(self) -> set[str]:
        """Recordings that may have been deleted: the answer was lost."""
        return {
            e.record for e in self.edits if e.collection == "recordings" and e.deletes and e.maybe
        }

    def may_be_gone(self, recording: str) -> bool:
        """Whether somebody asked for it to be deleted."""
        return recording in self.deleted or recording in self.perhaps_deleted

    @cached_property
    def deleted_messages(self) -> dict[tuple[str, str], str]:
        """The Telegram recordings that somebody deleted, or may have, by chat and message."""
        gone = {}
        for edit in self.edits:
            was = edit.event.get("was") or {}
            if edit.deletes and (edit.sure or edit.maybe) and was.get("message_id"):
                gone[str(was.get("chat_id")), str(was["message_id"])] = edit.record
        return gone

    def by_hand(self, job: str) -> bool:
        """Whether the owner put a job to `done`, or may have."""
        return any(
            e.returns and e.record == job and e.fields["state"] == "done" and (e.sure or e.maybe)
            for e in self.edits
        )

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

    def returns(self, job: str) -> tuple[int, int]:
        """How often the owner returned a job to work: certainly, and perhaps besides."""
        mine = [each for each in self.edits if each.returns and each.record == job]
        return sum(e.sure for e in mine), sum(e.maybe for e in mine)

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
        return {str(each["job_id"]): each for each in self._lines(self.end / "statuses.jsonl")}

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


def _job_id(reply: Row) -> bool:
    return isinstance(reply.get("body"), dict) and bool(reply["body"].get("job_id"))


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
