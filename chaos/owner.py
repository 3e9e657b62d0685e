"""The panel's owner, who edits, returns, deletes and cancels while everything goes on."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx

from chaos.plan import OWN_CHAT
from chaos.senders import Senders
from chaos.world import MOVING, World
from tests.acceptance.service import OWNER

PATIENCE = httpx.Timeout(15.0, connect=2.0)
Row = dict[str, Any]


class Owner:
    """One person: one thing at a time, over PocketBase's own API, as the panel does."""

    def __init__(self, world: World, senders: Senders, untouched: set[str]) -> None:
        self.world = world
        self.senders = senders
        self.journal = world.journal
        self.untouched = untouched
        """Recordings of the undisturbed run."""
        self._http = httpx.Client(
            base_url=world.service.url, timeout=PATIENCE, trust_env=False,
            limits=httpx.Limits(max_keepalive_connections=0),
        )  # fmt: skip
        self._lock = threading.Lock()
        self._numbers = 400_000
        self._returned: set[str] = set()
        """Jobs that were returned to work for certain."""

    def close(self) -> None:
        self._http.close()

    def log_in(self) -> None:
        answer = self._http.post(
            "/api/collections/_superusers/auth-with-password",
            json={"identity": OWNER[0], "password": OWNER[1]},
        )
        answer.raise_for_status()
        self._http.headers["Authorization"] = answer.json()["token"]
        self.journal.secret("session", answer.json()["token"])

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """A call of the panel's."""
        return self._http.request(method, path, **more)

    def set_recogniser(self, send: int, job: str, recogniser: str) -> None:
        """What the owner wanted for this one, as soon as it is there."""
        if recogniser:
            with self._lock:
                self._numbers += 1
                fields = {"recogniser": recogniser}
                self._do(
                    self._numbers, "set_recogniser", "PATCH", "recordings", job, fields, send=send
                )

    def act(self, fields: dict[str, Any]) -> None:
        """One thing of the plan, if there is anything to do it to."""
        with self._lock, suppress(_NothingThereError):
            action: Callable[[Row], None] = getattr(self, f"_{fields['action']}")
            action(fields)

    def see_to(self) -> None:
        """Do what every run must have had, where there was nothing to do it to until now."""
        for action in (self._return_own, self._recall):
            with self._lock, suppress(_NothingThereError):
                self._numbers += 10
                action({"id": self._numbers})

    # What there is to do

    def _edit_text(self, plan: Row) -> None:
        row = self._one("SELECT id, recording FROM transcripts", plan, "recording")
        text = {"text": f"{plan['word']} edited by the owner"}
        of = row["recording"]
        self._do(plan["id"], "edit_text", "PATCH", "transcripts", row["id"], text, recording=of)

    def _delete_transcript(self, plan: Row) -> None:
        row = self._one("SELECT id, recording FROM transcripts", plan, "recording")
        of = row["recording"]
        self._do(plan["id"], "delete_transcript", "DELETE", "transcripts", row["id"], recording=of)

    def _edit_title(self, plan: Row) -> None:
        row = self._one("SELECT id FROM recordings", plan)
        self._do(
            plan["id"], "edit_title", "PATCH", "recordings", row["id"], {"title": plan["word"]}
        )

    def _set_recogniser(self, plan: Row) -> None:
        """Back to the default for one that had another, which can never be wrong."""
        row = self._one("SELECT id FROM recordings WHERE recogniser <> ''", plan)
        self._do(
            plan["id"], "set_recogniser", "PATCH", "recordings", row["id"], {"recogniser": "local"}
        )

    def _set_priority(self, plan: Row) -> None:
        row = self._one("SELECT id FROM jobs", plan)
        priority = {"priority": int(plan["dice"] * 7) - 3}
        self._do(plan["id"], "set_priority", "PATCH", "jobs", row["id"], priority)

    def _note(self, plan: Row) -> None:
        row = self._one("SELECT id FROM jobs", plan)
        self._do(plan["id"], "note", "PATCH", "jobs", row["id"], {"note": plan["word"]})

    def _return(self, plan: Row) -> None:
        row = self._one("SELECT id, milestone FROM jobs WHERE state IN ('failed', 'dead')", plan)
        goes_on = plan["dice"] < 0.5 and row["milestone"] != "done"
        state = row["milestone"] if goes_on else "uploaded"
        self._do(plan["id"], "return", "PATCH", "jobs", row["id"], {"state": state})

    def _return_own(self, plan: Row) -> None:
        """The one of the rig's own that fails and stays."""
        row = self._own(1)
        if row["id"] not in self._returned:
            self._do(plan["id"], "return", "PATCH", "jobs", row["id"], {"state": "uploaded"})

    def _recall(self, plan: Row) -> None:
        """The other one: it is returned to work, and deleted before that can have ended."""
        row = self._own(2)
        self._do(plan["id"], "return", "PATCH", "jobs", row["id"], {"state": "uploaded"})
        self._do(plan["id"] + 1, "cancel", "DELETE", "recordings", row["id"])

    def _edit_state(self, plan: Row) -> None:
        """What must be refused: a job at work, or one that is done, is put into another state."""
        row = self._one("SELECT id, state FROM jobs WHERE state NOT IN ('failed', 'dead')", plan)
        others = ("uploaded", "normalized", "transcribed", "failed", "dead")
        state = others[int(plan["dice"] * 5)]
        if state == row["state"]:
            state = others[int(plan["dice"] * 5) - 1]
        self._do(plan["id"], "edit_state", "PATCH", "jobs", row["id"], {"state": state})

    def _stale_form(self, plan: Row) -> None:
        """A whole form, opened a moment ago: every field is sent as it was then."""
        row = self._one("SELECT id FROM jobs", plan)
        path = f"/api/collections/jobs/records/{row['id']}"
        try:
            form = self.request("GET", path).json()
        except (httpx.HTTPError, ValueError):
            return
        threading.Event().wait(0.2 + plan["dice"])
        form = {key: value for key, value in form.items() if not key.startswith("collection")}
        form["note"] = plan["word"]
        self._do(plan["id"], "form", "PATCH", "jobs", row["id"], form)

    def _delete(self, plan: Row) -> None:
        stopped = f"state IN ('done', 'failed', 'dead') AND {self._not_own}"
        row = self._one(f"SELECT id FROM jobs WHERE {stopped}", plan)
        self._do(plan["id"], "delete", "DELETE", "recordings", row["id"])

    def _cancel(self, plan: Row) -> None:
        states = ", ".join(f"'{each}'" for each in MOVING)
        working = f"state IN ({states}) AND {self._not_own}"
        row = self._one(f"SELECT id FROM jobs WHERE {working}", plan)
        self._do(plan["id"], "cancel", "DELETE", "recordings", row["id"])

    # How

    @property
    def _not_own(self) -> str:
        """What must happen in every run happens to these: nobody else deletes them."""
        return f"chat_id <> '{self.senders.chat(OWN_CHAT)}'"

    def _own(self, number: int) -> Row:
        """The job of one of the messages in that chat, once it has stopped."""
        stopped = "SELECT * FROM jobs WHERE state IN ('failed', 'dead')"
        try:
            chat, message = self.senders.chat(OWN_CHAT), self.senders.own[number]
            sql = f"SELECT id FROM ({stopped}) WHERE chat_id = ? AND message_id = ?"
            return self.world.rows(sql, str(chat), str(message))[0]
        except (sqlite3.Error, IndexError) as error:
            raise _NothingThereError from error

    def _one(self, sql: str, plan: Row, key: str = "id") -> Row:
        """The row that the plan's pick falls on. The rig reads the table: no fault hides it."""
        try:
            rows = self.world.rows(f"SELECT * FROM ({sql}) ORDER BY {key}")
        except sqlite3.Error as error:
            raise _NothingThereError from error
        rows = [row for row in rows if row[key] not in self.untouched]
        if not rows:
            raise _NothingThereError
        return rows[int(plan["pick"] * len(rows))]

    def _do(self, identifier: int, action: str, method: str, collection: str, record: str,
            fields: Row | None = None, **more: Any) -> None:  # fmt: skip
        path = f"/api/collections/{collection}/records/{record}"
        told: Row = {"began": self.journal.now}
        if method == "DELETE" and collection == "recordings":
            told["was"] = self._from(record)
        try:
            answer = self.request(method, path, json=fields)
            if answer.status_code in {401, 403}:
                self.log_in()
                answer = self.request(method, path, json=fields)
            told["status"] = answer.status_code
            if answer.status_code >= 400:
                told["message"] = answer.json().get("message", "")
            elif collection == "jobs":
                told["answered"] = {"updated": answer.json()["updated"]}
                if action == "return":
                    self._returned.add(record)
        except (httpx.HTTPError, ValueError) as error:
            told["lost"] = type(error).__name__
        self.journal.write(
            "owner", id=identifier, action=action, collection=collection, record=record,
            fields=fields or {}, **told, **more,
        )  # fmt: skip

    def _from(self, record: str) -> Row:
        """Which message a recording came from."""
        with suppress(sqlite3.Error):
            for row in self.world.rows("SELECT chat_id, message_id FROM jobs WHERE id = ?", record):
                return row
        return {}


class _NothingThereError(Exception):
    """There is nothing to do this to."""
