"""What the journal and the logs say of one recording, in order of time."""

from __future__ import annotations

import json
import re
from datetime import datetime

from chaos.check.journal import Row
from chaos.check.run import Run

FAR = 600.0
"""Seconds from one line to the next that no log lets pass in a run."""
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}")


def story(run: Run, recording: str) -> str:
    """A line each: seconds from the start of the run, whose line it is, and the line."""
    found = [(float(each["t"]), "journal", _shown(each)) for each in _told(run, recording)]
    start = float(run.settings.get("started_at") or 0)
    for log in sorted((run.folder / "logs").glob("*.log")):
        at = 0.0
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if stamp := _STAMP.search(line):
                said = datetime.fromisoformat(stamp[0]).timestamp() - start
                # A worker's clock that a fault has set says nothing; its line's place does.
                at = said if abs(said - at) < FAR else at
            if recording in line:
                found.append((at, log.stem, line.strip()))
    found.sort(key=lambda each: each[0])
    return "\n".join(f"{at:9.2f}  {whose:8} {line}" for at, whose, line in found)


def _told(run: Run, recording: str) -> list[Row]:
    """The journal's lines that name it, or the send or the message that it came from."""
    named = [each for each in run.journal if recording in json.dumps(each)]
    origin = run.origin.get(recording) or run.accepted.get(recording) or {}
    sends = {each["id"] for each in [*named, origin] if each.get("id") in run.sends}
    job = run.jobs.get(recording, {})
    messages = {(str(job["chat_id"]), str(job["message_id"]))} if job.get("message_id") else set()
    messages |= {key for key, gone in run.deleted_messages.items() if gone == recording}
    return [
        each
        for each in run.journal
        if each in named
        or (each["event"] in ("send", "answer", "lost", "printed") and each.get("id") in sends)
        or (str(each.get("chat")), str(each.get("message_id"))) in messages
    ]


def _shown(event: Row) -> str:
    told = " ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in event.items()
                    if k not in ("t", "event"))  # fmt: skip
    return f"{event['event']} {told}"
