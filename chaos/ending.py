"""Writes down what is there at the end, for somebody who was not there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from chaos.owner import Owner
from chaos.reference import Reference
from chaos.senders import Senders
from chaos.world import World, eventually
from tests.acceptance.service import wait_until

LATER = 3 * 3600.0
"""Seconds by which everything is made older, so that every grace time is over."""


class Ending:
    def __init__(self, world: World, owner: Owner, senders: Senders, reference: Reference) -> None:
        self.world = world
        self.owner = owner
        self.senders = senders
        self.reference = reference
        self.folder = world.folder / "end"
        self.folder.mkdir()

    def drain(self, limit: float) -> bool:
        """Wait until everything has come to rest; no longer than `limit` for the next thing to."""
        deadline = time.monotonic() + limit
        settled, least = False, len(self._left())
        while not settled and time.monotonic() < deadline:
            time.sleep(0.2)
            if (left := len(self._left())) < least:
                deadline, least = time.monotonic() + limit, left
            # Twice in a row: between two states of one thing there may be nothing to be seen.
            settled = self.world.settled() and not time.sleep(0.5) and self.world.settled()
        left = {} if settled else self.world.unsettled()
        self.world.journal.write("drained", settled=settled, left=left)
        return settled

    def _left(self) -> list[str]:
        return [each for kind in self.world.unsettled().values() for each in kind]

    def write(self) -> None:
        """The evidence, while the service runs and after it has stopped."""
        self._statuses()
        self._sweep()
        metrics = ""  # no page is something for the checker to see
        with suppress(AssertionError):
            metrics = eventually(self.world.metrics, 20, "the metrics page")
        (self.folder / "metrics.txt").write_text(metrics, encoding="utf-8")
        self.world.stop()
        pocketbase = self.world.data / "pocketbase"
        for name in ("data.db", "auxiliary.db"):
            with (
                closing(sqlite3.connect(pocketbase / name)) as source,
                closing(sqlite3.connect(self.folder / name)) as target,
            ):
                source.backup(target)
        self._keep("storage.json", self._storage())
        self._keep("telegram.json", self.world.telegram.evidence())
        self._keep("recogniser.json", {
            "openai": self.world.openai.record, "speechkit": self.world.speechkit.record,
        })  # fmt: skip

    def _keep(self, name: str, content: Any) -> None:
        text = json.dumps(content, ensure_ascii=False, indent=1)
        (self.folder / name).write_text(text, encoding="utf-8")

    def _statuses(self) -> None:
        user = self.reference.user
        assert user is not None
        sent = list(self.senders.sessions.items())
        told = [(number, *given) for number, given in sent]
        told += [(-n, job, user) for n, job in enumerate(self.reference.jobs, 1)]
        with (self.folder / "statuses.jsonl").open("w", encoding="utf-8") as file:
            for number, job, sender in told:
                found = self.senders.status(job, sender)
                line = {"id": number, "job_id": job, "sender": sender.email, **found}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def _sweep(self) -> None:
        """Let the grace time pass for everything, and have the nightly sweep run."""
        then = time.time() - LATER
        storage = self.world.data / "pocketbase" / "storage"
        for path in sorted(storage.rglob("*"), reverse=True):
            with suppress(FileNotFoundError):
                os.utime(path, (then, then))
        self.world.service.execute(
            "UPDATE operations SET updated = strftime('%Y-%m-%d %H:%M:%fZ', 'now', '-3 hours')"
        )
        self.owner.log_in()
        answer = self.owner.request("POST", "/api/crons/transcriberSweep")
        answer.raise_for_status()
        # It runs by itself after the answer; what it removes is gone within a moment.
        seen: list[int] = []

        def at_rest() -> bool:
            # Not by `rglob`, which trips over a folder that the sweep removes under its feet.
            seen.append(sum(len(folders) + len(files) for _, folders, files in os.walk(storage)))
            return len(seen) > 3 and len(set(seen[-3:])) == 1

        wait_until(lambda: time.sleep(0.1) or at_rest(), 20, "the sweep")

    def _storage(self) -> dict[str, Any]:
        storage = self.world.data / "pocketbase" / "storage"
        files = [
            {"path": str(path.relative_to(storage)), "size": path.stat().st_size,
             "mtime": path.stat().st_mtime, "sha256": _digest(path)}
            for path in sorted(storage.rglob("*")) if path.is_file()
        ]  # fmt: skip
        scratch = [
            str(path.relative_to(self.world.folder))
            for machine in (self.world.data, self.world.second)
            for path in sorted((machine / "run").rglob("*"))
            if path.is_file()
        ]
        temporary = [str(path.name) for path in self.world.data.glob("pocketbase/.pb_temp*")]
        return {"files": files, "scratch": scratch, "temporary": temporary, "swept": True}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tidy(folder: Path) -> None:
    """A run in which nothing was found leaves nothing."""
    shutil.rmtree(folder, ignore_errors=True)
