"""I0, I1, I2: the run came to its end, and every accepted recording to one of its three.

- I1. "An accepted recording is never lost silently. It ends as text, or it stays retryable, or
  the sender is told that it failed. There is no fourth outcome" (design 1, invariant 1). Accepted
  is what an HTTP sender got 201 for, and a Telegram message that was confirmed to Telegram
  ("confirmed when it is stored, not when it is received", docs/telegram.md). A recording that
  somebody deleted is out of this: deleting cancels it (docs/operations.md). A sender by HTTP asks
  for the status, which says `halted` (docs/api.md); how a chat is told is I4's.
- I2. `failed` is a step's judgement on this recording ("no audio in it, the recogniser refused
  it"), `dead` is only what was claimed beyond MAX_ATTEMPTS (design 2). So a good recording may be
  `dead` where its attempts are used up, and its row shows it; and `failed` only where a
  recogniser was made to refuse it, or where the engine died three times on one unit of it, or ten
  stopped over it (docs/recognition.md). A full disk "loses nothing and spends no attempts"
  (docs/operations.md),
  so it entitles to neither, and only then are uploads refused with 507. These are counted: the
  ratio is part of the figures.
"""

from __future__ import annotations

import re

from chaos.check.journal import Row
from chaos.check.ledger import Ledger
from chaos.check.run import MILESTONES, STOPPED, Run
from chaos.check.words import REFUSALS, kind_of

NO_SPACE = 507
AFTERMATH = 20.0
"""Seconds after a fault in which an upload may still be refused for it."""


def check(run: Run, ledger: Ledger) -> None:
    """Look at how the run and each of its recordings ended."""
    _whole(run, ledger)
    _recordings(run, ledger)
    _statuses(run, ledger)
    if run.telegram:
        _messages(run, ledger)
        _strangers(run, ledger)
    _verdicts(run, ledger)
    _remote(run, ledger)
    _refusals(run, ledger)


def _whole(run: Run, ledger: Ledger) -> None:
    complete = ledger.clause("I0", "the journal can be read whole", needed=True)
    complete.seen(len(run.journal))
    for where in run.broken_lines:
        complete.expect(False, f"no JSON object at {where}")
    plan = run.folder / "plan.jsonl"
    ledger.clause("I0", "the plan was written", needed=True).expect(
        plan.exists() and plan.stat().st_size, "plan.jsonl is missing or empty"
    )
    ledger.clause("I0", "there were faults").expect(run.faults, "no fault in the journal")
    over = ledger.clause("I0", "each fault was over before the end")
    for fault in run.faults:
        over.expect(fault["id"] in run.over, f"no fault_over for {_shown(fault)}")
    ledger.clause("I0", "it became quiet").expect(run.events("quiet"), "no `quiet` line")
    drained = run.events("drained")
    settled = ledger.clause("I1", "everything settled once it was quiet")
    if settled.expect(drained, "no `drained` line"):
        settled.expect(drained[-1].get("settled"), f"not settled: {drained[-1].get('left')}")


def _shown(event: Row) -> str:
    return " ".join(f"{k}={v}" for k, v in event.items() if k != "event")


def _recordings(run: Run, ledger: Ledger) -> None:
    there = ledger.clause("I1", "a recording answered 201 is there, or was deleted", needed=True)
    for number, send in run.accepted.items():
        there.expect(
            number in run.recordings or run.may_be_gone(number),
            f"{number} (send {send.get('id')}, item {send.get('item')}) is gone, not deleted",
        )
    has_job = ledger.clause("I1", "every recording has its job", needed=True)
    ended = ledger.clause("I1", "every job has ended", needed=True)
    has_text = ledger.clause("I1", "a job that is done has its text")
    for number in run.recordings:
        job = run.jobs.get(number)
        if not has_job.expect(job, f"recording {number} has no job") or job is None:
            continue
        ended.expect(
            job["state"] == "done" or job["state"] in STOPPED,
            f"{number} still stands at {job['state']}: attempts {job['attempts']}, "
            f"error_text {job['error_text']!r}",
        )
        if job["state"] == "done":
            has_text.expect(
                number in run.raw or run.text_may_be_missing(number),
                f"{number} is done and has no raw transcript",
            )


