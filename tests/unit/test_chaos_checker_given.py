"""The judge of `make chaos`: what every run must have had, and what a chosen plan need not have."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from chaos.checker import main
from tests.unit.chaos_evidence import Evidence, number
from tests.unit.chaos_whole import FIRST, OTHER, whole
from tests.unit.test_chaos_checker import Spoil

LEFT = "nobody is left without an answer and without a word"
FAILURE = "a failure is told once each time"
DELETED = "of what was deleted at most one answer was on its way"
AWAY = "a deleted record stays away, with what hangs on it"
RETURNED = "a job returned to work has gone on"


def never_unsure(run: Evidence) -> None:
    run.get("answers", recording=number(26)).update(state="sent", reason="", unsure=0)
    run.sent[OTHER] = [each for each in run.sent[OTHER] if each["reply_to"] != 26]


def never_failed(run: Evidence) -> None:
    run.tables["answers"] = [row for row in run.tables["answers"] if row["kind"] != "failure"]
    for chat in (FIRST, OTHER):
        run.sent[chat] = [each for each in run.sent[chat] if "Номер" not in each["text"]]
    never("delete_transcript")(run)  # after that a failure may be told of a text, too


def never_answered(run: Evidence) -> None:
    run.sent[OTHER] = [each for each in run.sent[OTHER] if each["reply_to"] != 27]


def never(*actions: str) -> Spoil:
    def spoil(run: Evidence) -> None:
        run.journal = [row for row in run.journal if row.get("action") not in actions]

    return spoil


CASES = [
    ("I4", LEFT, never_unsure),
    ("I4", FAILURE, never_failed),
    ("I4", DELETED, never_answered),
    ("I5", AWAY, never("delete", "cancel", "delete_transcript")),
    ("I5", RETURNED, never("return")),
]


@pytest.mark.parametrize(("invariant", "clause", "spoil"), CASES)
def test_what_every_run_must_have_had_is_missed(
    invariant: str, clause: str, spoil: Spoil, tmp_path: Path
) -> None:
    run = whole()
    spoil(run)
    assert f"{clause}: looked at nothing" in run.judge(tmp_path).broken(invariant)


@pytest.mark.parametrize("mark", [{"given": True}, {"certain": False}])
@pytest.mark.parametrize(("invariant", "clause", "spoil"), CASES)
def test_an_older_run_and_a_chosen_plan_need_not_have_had_it(
    invariant: str, clause: str, spoil: Spoil, mark: dict[str, bool], tmp_path: Path
) -> None:
    run = whole()
    spoil(run)
    run.event("settings").update(mark)
    ledger = run.judge(tmp_path)
    assert f"{clause}: looked at nothing" not in ledger.broken(invariant)
    apart = "With this plan there was nothing to look at for:"
    listed = ledger.table().partition(apart)[2]
    assert (f"  - {invariant} {clause}" in listed) is bool(mark.get("given"))


def test_a_chosen_plan_without_telegram_or_edits_is_no_violation(tmp_path: Path) -> None:
    """What is kept is one send and one kill."""
    run = whole()
    run.event("settings")["given"] = True
    run.journal = [row for row in run.journal if row["event"] != "owner"]
    ledger = run.judge(tmp_path)
    assert not [each for each in ledger.broken("I5") if "looked at nothing" in each]
    assert "NOTHING" not in ledger.table()


def test_what_a_chosen_plan_breaks_is_a_violation_all_the_same(tmp_path: Path) -> None:
    run = whole()
    run.event("settings")["given"] = True
    run.remove(number(1))
    assert run.judge(tmp_path).violations > 0


def test_a_recordings_story_is_told_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The send that made it, which does not name it, and a worker with another clock, too."""
    run = whole()
    run.event("settings")["started_at"] = datetime.fromisoformat("2026-11-30 18:40:00").timestamp()
    odd = "telegram | 2026-11-29 03:00:00.000 INFO    telegram answer sent job_id={}"
    run.logs["up"] = [
        line.replace("18:40:12", "18:40:59") for line in run.logs["up"] if number(1) in line
    ] + [odd.format(number(1)), odd.format(number(19))]
    run.write(tmp_path)
    assert main(["--story", number(1), str(tmp_path)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[1:3] for line in told] == [
        ["journal", "send"], ["journal", "answer"], *[["up", "pipeline"]] * 4, ["up", "telegram"],
    ]  # fmt: skip
    assert all(number(1) in line for line in told[1:])
    assert told[2].split()[0].startswith("59.3")


def test_the_story_of_a_message_has_the_message_and_what_the_owner_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole().write(tmp_path)
    assert main(["--story", number(27), str(tmp_path)]) == 0
    told = capsys.readouterr().out.splitlines()
    kinds = {line.split()[2] for line in told if line.split()[1] == "journal"}
    assert kinds == {"message", "owner"}
    assert main(["--story", "nobody", str(tmp_path)]) == 0
    assert "names nobody" in capsys.readouterr().out


def test_the_figures_say_that_the_plan_was_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = whole()
    run.event("settings")["given"] = True
    run.write(tmp_path)
    assert main(["--figures", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("| a plan of 7 | 2 |")
