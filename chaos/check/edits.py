"""I5: no owner's edit undone, and what was deleted stays away.

- "The queue's columns live in `jobs`; a save ... keeps every queue column as it is in the
  database at that moment ...; only `state`, `priority` and the owner's own notes pass" (design
  4). "Only the holder of the claim writes a result, and only the columns of its own step" (design
  1, invariant 3; pipeline: "Правка владельца пережила сохранение шага").
- What is the owner's stands in the table of docs/operations.md: of `recordings` the `title`,
  `language`, `vocabulary`, `channels`, and `recogniser` (docs/recognisers.md); of `jobs` the
  `priority`, `note`, and the `state` of a stopped job; `transcripts` anything, but "a new
  recognition of the same recording replaces the text"; of `chats` all.
- The last edit of a field stands at the end. One whose answer was lost may have taken effect or
  not, and also later than its sender gave up: a stopped server carries out what lies in its
  socket when it goes on. Two that overlapped in time may have come in either order. One that was
  refused (4xx) has changed nothing.
- The service's own columns are not taken from a form ("What you type into the service's own
  fields is not taken"): they still say what was sent.
- A job returned to work has gone on from there: it cannot stand as it stood before.
- Deleting a recording removes its files (I6), its job and its texts (docs/operations.md, "Disk").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from chaos.check.journal import Edit, Row
from chaos.check.ledger import Clause, Ledger
from chaos.check.run import STOPPED, Run, shown

OWNERS = {
    "recordings": ("title", "language", "vocabulary", "channels", "recogniser"),
    "jobs": ("priority", "note"),
    "transcripts": ("text",),
    "chats": ("chat_id", "note", "admitted"),
}


def check(run: Run, ledger: Ledger) -> None:
    """Look at every field that was edited, and at every record that was deleted."""
    stands = ledger.clause("I5", "the last edit of a field stands", needed=True)
    for collection, record, field, edits in _edited(run):
        _last(run, stands, collection, record, field, edits)
    _untouched(
        run, ledger.clause("I5", "what the owner did not edit is as it was sent", needed=True)
    )
    _own(run, ledger.clause("I5", "the service's own columns say what was sent", needed=True))
    _deleted(run, ledger)
    returned = ledger.clause("I5", "a job returned to work has gone on", needed=run.certain)
    for edit in run.edits:
        if edit.returns and edit.sure:
            _returned(run, returned, edit)


def _edited(run: Run) -> Iterator[tuple[str, str, str, list[Edit]]]:
    found: dict[tuple[str, str, str], list[Edit]] = defaultdict(list)
    for edit in run.edits:
        for field in OWNERS.get(edit.collection, ()):
            if field in edit.fields and not edit.deletes and (edit.sure or edit.maybe):
                found[edit.collection, edit.record, field].append(edit)
    for (collection, record, field), edits in found.items():
        yield collection, record, field, edits


def _last(
    run: Run, stands: Clause, collection: str, record: str, field: str, edits: list[Edit]
) -> None:
    sure = [each for each in edits if each.sure]
    if not sure:
        return  # whatever there is may be what was there before
    recording = edits[0].recording
    rows = {row["id"]: row for row in run.tables[collection]}
    row = rows.get(record)
    what = f"{collection}/{record}.{field}: {[str(each) for each in edits]}"
    if row is None:
        gone = run.may_be_gone(str(recording)) or any(
            e.deletes and e.record == record and (e.sure or e.maybe) for e in run.edits
        )
        stands.expect(gone, f"the record is not there any more, and nobody deleted it. {what}")
        return
    allowed = [
        each.fields[field]
        for n, each in enumerate(edits)
        if each.maybe or not any(e.sure and e.began >= each.ended for e in edits[n + 1 :])
    ]
    if collection == "transcripts":
        allowed += _recognised_anew(run, row["recording"], sure)
    stands.expect(
        any(_same(row[field], value) for value in allowed),
        f"{shown(str(row[field]))}, not {[shown(str(value)) for value in allowed]}. {what}",
    )


def _recognised_anew(run: Run, recording: str, sure: list[Edit]) -> list[str]:
    """The texts that a recognition after the last edit may have put in its place."""
    last = max(each.began for each in sure)
    again = any(
        e.returns and e.record == recording and (e.sure or e.maybe) and e.ended >= last
        for e in run.edits
    )
    # A job sent back ("the text is missing") is recognised once more as well.
    sent_back = run.jobs.get(recording, {}).get("sent_back", 0) > 0
    item = run.item_of(recording)
    return sorted(run.right_texts(item)) if item and (again or sent_back) else []


def _same(stored: Any, value: Any) -> bool:
    if isinstance(value, bool):
        return bool(stored) is value
    if isinstance(value, int | float) and isinstance(stored, int | float):
        return float(stored) == float(value)
    return str(stored) == str(value)


def _untouched(run: Run, untouched: Clause) -> None:
    """Hints that nobody edited are those of the sender; nothing else writes them."""
    edited = {(record, field) for _, record, field, _ in _edited(run)}
    for number, send in run.origin.items():
        row = run.recordings[number]
        if "sender" not in send:
            continue
        for field in ("title", "vocabulary"):
            if (number, field) not in edited and field in send:
                untouched.expect(
                    row[field] == (send[field] or "").strip(),
                    f"{number}.{field} is {shown(row[field])}, sent was {shown(send[field] or '')}",
                )
        if (number, "language") not in edited and "language" in send:
            wanted = (send["language"] or "").lower().split("-")[0]
            untouched.expect(
                row["language"] == wanted,
                f"{number}.language is {row['language']!r}, sent was {send['language']!r}",
            )


def _own(run: Run, own: Clause) -> None:
    for number, row in run.recordings.items():
        send = run.origin.get(number)
        own.expect(
            row["id"] == number and row["source"] in ("http", "telegram"), f"{number}: {row}"
        )
        file = run.stored_names.get((number, row["audio"]))
        if file:
            own.expect(
                row["size"] == file["size"],
                f"{number}: size is {row['size']}, its file has {file['size']}",
            )
        if send and send.get("sender"):
            user = run.users.get(send["sender"])
            own.expect(
                user is None or (row["owner"] == user and row["source"] == "http"),
                f"{number}: {row['owner']!r} by {row['source']}; sent by {send['sender']}",
            )
        elif row["source"] == "telegram":
            own.expect(
                row["owner"] == "", f"{number} came by Telegram and has the owner {row['owner']}"
            )


def _deleted(run: Run, ledger: Ledger) -> None:
    away = ledger.clause(
        "I5", "a deleted record stays away, with what hangs on it", needed=run.certain
    )
    for edit in run.edits:
        if not (edit.deletes and edit.sure and edit.collection in run.tables):
            continue
        rows: list[Row] = run.tables[edit.collection]
        away.expect(
            all(row["id"] != edit.record for row in rows), f"it is there again after {edit}"
        )
        if edit.collection == "recordings":
            for table in ("jobs", "transcripts", "answers", "operations"):
                left = [r["id"] for r in run.tables[table] if r["recording"] == edit.record]
                away.expect(not left, f"{table} {left} are left after {edit}")
    orphans = ledger.clause("I5", "no row hangs on a record that is not there", needed=True)
    for table in ("jobs", "transcripts", "answers", "operations"):
        for row in run.tables[table]:
            orphans.expect(
                row["recording"] in run.recordings,
                f"{table}/{row['id']} belongs to {row['recording']}, which is not there",
            )
    operations = {row["id"] for row in run.tables["operations"]}
    for row in run.tables["segments"]:
        orphans.expect(
            row["operation"] in operations,
            f"segments/{row['id']} belongs to the operation {row['operation']}, which is not there",
        )


def _returned(run: Run, returned: Clause, edit: Edit) -> None:
    job = run.jobs.get(edit.record)
    then = edit.event.get("answered") or {}
    if job is None or not then.get("updated"):
        return
    state = str(edit.fields["state"])
    stood = job["state"] in STOPPED and job["updated"] <= then["updated"]
    returned.expect(
        not stood, f"{edit.record} is {job['state']} since {job['updated']}: {edit} to {state}"
    )
