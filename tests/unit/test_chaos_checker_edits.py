"""The judge of `make chaos`: owner's edits (I5), files (I6), and the intake (I10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.chaos_evidence import TEXTS, Evidence, Row, number
from tests.unit.chaos_whole import ALICE, BOB, whole
from tests.unit.test_chaos_checker import Spoil, caught

STANDS = "the last edit of a field stands"
AWAY = "a deleted record stays away, with what hangs on it"
ORPHANS = "no row hangs on a record that is not there"


def row(table: str, identifier: str, **values: object) -> Spoil:
    return lambda run: run.get(table, id=identifier).update(values)


def recording(n: int, **values: object) -> Spoil:
    return row("recordings", number(n), **values)


def there_again(run: Evidence) -> None:
    run.recording(14, "hello", owner="alice")


def left_behind(table: str) -> Spoil:
    return lambda run: run.row(table, id="left", recording=number(14))


def edited_record_gone(run: Evidence) -> None:
    run.tables["transcripts"].remove(run.get("transcripts", id="text19"))


def stands_as_before(run: Evidence) -> None:
    """Returned to work, and in the state since before that."""
    run.event("owner", record=number(17))["answered"] = {"updated": "2026-11-30 18:41:00.000Z"}


def another_language(run: Evidence) -> None:
    run.event("send", id=1)["language"] = "ru-RU"
    recording(1, language="en")(run)


def without_file(n: int, name: str) -> Spoil:
    def spoil(run: Evidence) -> None:
        stored = run.get("recordings", id=number(n))[name]
        run.files = [each for each in run.files if not each["path"].endswith(stored)]

    return spoil


def other_bytes(run: Evidence) -> None:
    run.files[0]["sha256"] = "0" * 64


def bytes_of_another(run: Evidence) -> None:
    stored = {number(n): run.get("recordings", id=number(n))["audio"] for n in (1, 3)}
    one, two = (
        next(file for file in run.files if file["path"].endswith(f"{job}/{name}"))
        for job, name in stored.items()
    )
    one["sha256"] = two["sha256"]


def loose(name: str, job: int = 1) -> Spoil:
    return lambda run: run.file(number(job), name, "hello")


def answer(n: int, **values: object) -> Spoil:
    return lambda run: run.event("answer", id=n).update(values)


def taken_twice(run: Evidence) -> None:
    run.recording(60, "hello", owner="alice")
    run.recording(61, "hello", owner="alice")


def refused_and_kept(run: Evidence) -> None:
    run.event("send", id=7)["title"] = "qtitle7marker"
    run.recording(60, "hello", owner="alice", title="qtitle7marker")


def nobodys(run: Evidence) -> None:
    run.recording(60, "hello", owner="boris")


def named_twice(run: Evidence) -> None:
    run.event("answer", id=2)["body"]["job_id"] = number(1)


@pytest.mark.parametrize(
    ("invariant", "clause", "spoil"),
    [
        ("I5", STANDS, row("jobs", number(19), note="qnote1marker")),
        ("I5", STANDS, row("jobs", number(19), note="qnote3marker")),
        ("I5", STANDS, row("jobs", number(19), note="")),
        ("I5", STANDS, row("jobs", number(19), priority=0)),
        ("I5", STANDS, recording(19, title="qfilename19marker")),
        ("I5", STANDS, row("transcripts", "text19", text=TEXTS["hello"])),
        ("I5", STANDS, edited_record_gone),
        ("I5", "what the owner did not edit is as it was sent", recording(1, title="another")),
        ("I5", "what the owner did not edit is as it was sent", recording(2, title="another")),
        ("I5", "what the owner did not edit is as it was sent", another_language),
        ("I5", "the service's own columns say what was sent", recording(2, source="fax")),
        ("I5", "the service's own columns say what was sent", recording(1, owner="boris")),
        ("I5", "the service's own columns say what was sent", recording(1, owner="")),
        ("I5", "the service's own columns say what was sent", recording(1, source="telegram")),
        ("I5", "the service's own columns say what was sent", recording(1, size=3)),
        ("I5", "the service's own columns say what was sent", recording(21, owner="alice")),
        ("I5", AWAY, there_again),
        ("I5", AWAY, lambda run: run.row("transcripts", id="text29", recording=number(29))),
        ("I5", AWAY, left_behind("jobs")),
        ("I5", AWAY, left_behind("transcripts")),
        ("I5", AWAY, left_behind("answers")),
        ("I5", AWAY, left_behind("operations")),
        ("I5", ORPHANS, lambda run: run.row("transcripts", id="x", recording=number(77))),
        ("I5", ORPHANS, lambda run: run.row("jobs", id="x", recording=number(77))),
        ("I5", ORPHANS, lambda run: run.row("segments", id="x", operation="none")),
        ("I5", "a job returned to work has gone on", stands_as_before),
        ("I6", "every record has its file", without_file(1, "audio")),
        ("I6", "every record has its file", recording(1, audio="")),
        ("I6", "its bytes are those that were sent", other_bytes),
        ("I6", "its bytes are those that were sent", bytes_of_another),
        ("I6", "the normalised audio that a record names is there", without_file(1, "normalized")),
        ("I6", "every file has its record, after the grace", loose("b" * 20 + ".ogg")),
        ("I6", "every file has its record, after the grace", loose("b" * 20 + ".ogg", job=77)),
        ("I6", "stored names are the service's own", loose("holiday.ogg")),
        ("I6", "stored names are the service's own", loose("b" * 20 + ".o g")),
        ("I6", "stored names are the service's own", recording(1, extension="mp3")),
        ("I6", "no leftovers in the scratch folders",
         lambda run: run.scratch.append("data/run/pipeline/job-abc/audio")),
        ("I6", "no leftovers in the scratch folders",
         lambda run: run.scratch.append("data/run/telegram/update-7021.ogg")),
        ("I10", "201 names a job of its own at uploaded", named_twice),
        ("I10", "201 names a job of its own at uploaded",
         answer(1, body={"job_id": number(1), "status": "created"})),
        ("I10", "201 names a job of its own at uploaded", answer(1, body={"status": "uploaded"})),
        ("I10", "every 201 has its stored file", without_file(1, "audio")),
        ("I10", "a refusal has the one form", answer(6, body={"message": "Something went wrong"})),
        ("I10", "a refusal has the one form",
         answer(6, body={"error_code": "not_found", "message": "-"})),
        ("I10", "a refusal has the one form", answer(6, status=502)),
        ("I10", "no recording without a send that may have made it", taken_twice),
        ("I10", "no recording without a send that may have made it", nobodys),
        ("I10", "what was refused is not there", refused_and_kept),
    ],
)  # fmt: skip
def test_what_is_undone_or_left_over_is_caught(
    invariant: str, clause: str, spoil: Spoil, tmp_path: Path
) -> None:
    caught(spoil, invariant, clause, tmp_path)


# What may happen, and is no violation


def note(run: Evidence, value: str, **more: object) -> Row:
    return run.owner("note", "jobs", number(1), fields={"note": value}, **more)


def lost_edit(stored: str) -> Spoil:
    def change(run: Evidence) -> None:
        note(run, "qkept1marker")
        note(run, "qlost1marker", lost="ReadTimeout")
        row("jobs", number(1), note=stored)(run)

    return change


def lost_edit_that_came_late(run: Evidence) -> None:
    note(run, "qlost1marker", lost="ReadTimeout")
    note(run, "qkept1marker")
    row("jobs", number(1), note="qlost1marker")(run)


def overlapping(stored: str) -> Spoil:
    def change(run: Evidence) -> None:
        first = note(run, "qone11marker")
        second = note(run, "qtwo22marker", began=first["t"] - 5)
        second["t"] = first["t"] + 1
        row("jobs", number(1), note=stored)(run)

    return change


def recognised_again(run: Evidence) -> None:
    """The owner wrote a text, and later sent the job back, whose text is its own again."""
    words = {"text": "The owner's own words."}
    run.owner("edit_text", "transcripts", "text1", fields=words, of=number(1))
    run.owner("return", "jobs", number(1), fields={"state": "normalized"}, lost="ReadTimeout")


def whole_form(run: Evidence) -> None:
    """A form of the panel holds every column; what is not the owner's is not taken from it."""
    form = {"note": "qform11marker", "priority": 0, "state": "done", "updated": "-", "attempts": 4}
    run.owner("form", "jobs", number(1), fields=form)
    row("jobs", number(1), note="qform11marker")(run)


