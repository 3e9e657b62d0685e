"""The judge of `make chaos` passes a clean run, and catches whatever is lost or spoilt."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.check.figures import HEADER
from chaos.check.ledger import INVARIANTS, Ledger
from chaos.checker import main
from tests.unit.chaos_evidence import Evidence, number
from tests.unit.chaos_whole import ALICE, FIRST, whole

Spoil = Callable[[Evidence], object]


def test_a_clean_run_passes(tmp_path: Path) -> None:
    ledger = whole().judge(tmp_path)
    assert ledger.violations == 0, ledger.table()
    looked = {each.invariant for each in ledger.clauses if each.looked}
    assert looked == set(INVARIANTS)


def caught(spoil: Spoil, invariant: str, clause: str, folder: Path) -> Ledger:
    """Judge the clean run, spoilt in one way: this clause must be broken."""
    run = whole()
    spoil(run)
    ledger = run.judge(folder)
    found = [each for each in ledger.broken(invariant) if each.startswith(f"{clause}:")]
    assert found, f"{invariant} {clause!r} was not broken:\n{ledger.table()}"
    return ledger


def job(n: int, **values: object) -> Spoil:
    return lambda run: run.get("jobs", id=number(n)).update(values)


def drop(event: str, **known: object) -> Spoil:
    return lambda run: run.journal.remove(run.event(event, **known))


def status(n: int, **values: object) -> Spoil:
    """The body that the sender of a recording gets."""

    def spoil(run: Evidence) -> None:
        [told] = [each for each in run.statuses if each["job_id"] == number(n)]
        body = told["status"]["body"]
        body.update(values)
        for name in [name for name, value in values.items() if value is None]:
            del body[name]

    return spoil


def told_404(n: int) -> Spoil:
    def spoil(run: Evidence) -> None:
        [told] = [each for each in run.statuses if each["job_id"] == number(n)]
        told["status"] = {"code": 404, "body": {"error_code": "not_found", "message": "-"}}

    return spoil


def lost_by_telegram(run: Evidence) -> None:
    run.remove(number(21))
    run.sent[FIRST] = [each for each in run.sent[FIRST] if each["reply_to"] != 21]


def shown_to_another(run: Evidence) -> None:
    run.statuses[0]["stranger"] = {"code": 200, "body": {}}


def still_shown(run: Evidence) -> None:
    [told] = [each for each in run.statuses if each["job_id"] == number(14)]
    told["status"] = {"code": 200, "body": {"job_id": number(14), "status": "done"}}


def without_plan(run: Evidence) -> None:
    run.plan.clear()


def refused_and_taken(run: Evidence) -> None:
    run.bot(FIRST, 21, "Не получилось забрать этот файл. Пришлите его, пожалуйста, ещё раз.")


def good_one_refused(run: Evidence) -> None:
    lost_by_telegram(run)
    run.bot(FIRST, 21, "Этот файл не читается как аудио или видео.")


def refused_without_a_fault(run: Evidence) -> None:
    run.journal = [row for row in run.journal if not row["event"].startswith("fault")]


def dead(text: str, **values: object) -> Spoil:
    return job(16, error_text=text, **values)


def engine_never_died(run: Evidence) -> None:
    run.get("jobs", id=number(16)).update(
        state="failed", attempts=1, error_text="recognition: the engine died 3 times on unit 0"
    )
    run.journal = [row for row in run.journal if row.get("target") != "engine_child"]


def engines_stopped(run: Evidence) -> None:
    text = "recognition: 10 engines stopped without a result on unit 0"
    run.get("jobs", id=number(16)).update(state="failed", attempts=1, error_text=text)


@pytest.mark.parametrize(
    ("invariant", "clause", "spoil"),
    [
        ("I0", "the plan was written", without_plan),
        ("I0", "there were faults", refused_without_a_fault),
        ("I0", "each fault was over before the end", drop("fault_over", id=801)),
        ("I0", "it became quiet", drop("quiet")),
        ("I1", "everything settled once it was quiet", drop("drained")),
        ("I1", "everything settled once it was quiet",
         lambda run: run.event("drained").update(settled=False, left=[number(1)])),
        ("I1", "a recording answered 201 is there, or was deleted",
         lambda run: run.remove(number(1))),
        ("I1", "a recording answered 201 is there, or was deleted",
         lambda run: run.event("owner", record=number(14)).update(status=400)),
        ("I1", "every recording has its job",
         lambda run: run.tables["jobs"].remove(run.get("jobs", id=number(1)))),
        ("I1", "every job has ended", job(4, state="submitted", milestone="submitted")),
        ("I1", "a job that is done has its text",
         lambda run: run.tables["transcripts"].remove(run.get("transcripts", id="text1"))),
        ("I1", "its sender is told how it stands", told_404(1)),
        ("I1", "its sender is told how it stands", status(1, status="failed")),
        ("I1", "its sender is told how it stands", status(1, job_id=number(2))),
        ("I1", "its sender is told how it stands", shown_to_another),
        ("I1", "its sender is told how it stands", lambda run: run.statuses.pop(0)),
        ("I1", "its sender is told how it stands", still_shown),
        ("I1", "halted is said exactly of what stopped", status(3, halted=None)),
        ("I1", "halted is said exactly of what stopped", status(1, halted=True)),
        ("I1", "halted is said exactly of what stopped", status(1, status="transcribed")),
        ("I1", "every Telegram message was dealt with", lambda run: run.unconfirmed.append(7021)),
        ("I1", "a message gave a recording or a word to its sender", lost_by_telegram),
        ("I1", "a message gave a recording or a word to its sender", refused_and_taken),
        ("I1", "a message gave a recording or a word to its sender",
         lambda run: run.sent.update({FIRST: [r for r in run.sent[FIRST] if r["reply_to"] != 25]})),
        ("I1", "a stranger is told that it is one",
         lambda run: run.sent["77"].clear()),
        ("I1", "a stranger is told that it is one",
         lambda run: run.bot("77", 40, "Принято, расшифровываю.")),
        ("I10", "nothing of a stranger's is stored",
         lambda run: run.recording(40, "hello", chat_id="77", message_id="40")),
        ("I2", "no good recording is refused by the bot", good_one_refused),
        ("I2", "a broken recording never becomes done", job(3, state="done")),
        ("I2", "a good recording fails only as faults entitle to", dead("something went wrong")),
        ("I2", "a good recording fails only as faults entitle to",
         dead("submit given up after 6 attempts: x", attempts=3)),
        ("I2", "a good recording fails only as faults entitle to",
         dead("read media: no audio track", state="failed", attempts=1)),
        ("I2", "a good recording fails only as faults entitle to",
         dead("recogniser openai: answered 400 invalid", state="failed", attempts=1)),
        ("I2", "a good recording fails only as faults entitle to",
         dead("normalise given up after 6 attempts: No space left on device")),
        ("I2", "a good recording fails only as faults entitle to", engine_never_died),
        ("I2", "a good recording fails only as faults entitle to", engines_stopped),
        ("I2", "no recogniser refused what it was sent, but for a fault",
         lambda run: run.calls[0].update(fault="")),
        ("I2", "an upload of a good recording is refused only for a fault",
         lambda run: run.event("answer", id=7).update(
             status=507, body={"error_code": "no_space", "message": "-"})),
        ("I2", "an upload of a good recording is refused only for a fault",
         refused_without_a_fault),
        ("I2", "an upload of a good recording is refused only for a fault",
         lambda run: run.event("answer", id=7).update(status=400)),
        ("I2", "what the intake must refuse is refused",
         lambda run: run.event("answer", id=6).update(
             status=201, body={"job_id": number(1), "status": "uploaded"})),
    ],
)  # fmt: skip
def test_what_is_lost_is_caught(invariant: str, clause: str, spoil: Spoil, tmp_path: Path) -> None:
    caught(spoil, invariant, clause, tmp_path)


def torn_journal(folder: Path) -> None:
    with (folder / "journal.jsonl").open("a") as file:
        file.write('{"t": 99, "event": "ow')


def test_a_torn_journal_is_caught(tmp_path: Path) -> None:
    whole().write(tmp_path)
    torn_journal(tmp_path)
    assert main([str(tmp_path)]) == 1


# What may happen, and is no violation


def taken_by_the_fallback(run: Evidence) -> None:
    run.get("transcripts", id="text2")["engine"] = "openai/another-model"
    [told] = [each for each in run.statuses if each["job_id"] == number(2)]
    told["transcript"]["body"]["engine"] = "openai/another-model"


def failed_as_entitled(run: Evidence) -> None:
    run.before_quiet("fault", id=850, kind="recogniser_refuses", target="openai")
    run.before_quiet("fault_over", id=850)
    run.get("jobs", id=number(16)).update(
        state="failed", attempts=2, error_text="recogniser openai: answered 400 invalid_file"
    )


def lost_operations(run: Evidence) -> None:
    run.get("jobs", id=number(16)).update(attempts=1, sent_back=7)


def engine_died(run: Evidence) -> None:
    run.get("jobs", id=number(16)).update(
        state="failed", attempts=1, error_text="recognition: the engine died 3 times on unit 0"
    )


def ten_engines_stopped(run: Evidence) -> None:
    engines_stopped(run)
    for n in range(10):
        run.before_quiet("fault", id=860 + n, kind="kill", target="engine")
        run.before_quiet("fault_over", id=860 + n)


def perhaps_deleted(run: Evidence) -> None:
    run.remove(number(1))
    run.owner("delete", "recordings", number(1), lost="ReadTimeout")


def told_to_send_again(run: Evidence) -> None:
    lost_by_telegram(run)
    refused_and_taken(run)


def admission_taken_back(run: Evidence) -> None:
    lost_by_telegram(run)
    run.owner("edit_chat", "chats", f"chat{FIRST}", fields={"admitted": False})
    run.get("chats", id=f"chat{FIRST}")["admitted"] = 0


def two_files(run: Evidence) -> None:
    run.plan.append({"at": 2, "what": "send", "id": 60, "two_files": True})
    run.before_quiet("send", id=60, sender=ALICE, item="hello", via="http", file_name="", title="")
    body = {"error_code": "bad_request", "message": "нужен ровно один файл"}
    run.before_quiet("answer", id=60, status=400, body=body)


@pytest.mark.parametrize(
    "change",
    [
        taken_by_the_fallback, failed_as_entitled, lost_operations, engine_died,
        ten_engines_stopped, perhaps_deleted, told_to_send_again, admission_taken_back, two_files,
    ],
)  # fmt: skip
def test_what_faults_entitle_to_is_let_pass(change: Spoil, tmp_path: Path) -> None:
    run = whole()
    change(run)
    gauges(run)
    ledger = run.judge(tmp_path)
    kept = {"I0", "I1", "I2", "I3", "I4", "I5", "I6", "I8", "I9", "I10"}
    assert not [each for name in kept for each in ledger.broken(name)], ledger.table()


def gauges(run: Evidence) -> None:
    """The senders' view and the page as they would then be."""
    for told in run.statuses:
        state = next((r["state"] for r in run.tables["jobs"] if r["id"] == told["job_id"]), "")
        if state in ("failed", "dead"):
            told["status"]["body"]["halted"] = True


