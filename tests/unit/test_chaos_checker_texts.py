"""The judge of `make chaos`: the right text (I3), and nobody answered twice (I4)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.chaos_evidence import LONG, TEXTS, Evidence, number
from tests.unit.chaos_whole import FAILURE, FIRST, NO_SPEECH, OTHER, PIECES, UNSURE, whole
from tests.unit.test_chaos_checker import Spoil, caught, status


def text(n: int, words: str) -> Spoil:
    """Another text than the right one is stored, and given to the sender."""

    def spoil(run: Evidence) -> None:
        segments = json.dumps([{"start": 0, "end": 1, "text": words}])
        run.get("transcripts", id=f"text{n}").update(text=words, segments=segments)
        status(n, transcription_text=words)(run)

    return spoil


def segments(n: int, *texts: tuple[float, str]) -> Spoil:
    parts = json.dumps([{"start": start, "text": words} for start, words in texts])
    return lambda run: run.get("transcripts", id=f"text{n}").update(segments=parts)


def second_transcript(run: Evidence) -> None:
    run.row("transcripts", id="again", recording=number(1), kind="raw", text=TEXTS["hello"])


def answers(n: int, **values: object) -> Spoil:
    return lambda run: run.get("answers", recording=number(n)).update(values)


def bot(chat: str, reply_to: int | None, words: str) -> Spoil:
    return lambda run: run.bot(chat, reply_to, words)


def silence(chat: str, reply_to: int) -> Spoil:
    """What the bot answered to a message never came."""

    def spoil(run: Evidence) -> None:
        run.sent[chat] = [each for each in run.sent[chat] if each["reply_to"] != reply_to]

    return spoil


def pieces(*order: int) -> Spoil:
    """The pieces of the long text came so."""

    def spoil(run: Evidence) -> None:
        silence(FIRST, 22)(run)
        for n in order:
            run.bot(FIRST, 22, PIECES[n])

    return spoil


def another_outcome(run: Evidence) -> None:
    run.answer(21, "failure", cause="another")
    run.bot(FIRST, 21, FAILURE.format(number(21)))


def never_written(run: Evidence) -> None:
    run.tables["answers"].remove(run.get("answers", recording=number(21)))
    silence(FIRST, 21)(run)


def told_another_number(run: Evidence) -> None:
    silence(FIRST, 23)(run)
    run.bot(FIRST, 23, FAILURE.format(number(1)))


def failures(chat: str, n: int, times: int) -> Spoil:
    def spoil(run: Evidence) -> None:
        for _ in range(times):
            run.bot(chat, n, FAILURE.format(number(n)))

    return spoil


def of_nobody(run: Evidence) -> None:
    """Neither who sent it is known, nor what."""
    run.recording(60, "what nobody has")
    run.get("transcripts", id="text60").update(text="Something.", segments="")


def too_long(run: Evidence) -> None:
    silence(FIRST, 22)(run)
    run.bot(FIRST, 22, f"{PIECES[0]}\n{PIECES[1]}")
    for piece in PIECES[2:]:
        run.bot(FIRST, 22, piece)


def second_recording_of_a_message(run: Evidence) -> None:
    run.recording(31, "hello", chat_id=FIRST, message_id="21")


HELLO = TEXTS["hello"]
WHOLE = "a text arrives once, whole and in order"
ROWS = "each end of a job is one answer in the outbox"


def notice_again(run: Evidence) -> None:
    run.bot(OTHER, 26, UNSURE.format(number(26)))


@pytest.mark.parametrize(
    ("invariant", "clause", "spoil"),
    [
        ("I3", "one transcript a kind and recording", second_transcript),
        ("I3", "one transcript a kind and recording",
         lambda run: run.row("transcripts", id="x", recording=number(99), kind="raw")),
        ("I3", "the raw text is that of an undisturbed run", text(1, f"{HELLO} {HELLO}")),
        ("I3", "the raw text is that of an undisturbed run", text(1, HELLO[:20])),
        ("I3", "the raw text is that of an undisturbed run", text(1, TEXTS["again"])),
        ("I3", "the raw text is that of an undisturbed run", text(2, TEXTS["again"])),
        ("I3", "the raw text is that of an undisturbed run", text(1, "")),
        ("I3", "its segments carry the same words, in order", segments(1, (0, HELLO[:20]))),
        ("I3", "its segments carry the same words, in order",
         segments(1, (5, "Quabbling mornings,"), (1, "dear flimwicks."))),
        ("I3", "its segments carry the same words, in order",
         segments(1, (0, HELLO), (1, HELLO))),
        ("I3", "no_speech is said exactly of an empty text",
         lambda run: run.get("transcripts", id="text1").update(no_speech=1)),
        ("I3", "no_speech is said exactly of an empty text",
         lambda run: run.get("transcripts", id="text24").update(no_speech=0)),
        ("I3", "the sender is given what is stored", status(1, transcription_text=TEXTS["again"])),
        ("I3", "the sender is given what is stored", status(1, transcription_text=None)),
        ("I3", "the sender is given what is stored", status(3, transcription_text="")),
        ("I3", "the sender is given what is stored",
         lambda run: run.event("printed").update(text=TEXTS["hello"])),
        ("I4", "a message gives one recording", second_recording_of_a_message),
        ("I4", ROWS, never_written),
        ("I4", ROWS, answers(21, cause="another-token")),
        ("I4", ROWS, another_outcome),
        ("I4", ROWS, lambda run: run.answer(21, "text", cause="again:77")),
        ("I4", ROWS, lambda run: run.answer(23, "failure", cause="another")),
        ("I4", ROWS, lambda run: run.tables["answers"].remove(
            run.get("answers", cause="an-earlier-token"))),
        ("I4", ROWS, answers(21, state="undelivered", reason="error")),
        ("I4", ROWS, answers(21, state="undelivered", reason="blocked")),
        ("I4", "a failure is told once each time", bot(FIRST, 23, FAILURE.format(number(23)))),
        ("I4", "a failure is told once each time", silence(FIRST, 23)),
        ("I4", "a failure is told once each time", told_another_number),
        ("I4", WHOLE, bot(FIRST, 21, HELLO)),
        ("I4", WHOLE, silence(FIRST, 21)),
        ("I4", WHOLE, bot(FIRST, 21, "What nobody said.")),
        ("I4", WHOLE, bot(FIRST, 21, TEXTS["again"])),
        ("I4", WHOLE, bot(FIRST, 24, NO_SPEECH)),
        ("I4", WHOLE, silence(FIRST, 24)),
        ("I4", WHOLE, pieces(0, 1)),
        ("I4", WHOLE, pieces(0, 2)),
        ("I4", WHOLE, pieces(0, 0, 1, 2)),
        ("I4", WHOLE, pieces(1, 0, 2)),
        ("I4", WHOLE, pieces(0, 1, 2, 0, 1, 2)),
        ("I4", WHOLE, too_long),
        ("I4", WHOLE, lambda run: run.sent[OTHER][-1].update(content=LONG[:500])),
        ("I4", "nobody is left without an answer and without a word", silence(OTHER, 26)),
        ("I4", "nobody is left without an answer and without a word",
         bot(FIRST, 21, UNSURE.format(number(21)))),
        ("I4", "nobody is left without an answer and without a word",
         lambda run: [notice_again(run) for _ in range(3)]),
        ("I4", "nobody gets another's text", bot(OTHER, 21, HELLO)),
        ("I4", "nobody gets another's text", bot(FIRST, 25, HELLO)),
        ("I4", "nobody gets another's text", bot(FIRST, None, HELLO)),
        ("I4", "nobody gets another's text", bot(OTHER, 29, HELLO)),
        ("I4", "of what was deleted at most one answer was on its way", bot(OTHER, 27, HELLO)),
        ("I4", "of what was deleted at most one answer was on its way",
         bot(OTHER, 27, TEXTS["again"])),
        ("I4", "of what was deleted at most one answer was on its way", failures(OTHER, 27, 2)),
        ("I4", ROWS, lambda run: run.answer(23, "text", cause="another")),
        ("I3", "the raw text is that of an undisturbed run", of_nobody),
    ],
)  # fmt: skip
def test_what_is_spoilt_or_told_twice_is_caught(
    invariant: str, clause: str, spoil: Spoil, tmp_path: Path
) -> None:
    caught(spoil, invariant, clause, tmp_path)


def test_a_deleted_text_excuses_no_second_copy(tmp_path: Path) -> None:
    caught(twice_after_its_text_was_deleted, "I4", WHOLE, tmp_path)


# What may happen, and is no violation


def notice_three_times(run: Evidence) -> None:
    notice_again(run)
    notice_again(run)


def arrived_all_the_same(run: Evidence) -> None:
    silence(OTHER, 26)(run)
    run.bot(OTHER, 26, HELLO)


def arrived_and_noticed(run: Evidence) -> None:
    run.sent[OTHER].insert(0, run.bot(OTHER, 26, HELLO))
    run.sent[OTHER].pop()


def a_piece_is_missing(run: Evidence) -> None:
    pieces(0, 2)(run)
    run.bot(FIRST, 22, UNSURE.format(number(22)))
    answers(22, state="unsure", reason="unsure", unsure=1, sent=4, begun=4)(run)
    run.metrics['transcriber_undelivered_replies_total{reason="unsure"}'] += 1


def asked_for_again(run: Evidence) -> None:
    run.before_quiet("message", id=190, chat=FIRST, message_id=60, text=f"/text_{number(22)}")
    run.answer(22, "text", cause="again:60", begun=3, sent=3)
    for piece in PIECES:
        run.bot(FIRST, 22, piece)


def edited_before_it_was_told(run: Evidence) -> None:
    words = {"text": "The owner's own words."}
    run.owner("edit_text", "transcripts", "text21", fields=words, of=number(21))
    run.get("transcripts", id="text21").update(words)
    silence(FIRST, 21)(run)
    run.bot(FIRST, 21, words["text"])


def edited_after_it_was_told(run: Evidence) -> None:
    words = {"text": "The owner's own words."}
    run.owner("edit_text", "transcripts", "text21", fields=words, of=number(21))
    run.get("transcripts", id="text21").update(words)


def text_deleted_before_it_was_told(run: Evidence) -> None:
    run.owner("delete_transcript", "transcripts", "text21", status=204, of=number(21))
    run.tables["transcripts"].remove(run.get("transcripts", id="text21"))
    silence(FIRST, 21)(run)
    run.bot(FIRST, 21, FAILURE.format(number(21)))


def text_deleted_before_it_was_asked_for(run: Evidence) -> None:
    edited = ("delete_transcript", "transcripts", "text21")
    run.owner(*edited, lost="ReadTimeout", of=number(21))
    run.tables["transcripts"].remove(run.get("transcripts", id="text21"))
    run.before_quiet("message", id=190, chat=FIRST, message_id=60, text=f"/text_{number(21)}")
    run.answer(21, "text", cause="again:60")
    run.bot(FIRST, 21, FAILURE.format(number(21)))


def twice_after_its_text_was_deleted(run: Evidence) -> None:
    text_deleted_before_it_was_asked_for(run)
    run.bot(FIRST, 21, HELLO)


def blocked(run: Evidence) -> None:
    silence(FIRST, 21)(run)
    answers(21, state="undelivered", reason="blocked", begun=1, sent=0)(run)
    run.before_quiet("fault", id=860, kind="telegram_blocked", target="sendMessage")
    run.before_quiet("fault_over", id=860)
    run.metrics['transcriber_undelivered_replies_total{reason="blocked"}'] = 1


def deleted_before_it_was_told(run: Evidence) -> None:
    older(run)
    silence(OTHER, 27)(run)


def older(run: Evidence) -> None:
    """The rig did not see to it yet that there is a case of everything."""
    run.event("settings")["certain"] = False


def told_without_marks(run: Evidence) -> None:
    """Its sender took the message away, asked again, and the owner deleted the recording."""
    silence(OTHER, 27)(run)
    run.before_quiet("message_gone", chat=OTHER, message_id=27)
    run.before_quiet("message", id=190, chat=OTHER, message_id=60, text=f"/text_{number(27)}")
    for _ in range(2):
        run.bot(OTHER, None, HELLO)


def two_without_marks_and_an_edit(run: Evidence) -> None:
    """Two senders' messages are gone, both said the same, and the owner edited one text after."""
    older(run)
    words = {"text": "The owner's own words."}
    silence(OTHER, 26)(run)
    answers(26, state="sent", reason="", begun=1, sent=1, unsure=0)(run)
    run.metrics['transcriber_undelivered_replies_total{reason="unsure"}'] -= 1
    run.before_quiet("message_gone", chat=OTHER, message_id=26)
    run.before_quiet("message", id=190, chat=OTHER, message_id=60, text=f"/text_{number(26)}")
    run.answer(26, "text", cause="again:60")
    run.owner("edit_text", "transcripts", "text26", fields=words, of=number(26))
    run.get("transcripts", id="text26").update(words)
    run.bot(OTHER, None, HELLO)
    run.bot(OTHER, None, words["text"])


