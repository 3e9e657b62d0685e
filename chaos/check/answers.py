"""I4: every Telegram sender is answered, nobody twice, and nobody with another's text.

- "The text SHALL go as a reply to its message ... in pieces of at most 4096 UTF-16 units in
  order, or as a file ... An answer MUST not be lost by a crash ... and MUST not be sent twice by
  the service itself" (docs/telegram.md, Requirements).
- "What may have arrived is never sent again by itself: the rest of the answer follows, and then
  one line that says that a part may be missing and that /text_<job_id> brings it again. So nobody
  gets a text twice unasked, and nobody is left without one and without a word" (the same, "A send
  that timed out"). That line is no answer. It is sent again while nobody knows whether it came,
  three times at most in all, so it may come up to three times for one answer.
- "Both tell the sender" of `failed` and `dead` (design 2); each stop tells anew, and only the
  owner can return a job that stopped. A job that is done cannot be returned. So a recording has
  at most one answer with its text, and one about a failure for each time that it stopped; besides
  what the sender asked for with /text.
- The text is that of the moment when it is claimed: an edit of the owner's may be in it, or not.
- A recording that is deleted takes its answer along; one that was on its way may still arrive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from chaos.check.journal import Row
from chaos.check.ledger import Ledger
from chaos.check.run import STOPPED, Run, shown, squeezed
from chaos.check.words import ANSWERS, kind_of, named

UNITS = 4096
NOTICES = 3
"""Times that the line about a missing part is sent for one answer."""
NEVER = ("error", "no_addressee", "input_down", "not_reachable")
"""Reasons for which nothing may stay undelivered in a run of minutes with its input on."""


def check(run: Run, ledger: Ledger) -> None:
    """Look at what every chat got, and at the outbox."""
    if not run.telegram:
        return
    by_message = {
        (str(job["chat_id"]), str(job["message_id"])): number
        for number, job in run.jobs.items()
        if job["message_id"]
    }
    one = ledger.clause("I4", "a message gives one recording", needed=True)
    one.seen(len(by_message))
    telegram = [
        n for n, row in run.recordings.items() if row["source"] == "telegram" and n in run.jobs
    ]
    one.expect(
        len(telegram) == len(by_message),
        f"{len(telegram)} recordings from Telegram, of {len(by_message)} messages",
    )
    got: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for each in run.delivered:
        got[str(each["chat"]), str(each.get("reply_to"))].append(each)
    _claim_unmarked(run, got, by_message)
    for number in telegram:
        _Told(run, ledger, number, got[_message(run.jobs[number])]).check()
    _everything(run, ledger, got, by_message)


def _claim_unmarked(
    run: Run, got: dict[tuple[str, str], list[Row]], by_message: dict[tuple[str, str], str]
) -> None:
    """Give answers without a reply mark to those messages that were deleted by their senders.

    Which of several says the text, or the number in it. Those that can be one message's alone are
    given out first; of the others those come first whose whole text it is, then who surely got one
    and has none so far. What is left over belongs to nobody.
    """
    gone = sorted(
        (key for key in run.gone_messages if key in by_message or key in run.deleted_messages),
        key=lambda key: int(key[1]),
    )
    for chat in {key[0] for key in gone}:
        claims = [_Claim(run, key, by_message, got[key]) for key in gone if key[0] == chat]
        left: list[Row] = []
        several = {id(e): sum(c.may_have(e) for c in claims) != 1 for e in got[chat, "None"]}
        for each in sorted(got[chat, "None"], key=lambda each: several[id(each)]):
            may = [claim for claim in claims if claim.may_have(each)]
            if may:
                min(may, key=partial(_Claim.rank, part=_part(each))).take(each)
            else:
                left.append(each)
        got[chat, "None"] = left


class _Claim:
    """A message that its sender deleted, and the answers without a mark that may be its own."""

    def __init__(
        self, run: Run, key: tuple[str, str], by_message: dict[tuple[str, str], str], got: list[Row]
    ) -> None:
        self.number = by_message.get(key) or run.deleted_messages[key]
        item = run.item_of(self.number) or run.items.get(
            next((m["item"] for m in run.messages if _key(m) == key), ""), {}
        )
        self.right = {squeezed(t) for t in run.right_texts(item) | run.given_texts(self.number)}
        rows = run.answer_rows.get(self.number, [])
        asked = 0 if key in by_message else _asked_again(run, self.number)  # its rows went with it
        self.sure = sum(row["kind"] == "text" and row["state"] == "sent" for row in rows)
        self.wanted = max(1 + asked, sum(row["kind"] == "text" for row in rows))
        self.got = got
        self.parts = [_part(each) for each in got if kind_of(each["text"]) in ("text", "no_speech")]

    @property
    def copies(self) -> int:
        """How many copies of its text came so far, the last one perhaps not whole."""
        found = _copies(self.parts, self.right)
        return found[0] if found else 0

    def rank(self, part: str) -> tuple[bool, bool, int]:
        """Smallest for whom it most probably was."""
        return part not in self.right, self.copies >= self.sure, self.copies

    def may_have(self, sent: Row) -> bool:
        """Whether an answer may be one to this message."""
        if kind_of(sent["text"]) in ("failure", "unsure"):
            return named(sent["text"]) == self.number
        found = _copies([*self.parts, _part(sent)], self.right)
        return kind_of(sent["text"]) in ("text", "no_speech") and bool(
            found and found[1] <= self.wanted
        )

    def take(self, sent: Row) -> None:
        """Count it as one."""
        self.got.append(sent)
        if kind_of(sent["text"]) in ("text", "no_speech"):
            self.parts.append(_part(sent))


def _key(message: Row) -> tuple[str, str]:
    return str(message["chat"]), str(message["message_id"])


def _message(job: Row) -> tuple[str, str]:
    return str(job["chat_id"]), str(job["message_id"])


class _Told:
    """One recording, its rows in the outbox, and what came as a reply to its message."""

    def __init__(self, run: Run, ledger: Ledger, number: str, got: list[Row]) -> None:
        self.run, self.ledger, self.number = run, ledger, number
        self.job = run.jobs[number]
        self.rows = run.answer_rows.get(number, [])
        self.texts = [each for each in got if kind_of(each["text"]) in ("text", "no_speech")]
        self.failures = [each for each in got if kind_of(each["text"]) == "failure"]
        self.notices = [each for each in got if kind_of(each["text"]) == "unsure"]
        item = run.item_of(number)
        self.item = item["name"] if item else "?"
        self.right = (run.right_texts(item) if item else set()) | run.given_texts(number)
        self.textless = run.text_may_be_missing(number)

    def check(self) -> None:
        self._rows()
        self._failures()
        self._texts()
        self._word()

    def _where(self, what: str) -> str:
        rows = [
            f"{r['kind']}/{r['state']}{'/' + r['reason'] if r['reason'] else ''} "
            f"sent {r['sent']} unsure {r['unsure']}"
            for r in self.rows
        ]
        return (
            f"{self.number} (item {self.item}, {self.job['state']}, chat {self.job['chat_id']}, "
            f"message {self.job['message_id']}): {what}; outbox: {rows}"
        )

    def _of(self, kind: str) -> list[Row]:
        return [each for each in self.rows if each["kind"] == kind]

    def _rows(self) -> None:
        clause = self.ledger.clause(
            "I4", "each end of a job is one answer in the outbox", needed=True
        )
        own = [each for each in self.rows if not str(each["cause"]).startswith("again:")]
        texts = sum(each["kind"] == "text" for each in own)
        failures = sum(each["kind"] == "failure" for each in own)
        sure, perhaps = self.run.returns(self.number)
        stopped = self.job["state"] in STOPPED
        if self.job["state"] == "done" and not self.run.by_hand(self.number):
            clause.expect(texts == 1, self._where(f"done, with {texts} answers of a text"))
            clause.expect(
                any(each["cause"] == self.job["written_token"] for each in own),
                self._where("no answer was written with its end"),
            )
        else:
            by_hand = self.run.by_hand(self.number)  # it may have been done by itself before, too
            clause.expect(texts <= by_hand, self._where(f"{texts} answers of a text"))
        clause.expect(
            sure + stopped <= failures <= sure + perhaps + stopped,
            self._where(f"{failures} answers of a failure, returned {sure} times (+{perhaps}?)"),
        )
        asked = _asked_again(self.run, self.number)
        again = len(self.rows) - len(own)
        clause.expect(again <= asked, self._where(f"{again} asked for again, by {asked} commands"))
        for each in self.rows:
            clause.expect(
                each["reason"] not in NEVER and (each["reason"] not in ("blocked", "gone") or any(
                    "blocked" in str(f.get("kind")) or "gone" in str(f.get("kind"))
                    for f in self.run.faults
                )),
                self._where(f"undelivered for the reason {each['reason']}"),
            )  # fmt: skip

    def _failures(self) -> None:
        clause = self.ledger.clause(
            "I4", "a failure is told once each time", needed=self.run.certain
        )
        rows = self._of("failure") + (self._of("text") if self.textless else [])
        sent = sum(each["state"] == "sent" for each in self._of("failure"))
        most = sum(each["state"] in ("sent", "unsure") for each in rows)
        if rows or self.failures:
            clause.expect(
                sent <= len(self.failures) <= most,
                self._where(f"{len(self.failures)} notices of a failure arrived"),
            )
        for each in self.failures:
            clause.expect(
                named(each["text"]) == self.number,
                self._where(f"the notice names another recording: {shown(each['text'])}"),
            )

    def _texts(self) -> None:
        rows = self._of("text")
        if not rows and not self.texts:
            return
        clause = self.ledger.clause("I4", "a text arrives once, whole and in order", needed=True)
        whole = sum(each["state"] == "sent" for each in rows)
        most = sum(each["state"] in ("sent", "unsure") for each in rows)
        parts = [_part(each) for each in self.texts]
        if self.textless:
            # Where there was no text any more, that was told, as a failure is.
            told_so = len(self.failures) - len(self._of("failure"))
            whole, most = whole - max(told_so, 0), most - max(told_so, 0)
        told = self._where(f"arrived: {[shown(each['text']) for each in self.texts]}")
        undelivered = sum(each["state"] == "undelivered" for each in rows)
        copies = _copies(parts, {squeezed(text) for text in self.right})
        if copies is None:
            clause.expect(False, f"not the text of this recording. {told}")
            return
        complete, begun = copies
        clause.expect(
            complete >= whole and begun <= most + undelivered,
            f"{complete} complete and {begun} begun, of {whole} sent and {most} perhaps. {told}",
        )
        fit = all(len(each["text"].encode("utf-16-le")) // 2 <= UNITS for each in self.texts)
        clause.expect(fit, f"a piece is longer than {UNITS} units. {told}")

    def _word(self) -> None:
        """Who got nothing for certain got the line that says so."""
        clause = self.ledger.clause(
            "I4", "nobody is left without an answer and without a word", needed=self.run.certain
        )
        for each in self.rows:
            if each["state"] != "unsure":
                continue
            if each["kind"] == "text":
                parts = [_part(sent) for sent in self.texts]
                copies = _copies(parts, {squeezed(text) for text in self.right})
                arrived = copies is not None and copies[0] > 0
            else:
                arrived = bool(self.failures)
            clause.expect(
                arrived or self.notices, self._where("neither the answer nor the notice came")
            )
        for each in self.notices:
            clause.expect(
                named(each["text"]) == self.number and any(r["unsure"] for r in self.rows),
                self._where(f"a notice that something broke, though nothing did: {each['text']!r}"),
            )
        most = NOTICES * sum(bool(each["unsure"]) for each in self.rows)
        if self.notices:
            clause.expect(
                len(self.notices) <= most,
                self._where(f"{len(self.notices)} notices that something broke"),
            )


def _part(sent: Row) -> str:
    if sent.get("file_name"):
        return squeezed(str(sent.get("content") or ""))
    return "" if kind_of(sent["text"]) == "no_speech" else squeezed(sent["text"])


def _asked_again(run: Run, number: str) -> int:
    """How often somebody asked for a recording's answer again."""
    return sum(number in str(each["text"]) for each in run.commands)


