"""I10: accepted is stored, refused is not, and what nobody knows of is there once at most.

- "The accepted recording MUST be stored and get its record at `uploaded`; the answer MUST carry
  its identifier as `job_id` and its milestone as `status`" (intake, "Приём записи по HTTP").
- "On any refusal neither file nor record stays" (intake, 401, 403, 400 and 500; design 5); the
  one form of every refusal is {"error_code", "message"} by the table of errors.ru.md.
- A send whose answer was lost may have been taken or not; it was sent once, so it is there once
  at most. Which recording it is shows its title, or else its sender and bytes.
"""

from __future__ import annotations

import re
from collections import Counter

from chaos.check.ledger import Ledger
from chaos.check.run import Run

CODES = {
    401: "unauthorized", 403: "forbidden", 404: "not_found", 400: "bad_request", 413: "too_large",
    429: "too_many_requests", 409: "not_ready", 500: "internal", 507: "no_space",
}  # fmt: skip


def check(run: Run, ledger: Ledger) -> None:
    """Look at every answer, and at every recording that came by HTTP."""
    form = ledger.clause("I10", "201 names a job of its own at uploaded", needed=True)
    stored = ledger.clause("I10", "every 201 has its stored file", needed=True)
    ids = Counter[str]()
    for number, reply in run.replies.items():
        status, body = reply.get("status"), reply.get("body") or {}
        if not isinstance(status, int) or number not in run.sends:
            continue
        if status == 201:
            job = str(body.get("job_id") or "")
            ids[job] += 1
            said = body.get("status", "uploaded" if run.sends[number].get("via") == "cli" else "")
            form.expect(
                re.fullmatch(r"[a-z0-9]{15}", job) and said == "uploaded" and ids[job] == 1,
                f"send {number}: 201 {body}, job {job} named {ids[job]} times",
            )
        else:
            ledger.clause("I10", "a refusal has the one form").expect(
                body.get("error_code") == CODES.get(status) and body.get("message"),
                f"send {number}: {status} {body}",
            )
    for number in run.accepted:
        row = run.recordings.get(number)
        if row is not None:
            stored.expect(
                (number, row["audio"]) in run.stored_names,
                f"{number}: {row['audio']} is not stored",
            )
    _unknown(run, ledger)


def _unknown(run: Run, ledger: Ledger) -> None:
    """Recordings that no 201 names: each needs a send of its own whose answer was lost."""
    owed = ledger.clause("I10", "no recording without a send that may have made it", needed=True)
    refused = ledger.clause("I10", "what was refused is not there")
    lost = Counter((send.get("sender"), send["item"]) for send in run.unanswered)
    unanswered = {send["id"] for send in run.unanswered}
    emails = {number: email for email, number in run.users.items()}
    for number, row in run.recordings.items():
        if number in run.accepted or row["source"] != "http":
            owed.seen()
            continue
        origin, item = run.origin.get(number), run.item_of(number)
        key = (emails.get(row["owner"]), item["name"] if item else None)
        if origin is not None and origin["id"] not in unanswered:
            reply = run.replies[origin["id"]]
            refused.expect(
                False, f"{number}: send {origin['id']} was answered {reply.get('status')}"
            )
            continue
        lost[key] -= 1
        owed.expect(
            lost[key] >= 0,
            f"{number} (of {key[0]}, item {key[1]}): no send without an answer is left for it",
        )
    for number, reply in run.replies.items():
        if isinstance(reply.get("status"), int) and reply["status"] != 201 and number in run.sends:
            refused.seen()
