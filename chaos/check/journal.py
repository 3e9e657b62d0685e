"""The journal of a run: what was done to the service, and what the outside saw of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

Row = dict[str, Any]

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


class Journal:
    """What was done and seen, each part read when first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broken_lines: list[str] = []
        self.journal = list(self.lines(folder / "journal.jsonl"))
        if not self.journal:
            raise Unusable(f"{folder / 'journal.jsonl'}: missing or empty")

    def lines(self, path: Path) -> Iterator[Row]:
        """A file's JSON objects, one a line."""
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

    @property
    def given(self) -> bool:
        """Whether it followed a plan that somebody chose, and may have cut down."""
        return bool(self.settings.get("given"))

    @property
    def certain(self) -> bool:
        """Whether the rig saw to it that there was what every run must have; older ones did not."""
        return bool(self.settings.get("certain"))

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
            whole = each.get("target") == "second"
            if each.get("kind") in ENDING and (whole or {process, *EVERYTHING}.intersection(parts)):
                found += 2 if each["kind"] == "clock" else 1
        return found

    @cached_property
    def plan(self) -> dict[Any, Row]:
        """What was to be done, by id."""
        return {each["id"]: each for each in self.lines(self.folder / "plan.jsonl") if "id" in each}

    @cached_property
    def last_start(self) -> tuple[float, float]:
        """When PocketBase's last end began, and from when on only its next life can answer.

        0 where it never ended. A stop (SIGSTOP) is no end: the process and its counts live on.
        """
        began, over = 0.0, 0.0
        for each in self.faults:
            ends = each.get("kind") in ("kill", "pb_kill", "restart")
            if ends and each.get("target") in ("pb", *EVERYTHING):
                # The line is written just after the signal, and only SIGKILL is at once; the end of
                # `up` takes PocketBase along by and by.
                at, last = float(each["t"]), self.over.get(each["id"], float(each["t"]))
                began = max(began, at - 1)
                over = max(over, last + (30 if each["target"] in EVERYTHING else 0))
                over = max(over, last + (15 if each["kind"] == "restart" else 0))
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

    def returns(self, job: str) -> tuple[int, int]:
        """How often the owner returned a job to work: certainly, and perhaps besides.

        To ask a job at work for the state that it has is answered as done, and returns nothing.
        """
        mine = [each for each in self.edits if each.returns and each.record == job]
        sure = sum(e.sure and e.action == "return" for e in mine)
        return sure, sum(e.sure or e.maybe for e in mine) - sure


def _job_id(reply: Row) -> bool:
    return isinstance(reply.get("body"), dict) and bool(reply["body"].get("job_id"))