def twins_without_marks_and_one_that_is_an_edit(run: Evidence) -> None:
    """Two messages are gone and said the same. One was told before it went, and again after an
    edit; the other was told, and told again, after it went."""
    older(run)
    words = {"text": "The owner's own words."}
    for n, command in ((26, 60), (27, 61)):
        silence(OTHER, n)(run)
        run.before_quiet("message_gone", chat=OTHER, message_id=n)
        run.before_quiet(
            "message", id=130 + command, chat=OTHER, message_id=command, text=f"/text_{number(n)}"
        )
    run.bot(OTHER, 26, HELLO)
    answers(26, state="sent", reason="", begun=1, sent=1, unsure=0)(run)
    run.metrics['transcriber_undelivered_replies_total{reason="unsure"}'] -= 1
    run.answer(26, "text", cause="again:60")
    run.owner("edit_text", "transcripts", "text26", fields=words, of=number(26))
    run.get("transcripts", id="text26").update(words)
    for text in (HELLO, HELLO, words["text"]):
        run.bot(OTHER, None, text)


def one_without_a_mark_and_one_that_did_not_arrive(run: Evidence) -> None:
    """Both messages are gone and said the same; of the earlier nobody knows whether it came."""
    run.before_quiet("message_gone", chat=OTHER, message_id=26)


