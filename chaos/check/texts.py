"""I3: the right text.

- A job that is done has the raw transcript of its own recording: exactly the text of an
  undisturbed run of the recogniser that made it, `engine` says which (design 6: "resuming at its
  border gives exactly the same text"; docs/recognisers.md: "No piece is left out"). It may be
  another recogniser's: a fallback stands in, and the owner may choose (docs/recognisers.md).
- The owner may write anything into a transcript (docs/operations.md); then that stands, or what a
  new recognition put in its place. Which of them must stand is I5's.
- `segments` carry the same words in the order of their times (design 3). An empty text says that
  nobody spoke (`no_speech`), and only that does.
- One transcript a kind and recording (unique index). What the sender is given is what is stored:
  `transcription_text` is the raw transcript and nothing else (design 2).
"""

from __future__ import annotations

import json
from collections import Counter

from chaos.check.journal import Row
from chaos.check.ledger import Clause, Ledger
from chaos.check.run import Run, recogniser_of, shown, squeezed


def check(run: Run, ledger: Ledger) -> None:
    """Look at every transcript."""
    one = ledger.clause("I3", "one transcript a kind and recording", needed=True)
    kinds = Counter((each["recording"], each["kind"]) for each in run.tables["transcripts"])
    for (number, kind), count in kinds.items():
        one.expect(count == 1, f"{number} has {count} transcripts of kind {kind}")
        one.expect(number in run.recordings, f"a transcript of {number}, which is not there")
    right = ledger.clause("I3", "the raw text is that of an undisturbed run", needed=True)
    segments = ledger.clause("I3", "its segments carry the same words, in order", needed=True)
    silence = ledger.clause("I3", "no_speech is said exactly of an empty text", needed=True)
    given = ledger.clause("I3", "the sender is given what is stored", needed=True)
    for number, raw in run.raw.items():
        if number not in run.recordings:
            continue
        edited = run.given_texts(number)
        if raw["text"] not in edited:
            _right(run, number, raw, right)
            _segments(number, raw, segments)
        if not _touched(run, number):
            silence.expect(
                bool(raw["no_speech"]) is (raw["text"] == ""),
                f"{number}: no_speech {raw['no_speech']}, text {shown(raw['text'])}",
            )
    for number in run.accepted:
        _given(run, number, given)
    for each in run.events("printed"):
        _printed(run, each, given)


def _right(run: Run, number: str, raw: Row, right: Clause) -> None:
    item = run.item_of(number)
    if item is None:
        right.expect(False, f"{number}: nobody knows what was sent; text {shown(raw['text'])}")
        return
    right.expect(
        raw["text"] in run.right_texts(item, raw["engine"]),
        f"{number} (item {item['name']}, {raw['engine']}): {_diagnosis(run, item, raw)}",
    )


def _diagnosis(run: Run, item: Row, raw: Row) -> str:
    text, expected = raw["text"], run.right_texts(item, raw["engine"])
    told = f"{shown(text)} instead of {' or '.join(map(shown, sorted(expected))) or 'none'}"
    others = [
        n for n, each in run.items.items() if each is not item and text in run.right_texts(each)
    ]
    if text and others:
        return f"the text of {', '.join(others)}: {told}"
    if text in run.right_texts(item):
        return f"the text that another recogniser makes: {told}"
    for each in expected:
        if squeezed(text) == 2 * squeezed(each):
            return f"doubled: {told}"
        if text and squeezed(each).startswith(squeezed(text)):
            return f"cut: {told}"
    return told


def _segments(number: str, raw: Row, segments: Clause) -> None:
    found = json.loads(raw["segments"] or "null")
    parts = [str(each.get("text") or "") for each in found or []]
    joined = squeezed("".join(parts))
    segments.expect(
        joined == squeezed(raw["text"]),
        f"{number}: segments say {shown(joined)}, the text {shown(squeezed(raw['text']))}",
    )
    starts = [float(each.get("start") or 0) for each in found or []]
    segments.expect(starts == sorted(starts), f"{number}: segments out of order, {starts}")


def _touched(run: Run, number: str) -> bool:
    known = run.raw[number]["id"]
    return any(e.collection == "transcripts" and e.record == known for e in run.edits)


def _printed(run: Run, event: Row, given: Clause) -> None:
    """What `transcriber send` printed when it said that all went well."""
    number = str(((run.replies.get(event["id"]) or {}).get("body") or {}).get("job_id"))
    item = run.items.get((run.sends.get(event["id"]) or {}).get("item", ""))
    text = str(event.get("text") or "").strip()
    if item is not None and event.get("code") == 0:
        right = run.right_texts(item) | run.given_texts(number)
        given.expect(
            text in {each.strip() for each in right},
            f"{number}: the command printed {shown(text)}",
        )


def _given(run: Run, number: str, given: Clause) -> None:
    told = run.statuses.get(number) or {}
    status, transcript = told.get("status") or {}, told.get("transcript") or {}
    if number not in run.recordings or status.get("code") != 200:
        return  # I1's
    raw = run.raw.get(number)
    got = (status.get("body") or {}).get("transcription_text")
    given.expect(
        got == (raw["text"] if raw else None),
        f"{number}: status gives {shown(str(got))}, stored is {raw and shown(raw['text'])}",
    )
    if not transcript:
        return
    code, body = transcript.get("code"), transcript.get("body") or {}
    if raw is None:
        given.expect(
            code == 409, f"{number} has no text, and the transcript's route answers {code}"
        )
    else:
        given.expect(
            code == 200 and body.get("text") == raw["text"] and body.get("engine") == raw["engine"],
            f"{number} ({recogniser_of(raw['engine'])}): the transcript's route answers {code} "
            f"{shown(str(body.get('text')))}, stored is {shown(raw['text'])}",
        )
