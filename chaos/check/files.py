"""I6: files and records belong together, and the bytes are those that were sent.

- "The contents of the recording lie whole in the store as one file" (intake, "Запись принята");
  what its record names is there, byte for byte.
- "Deleting one removes its files, job and texts. What a crash left between a file and its record
  is removed every night" (docs/operations.md, "Disk"), once it is older than two hours. The rig
  makes everything that old and has it swept (`swept`); where it did not, younger files are let
  pass.
- The normalised audio has a record's name as well. It may be made again while its job is on the
  way, so only a job that has come to its end must have the file that it names.
- Stored names are identifiers of the service's own plus the sender's extension (intake, "Имя
  файла в хранилище"); beside each lies PocketBase's note of it, `.attrs`.
- `run/` holds locks, counters and scratch of live processes (docs/operations.md). When all have
  stopped, nothing of a recording is left in it, except what the engine keeps for recordings that
  may come back: three, until it starts again (worker/engine/scratch.py says so, and no promise of
  the docs is against it; so they are counted and noted, not called a violation).
"""

from __future__ import annotations

import re

from chaos.check.ledger import Ledger
from chaos.check.run import STOPPED, Run

GRACE_HOURS = 2
_NAME = re.compile(r"[a-z0-9]{20}\.[A-Za-z0-9_-]{1,16}")
_BESIDE = re.compile(
    r"(^|/)(machine|[a-z-]+\.lock|metrics/\w+_\d+\.(db|new)|public/?|telegram\.\w+|pulse\S*)$"
)
_KEPT = re.compile(r"(^|/)engine/")


def check(run: Run, ledger: Ledger) -> None:
    """Look at every record's files, and at every file."""
    has_file = ledger.clause("I6", "every record has its file", needed=True)
    as_sent = ledger.clause("I6", "its bytes are those that were sent", needed=True)
    normalised = ledger.clause(
        "I6", "the normalised audio that a record names is there", needed=True
    )
    for number, row in run.recordings.items():
        file = run.stored_names.get((number, row["audio"]))
        if has_file.expect(
            file, f"{number} names {row['audio'] or 'nothing'}, and it is not there"
        ):
            assert file is not None
            origin = run.origin.get(number)
            item = run.items.get(origin["item"]) if origin else None
            right = file["sha256"] == item["sha256"] if item else file["sha256"] in run.items_by_sha
            as_sent.expect(
                right,
                f"{number}: {file['size']} bytes, sha256 {file['sha256'][:12]}, "
                f"sent was {item and item['name']} of {item and item['size']} bytes",
            )
        if row["normalized"] and run.jobs.get(number, {}).get("state") in ("done", *STOPPED):
            found = run.stored_names.get((number, row["normalized"]))
            normalised.expect(
                found and found["size"] > 0,
                f"{number} names {row['normalized']}, and it is not there",
            )
    _files(run, ledger)
    _scratch(run, ledger)


def _files(run: Run, ledger: Ledger) -> None:
    known = ledger.clause("I6", "every file has its record, after the grace", needed=True)
    named = ledger.clause("I6", "stored names are the service's own", needed=True)
    ends = float(run.settings.get("started_at") or 0) + max(float(e["t"]) for e in run.journal)
    for (number, name), file in run.stored_names.items():
        base = name.removesuffix(".attrs")
        row = run.recordings.get(number)
        belongs = row is not None and base in (row["audio"], row["normalized"])
        young = not run.swept and ends - float(file.get("mtime") or 0) < GRACE_HOURS * 3600
        state = "which is not there" if row is None else f"which names {row['audio']}"
        known.expect(belongs or young, f"{file['path']} belongs to {number}, {state}")
        named.expect(_NAME.fullmatch(base), f"{file['path']} is no name of the service's own")
        if row is not None and base == row["audio"]:
            tail = base.partition(".")[2]
            named.expect(
                tail == row["extension"], f"{file['path']}: the record says {row['extension']!r}"
            )


def _scratch(run: Run, ledger: Ledger) -> None:
    if run.scratch is None:
        return
    clean = ledger.clause("I6", "no leftovers in the scratch folders")
    kept = 0
    for path in run.scratch:
        if _KEPT.search(path):
            kept += 1
        else:
            clean.expect(_BESIDE.search(path), f"{path} is left in a scratch folder")
    if kept:
        ledger.note(f"files that engines kept for recordings that may come back: {kept}")