def asked_for_the_state_that_it_has(run: Evidence) -> None:
    run.owner("edit_state", "jobs", number(21), fields={"state": "done"})
    run.owner("edit_state", "jobs", number(22), fields={"state": "normalized"})


def young_and_not_swept(run: Evidence) -> None:
    run.swept = False
    run.file(number(77), "b" * 20 + ".ogg", "hello", mtime=1796064000.0)


def kept_by_the_engine(run: Evidence) -> None:
    run.scratch.append("data/run/engine/abc.pcm")


def cli(run: Evidence) -> None:
    run.event("send", id=1)["via"] = "cli"
    run.event("answer", id=1)["body"] = {"job_id": number(1)}


@pytest.mark.parametrize(
    "change",
    [
        lost_edit("qkept1marker"), lost_edit("qlost1marker"), lost_edit_that_came_late,
        overlapping("qone11marker"), overlapping("qtwo22marker"), recognised_again, whole_form,
        asked_for_the_state_that_it_has,
        young_and_not_swept, kept_by_the_engine, cli,
    ],
)  # fmt: skip
def test_what_an_edit_or_a_file_may_become_is_let_pass(change: Spoil, tmp_path: Path) -> None:
    run = whole()
    change(run)
    ledger = run.judge(tmp_path)
    assert ledger.violations == 0, ledger.table()


def test_senders_are_told_apart(tmp_path: Path) -> None:
    """A lost send of one sender excuses no recording of another's."""
    assert ALICE != BOB
    ledger = caught(nobodys, "I10", "no recording without a send that may have made it", tmp_path)
    assert any(BOB in each for each in ledger.broken("I10"))