def _statuses(run: Run, ledger: Ledger) -> None:
    told = ledger.clause("I1", "its sender is told how it stands", needed=True)
    halted = ledger.clause("I1", "halted is said exactly of what stopped", needed=True)
    for number in run.accepted:
        status = (run.statuses.get(number) or {}).get("status") or {}
        code, body = status.get("code"), status.get("body") or {}
        if number not in run.recordings:
            told.expect(
                code in (None, 404), f"{number} is deleted, and its status is {code} {body}"
            )
            continue
        if number not in run.jobs:
            continue  # said above
        state, milestone = run.jobs[number]["state"], run.jobs[number]["milestone"]
        good = code == 200 and body.get("job_id") == number and body.get("status") in MILESTONES
        if not told.expect(good, f"{number} is {state}, its sender gets {code} {body}"):
            continue
        halted.expect(
            body.get("halted", False) is (state in STOPPED) and body["status"] == milestone,
            f"{number} is {state} at {milestone}, its sender gets {body}",
        )
        strange = (run.statuses[number].get("stranger") or {}).get("code", 404)
        told.expect(strange == 404, f"{number} is shown to another sender: {strange}")


def _messages(run: Run, ledger: Ledger) -> None:
    consumed = ledger.clause("I1", "every Telegram message was dealt with", needed=True)
    kept = ledger.clause("I1", "a message gave a recording or a word to its sender", needed=True)
    refused = ledger.clause("I2", "no good recording is refused by the bot")
    left = {str(each) for each in run.bot.get("unconfirmed") or []}
    consumed.expect(not left, f"updates that were never confirmed to Telegram: {sorted(left)}")
    by_message = {
        (str(job["chat_id"]), str(job["message_id"])): number for number, job in run.jobs.items()
    }
    unattributed = len(run.unattributed)
    for message in run.messages:
        chat, number = str(message["chat"]), str(message["message_id"])
        what = f"message {message['id']} ({chat}/{number}, item {message['item']})"
        consumed.expect(
            str(message.get("update_id")) not in left, f"{what} was never confirmed to Telegram"
        )
        marks = (number, "None") if (chat, number) in run.gone_messages else (number,)
        words = [
            kind_of(each["text"])
            for each in run.delivered
            if str(each["chat"]) == chat and str(each.get("reply_to")) in marks
        ]
        refusals = [each for each in words if each in REFUSALS]
        known = (chat, number) in by_message or (chat, number) in run.deleted_messages
        if not (known or refusals or _stranger(run, message)) and unattributed:
            unattributed -= 1  # a deleted one whose sender nobody noted
        else:
            kept.expect(
                known or refusals or _stranger(run, message),
                f"{what} is gone: no recording, no refusal. The chat got: {words}",
            )
        if (chat, number) in run.gone_messages:
            continue  # words without a reply mark may be another's
        kept.expect(
            not ((chat, number) in by_message and refusals),
            f"{what} gave {by_message.get((chat, number))}, and its sender was told {refusals}",
        )
        item = run.items.get(message["item"]) or {}
        if refusals and "refused" not in run.outcomes(item):
            given_up = set(refusals) == {"not_taken"} and run.faults
            refused.expect(given_up, f"{what} is good, and its sender was told {refusals}")
            ledger.note(f"given up after its tries, and its sender asked to send again: {what}")
        else:
            refused.seen()


def _strangers(run: Run, ledger: Ledger) -> None:
    """Chats that were never admitted: nothing of theirs is stored, and they are told so."""
    nothing = ledger.clause("I10", "nothing of a stranger's is stored")
    told = ledger.clause("I1", "a stranger is told that it is one")
    admitted = {str(row["chat_id"]) for row in run.tables["chats"]}
    if any(edit.collection == "chats" for edit in run.edits):
        return  # who was admitted when cannot be told
    for chat in {str(each["chat"]) for each in run.messages} - admitted:
        jobs = [number for number, job in run.jobs.items() if str(job["chat_id"]) == chat]
        nothing.expect(not jobs, f"chat {chat} was never admitted, and there is {jobs}")
        words = [kind_of(each["text"]) for each in run.delivered if str(each["chat"]) == chat]
        told.expect(
            "stranger" in words and set(words) == {"stranger"}, f"chat {chat} was told {words}"
        )


