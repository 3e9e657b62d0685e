"""The judge of `make chaos`: the metrics page (I7), privacy (I8), and the queue at rest (I9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.checker import judge
from tests.unit.chaos_evidence import LONG, TEXTS, Evidence, number
from tests.unit.chaos_whole import ALICE, SECRET, whole
from tests.unit.test_chaos_checker import Spoil, caught, job


def metric(series: str, change: float) -> Spoil:
    def spoil(run: Evidence) -> None:
        run.metrics[series] = run.metrics.get(series, 0) + change

    return spoil


def logged(line: str) -> Spoil:
    return lambda run: run.logs["second"].append(line)


def in_table(message: str, **data: object) -> Spoil:
    return lambda run: run.log_table.append((message, data))


def answers(n: int, **values: object) -> Spoil:
    return lambda run: run.get("answers", recording=number(n)).update(values)


def operation(**values: object) -> Spoil:
    known = {"id": "operation", "recording": number(1), "state": "queued", "recogniser": ""}
    return lambda run: run.row("operations", **{**known, **values})


def second_job(run: Evidence) -> None:
    run.row("jobs", id="another", recording=number(1), state="done", milestone="done")


ACCEPTED = 'transcriber_recordings_accepted_total{extension="ogg",input="http"}'
TELEGRAM = 'transcriber_recordings_accepted_total{extension="ogg",input="telegram"}'
REJECTED = 'transcriber_rejected_total{error_code="internal",input="http"}'
OLDEST = 'transcriber_queue_oldest_seconds{state="uploaded"}'
GAUGES = "gauges say what the database holds"
WORD = "no word of a recording"
FIT = "states and their columns fit together"
TOLD = "every answer has ended, and adds up"
LABELS = "labels come from closed lists"


@pytest.mark.parametrize(
    ("invariant", "clause", "spoil"),
    [
        ("I7", "there is a page with the service's series", lambda run: run.metrics.clear()),
        ("I7", GAUGES, metric('transcriber_jobs{state="done"}', 1)),
        ("I7", GAUGES, metric('transcriber_jobs{state="dead"}', -1)),
        ("I7", GAUGES, lambda run: run.metrics.pop('transcriber_jobs{state="failed"}')),
        ("I7", GAUGES, metric(OLDEST, 12.5)),
        ("I7", GAUGES, metric('transcriber_input_up{input="telegram"}', -1)),
        ("I7", LABELS, metric('transcriber_normalized_total{extension="xyz"}', 0)),
        ("I7", LABELS, metric('transcriber_rejected_total{error_code="teapot",input="http"}', 0)),
        ("I7", LABELS, metric('transcriber_recognised_audio_seconds_total{engine="a b"}', 0)),
        ("I7", "accepted are those since PocketBase's last start", metric(ACCEPTED, -3)),
        ("I7", "accepted are those since PocketBase's last start", metric(ACCEPTED, 9)),
        ("I7", "accepted are those since PocketBase's last start", metric(TELEGRAM, 9)),
        ("I7", "rejected are those since PocketBase's last start", metric(REJECTED, -1)),
        ("I7", "rejected are those since PocketBase's last start", metric(REJECTED, 9)),
        ("I8", WORD, logged("telegram answer sent text=Quabbling")),
        ("I8", WORD, logged("GET /api/x?filter=%D1%84%20QUABBLING")),
        ("I8", WORD, logged("reason=walked home zilverton")),
        ("I8", WORD, in_table("request failed", reason=TEXTS["remote"])),
        ("I8", WORD, job(3, error_text="read media: flimwicks")),
        ("I8", WORD, metric('transcriber_normalized_total{extension="mornings"}', 0)),
        ("I8", WORD, answers(21, reason="brukvazhi")),
        ("I8", WORD, lambda run: run.file(number(1), "tromeldyu", "hello")),
        ("I8", "no name, title, note or text that somebody gave", logged("QFILENAME3marker.ogg")),
        ("I8", "no name, title, note or text that somebody gave", logged("title=qtitle1marker")),
        ("I8", "no name, title, note or text that somebody gave",
         in_table("x", url="/api/recordings?qnote3marker")),
        ("I8", "no secret and no address", logged(f"login of {ALICE}")),
        ("I8", "no secret and no address", in_table("x", details={"password": SECRET})),
        ("I8", "every log is there", lambda run: run.logs.clear()),
        ("I9", "no lease is left over", job(1, lease_token="t")),
        ("I9", "no lease is left over", job(1, leased_by="pipeline@x")),
        ("I9", "no lease is left over", answers(21, leased_at="2026-11-30 18:40:12.345Z")),
        ("I9", "no lease is left over", operation(lease_token="t", recording=number(16))),
        ("I9", "one job a recording, under its id", second_job),
        ("I9", FIT, job(1, state="finished")),
        ("I9", FIT, job(3, milestone="failed")),
        ("I9", FIT, job(1, milestone="transcribed")),
        ("I9", FIT, job(1, attempts=1)),
        ("I9", FIT, job(1, error_text="still there")),
        ("I9", FIT, job(1, not_before="2026-11-30 18:40:12.345Z")),
        ("I9", FIT, job(3, error_text="")),
        ("I9", FIT, job(3, error_text="x" * 2001)),
        ("I9", FIT, job(3, attempts=0)),
        ("I9", FIT, job(3, attempts=7)),
        ("I9", FIT, job(16, attempts=6)),
        ("I9", FIT, job(1, written_token="")),
        ("I9", TOLD, answers(21, state="pending")),
        ("I9", TOLD, answers(22, sent=2)),
        ("I9", TOLD, answers(22, unsure=1)),
        ("I9", TOLD, answers(26, reason="")),
        ("I9", TOLD, answers(26, unsure=0)),
        ("I9", TOLD, answers(21, state="undelivered")),
        ("I9", "operations belong to jobs that wait for them, or are swept",
         operation(state="lost")),
        ("I9", "times are PocketBase's, in its form", job(1, updated="2026-11-30T18:40:12.345Z")),
        ("I9", "times are PocketBase's, in its form", job(1, updated="2026-12-01 12:40:12.345Z")),
        ("I9", "times are PocketBase's, in its form", job(1, created="2026-11-29 12:40:12.345Z")),
    ],
)  # fmt: skip
def test_what_others_could_see_or_would_stumble_over_is_caught(
    invariant: str, clause: str, spoil: Spoil, tmp_path: Path
) -> None:
    caught(spoil, invariant, clause, tmp_path)


# What may happen, and is no violation


def began_anew(run: Evidence) -> None:
    """PocketBase was killed late: its own counters know of nothing before."""
    run.before_quiet("fault", id=870, kind="kill", target="pb")
    run.before_quiet("fault_over", id=870)
    for series in (ACCEPTED, TELEGRAM, REJECTED):
        run.metrics[series] = 0


def ordinary_words(run: Evidence) -> None:
    run.logs["up"].append("telegram message not dealt with yet reason=number refused")


def leftover_of_a_remote_recogniser(run: Evidence) -> None:
    operation(recogniser="openai", lease_token="t", recording=number(16))(run)


@pytest.mark.parametrize(
    "change",
    [began_anew, ordinary_words, leftover_of_a_remote_recogniser],
)
def test_what_may_happen_is_let_pass(change: Spoil, tmp_path: Path) -> None:
    run = whole()
    change(run)
    ledger = run.judge(tmp_path)
    assert ledger.violations == 0, ledger.table()


def test_a_log_table_that_is_missing_is_caught(tmp_path: Path) -> None:
    whole().write(tmp_path)
    (tmp_path / "end" / "auxiliary.db").unlink()
    assert "every log is there: no end/auxiliary.db" in judge(tmp_path)[1].broken("I8")


def test_a_corpus_that_says_nothing_is_caught(tmp_path: Path) -> None:
    """Without words to look for, no log can be said to be free of them."""
    run = whole()
    for item in run.journal:
        if item["event"] == "item":
            item["expected"] = {}
    run.tables["transcripts"] = []
    ledger = run.judge(tmp_path)
    assert any(each.startswith("there was something") for each in ledger.broken("I8"))


def test_the_texts_that_were_looked_for_are_those_of_the_run(tmp_path: Path) -> None:
    ledger = whole().judge(tmp_path)
    [note] = [each for each in ledger.notes if "phrases" in each]
    assert len(set(LONG.split())) > 300
    assert not note.endswith(" 0 phrases")