def one_without_a_mark_is_part_of_anothers(run: Evidence) -> None:
    """The longer one, earlier, was deleted before it was told anything."""
    words = {"text": f"{HELLO} And more."}
    silence(OTHER, 27)(run)
    run.event("message", message_id=27)["item"] = "lecture"
    run.owner(
        "edit_text", "transcripts", "text27", fields=words, of=number(27), recording=number(27)
    )
    run.before_quiet("message_gone", chat=OTHER, message_id=27)


@pytest.mark.parametrize(
    "change",
    [
        told_without_marks, one_without_a_mark_and_one_that_did_not_arrive,
        one_without_a_mark_is_part_of_anothers, two_without_marks_and_an_edit,
        twins_without_marks_and_one_that_is_an_edit,
        notice_three_times, arrived_all_the_same, arrived_and_noticed, a_piece_is_missing,
        asked_for_again, edited_before_it_was_told, edited_after_it_was_told,
        text_deleted_before_it_was_told, text_deleted_before_it_was_asked_for, blocked,
        deleted_before_it_was_told,
    ],
)  # fmt: skip
def test_what_may_happen_to_an_answer_is_let_pass(change: Spoil, tmp_path: Path) -> None:
    run = whole()
    change(run)
    ledger = run.judge(tmp_path)
    assert ledger.violations == 0, ledger.table()