def _copies(parts: list[str], texts: Iterable[str]) -> tuple[int, int] | None:
    """How many copies of one of the texts the parts make: complete ones, and begun ones.

    None: some part is of none of the texts. Several texts are right where the owner wrote another
    one meanwhile; every copy is of one of them. A part may be missing from a copy (nobody knew
    whether it arrived), and none may come twice in one.
    """
    complete = begun = at = 0
    gaps = True
    current = ""
    for part in parts:
        if current and part and (found := current.find(part, at)) >= 0:
            gaps |= found != at
        else:
            starts = [text for text in texts if (part in text if part else text == "")]
            if not starts:
                return None
            # A whole one first; else one that begins so.
            current = min(starts, key=lambda text: (text != part, not text.startswith(part), text))
            begun += 1
            found = current.find(part)
            gaps = found != 0
        at = found + len(part)
        if at == len(current):
            complete += not gaps
            current, at = "", 0
    return complete, begun


def _everything(
    run: Run,
    ledger: Ledger,
    got: dict[tuple[str, str], list[Row]],
    by_message: dict[tuple[str, str], str],
) -> None:
    """What came in reply to no recording that is still there, and what came in reply to nothing."""
    clause = ledger.clause("I4", "nobody gets another's text", needed=True)
    late = ledger.clause(
        "I4", "of what was deleted at most one answer was on its way", needed=run.certain
    )
    sent = {_key(each): each for each in run.messages}
    written = {_key(each) for each in run.commands}
    for key, messages in got.items():
        if key in by_message:
            clause.seen(len(messages))
            continue
        told = [each for each in messages if kind_of(each["text"]) in ANSWERS]
        if key[1] == "None" and not told:
            continue
        texts = [each for each in told if kind_of(each["text"]) != "failure"]
        shown_ = [shown(each["text"]) for each in told]
        if key not in sent:
            clause.expect(
                not texts and (key in written or not told),
                f"chat {key[0]} got, in reply to {key[1]} that nobody sent there: {shown_}",
            )
            continue
        gone = run.deleted_messages.get(key)
        if gone is None and run.unattributed:
            continue  # it may be that of a deleted one whose sender nobody noted
        if gone is None:
            clause.expect(not told, f"message {key} has no recording, and got {shown_}")
            continue
        item = run.items.get(sent[key]["item"]) or {}
        right = {squeezed(text) for text in run.right_texts(item) | run.given_texts(gone)}
        copies = _copies([_part(each) for each in texts], right)
        asked = _asked_again(run, gone)
        late.expect(
            copies is not None and copies[1] <= 1 + asked,
            f"{gone} of message {key} was deleted, and got {shown_}",
        )
        late.expect(
            len(told) - len(texts) <= 1 + sum(run.returns(gone)) + asked,
            f"{gone} of message {key} was deleted, and got {shown_}",
        )