def _stranger(run: Run, message: Row) -> bool:
    """Whether the chat may have been none of the admitted ones: it is told once an hour."""
    chat = str(message["chat"])
    rows = {row["id"] for row in run.tables["chats"] if row["chat_id"] == chat}
    withdrawn = any(
        edit.collection == "chats" and edit.record in rows and not edit.fields.get("admitted", True)
        for edit in run.edits
    )
    return message.get("admitted") is False or not rows or withdrawn


def _verdicts(run: Run, ledger: Ledger) -> None:
    broken = ledger.clause("I2", "a broken recording never becomes done")
    good = ledger.clause("I2", "a good recording fails only as faults entitle to", needed=True)
    lost = 0
    for number, job in run.jobs.items():
        item = run.item_of(number) if number in run.recordings else None
        if item is None:
            continue
        outcomes = run.outcomes(item)
        where = f"{number} (item {item['name']}) is {job['state']} at {job['milestone']}: "
        where += f"attempts {job['attempts']}, sent back {job['sent_back']}, {job['error_text']!r}"
        if "done" not in outcomes:
            broken.expect(job["state"] != "done" or run.by_hand(number), where)
        elif job["state"] in STOPPED and outcomes == {"done"}:
            lost += 1
            good.expect(_entitled(run, job), where)
        else:
            good.seen()
    if lost:
        ledger.note(
            f"good recordings that ended failed or dead, as entitled: {lost} of {good.looked}"
        )


def _remote(run: Run, ledger: Ledger) -> None:
    """What remote recognisers refused for good by themselves: they were sent something wrong."""
    clause = ledger.clause("I2", "no recogniser refused what it was sent, but for a fault")
    for each in run.recogniser_calls:
        refused = each.get("status") in (400, 413, 415, 422) and not each.get("fault")
        clause.expect(not refused, _shown(each))


def _entitled(run: Run, job: Row) -> bool:
    limit, text = run.max_attempts, str(job["error_text"])
    if re.search(r"no space left|no_space|answered 507", text, re.IGNORECASE):
        return False  # a full disk is no recording's fault, and spends no attempts
    if job["state"] == "dead":
        return (job["attempts"] > limit or job["sent_back"] > limit) and bool(
            re.search(rf"given up after {limit} attempts", text)
        )
    if re.search(r"recogniser \w+: answered 4(00|13|15|22)\b", text) or "ended with code" in text:
        return bool(run.fault_kinds("refuse"))
    if re.search(r"\b10 engines stopped without a result", text):
        return run.ended("engine") >= 10
    deaths = re.search(r"the engine died (\d+) times", text)
    return deaths is not None and int(deaths[1]) >= 3 and run.ended("engine") >= 3


def _refusals(run: Run, ledger: Ledger) -> None:
    good = ledger.clause("I2", "an upload of a good recording is refused only for a fault")
    broken = ledger.clause("I2", "what the intake must refuse is refused")
    for number, send in run.sends.items():
        reply = run.replies.get(number) or {}
        status = reply.get("status")
        item = run.items.get(send["item"]) or {}
        if not isinstance(status, int):
            continue
        what = f"send {number} (item {send['item']}): {status} {reply.get('body')}"
        if run.outcomes(item) == {"refused"} or run.plan.get(number, {}).get("two_files"):
            broken.expect(status != 201, what)
        elif status != 201:
            disk = ("disk",) if status == NO_SPACE else ("",)
            excused = status >= 500 and _under_fault(
                run, float(send["t"]), float(reply["t"]), *disk
            )
            good.expect(excused, what)
        else:
            good.seen()


def _under_fault(run: Run, began: float, ended: float, *kinds: str) -> bool:
    return any(
        float(each["t"]) <= ended and began <= run.over.get(each["id"], ended) + AFTERMATH
        for each in run.fault_kinds(*kinds)
    )