# The command


def test_the_command_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clean, spoilt = whole(), whole()
    job(4, state="submitted", milestone="submitted")(spoilt)
    clean.write(tmp_path / "clean")
    spoilt.write(tmp_path / "spoilt")
    assert main([str(tmp_path / "clean")]) == 0
    assert capsys.readouterr().out.endswith("nothing found\n")
    assert main([str(tmp_path / "spoilt")]) == 1
    told = capsys.readouterr().out
    assert f"{number(4)} still stands at submitted" in told
    assert main(["--figures", str(tmp_path / "clean"), str(tmp_path / "spoilt")]) == 1
    *head, first, second = capsys.readouterr().out.splitlines()
    assert tuple(head) == HEADER
    assert first.startswith("| 7 | 2 | 9, 9 | kill 4 | engine_child 3, pipeline 1 | 11, 4, 1, 2 |")
    assert first.endswith("| 0 |")
    assert not second.endswith("| 0 |")


def test_a_run_that_did_not_end_proves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole().write(tmp_path)
    (tmp_path / "end" / "data.db").unlink()
    assert main([str(tmp_path)]) == 2
    assert "did not come to its end" in capsys.readouterr().err


def test_what_looked_at_nothing_is_a_violation(tmp_path: Path) -> None:
    run = whole()
    run.journal = [row for row in run.journal if row["event"] not in {"owner"}]
    ledger = run.judge(tmp_path)
    assert "the last edit of a field stands: looked at nothing" in ledger.broken("I5")
    assert "NOTHING" in ledger.table()


def test_the_judge_knows_nothing_of_the_product_nor_of_the_rig() -> None:
    code = (
        "import sys, chaos.checker\n"
        "ours = {m for m in sys.modules if m.split('.')[0] in ('worker', 'tests', 'chaos')}\n"
        "left = {m for m in ours if not m.startswith(('chaos.check',))} - {'chaos'}\n"
        "sys.exit(f'{left}' if left else 0)"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, timeout=60)
