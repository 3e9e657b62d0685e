"""The plans of `chaos/`: the same seed gives the same plan, and a short one leaves no fault out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from chaos import __main__ as run
from chaos import corpus, plan, world
from chaos.trouble import Trouble

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("minutes", [run.MINUTES, 10.0])
def test_the_same_seed_gives_the_same_plan(minutes: float):
    first, again = plan.make(5, minutes), plan.make(5, minutes)
    assert list(first.lines()) == list(again.lines())
    assert list(first.lines()) != list(plan.make(6, minutes).lines())


def test_a_plan_is_the_same_after_it_was_kept(tmp_path: Path):
    made = plan.make(7, 2)
    plan.save(made, tmp_path / "plan.jsonl")
    assert plan.load(tmp_path / "plan.jsonl") == made


@pytest.mark.parametrize("seed", [run.SEED, 1, 2, 3])
def test_the_short_run_meets_every_fault_on_every_target(seed: int):
    faults = [each.fields for each in plan.make(seed, run.MINUTES).entries if each.what == "fault"]
    met = {(each["kind"], each["target"]) for each in faults}
    assert met == {*plan.PROCESSES, *plan.SURROUNDINGS, *plan.OUTSIDERS}


def test_every_fault_of_a_plan_can_be_carried_out():
    for kind in (*plan.KINDS, *(kind for kind, _ in plan.RARE)):
        name = kind.split("_")[0] if kind.startswith(("recogniser_", "telegram_")) else kind
        assert callable(getattr(Trouble, f"_{name}"))


@pytest.mark.parametrize("seed", range(20))
def test_faults_leave_calm_moments_and_an_end(seed: int):
    made = plan.make(seed, 3)
    calm = plan.calm_times(made.seconds)
    assert len(calm) >= 3
    for each in made.entries:
        assert 0 <= each.at <= made.seconds
        if each.what == "fault":
            assert not any(start <= each.at < end for start, end in calm)
            assert 0 <= each.fields["seconds"] <= 18


def test_what_is_sent_is_of_every_kind_in_the_short_run():
    made = plan.make(run.SEED, run.MINUTES)
    kinds = corpus.names()
    sent = {kinds[each.fields["item"]] for each in made.entries if each.what in {"send", "message"}}
    assert {"speech", "long", "broken", "silence"} <= sent
    assert {each.what for each in made.entries} == {
        "send",
        "message",
        "ask_again",
        "owner",
        "fault",
    }


def test_no_two_names_of_a_plan_are_alike():
    entries = plan.make(run.SEED, 60).entries
    names = [word for each in entries for key, word in each.fields.items()
             if key in {"name", "title", "word"} and word]  # fmt: skip
    assert len(names) == len(set(names)) > 1000
    assert all(len(plan.marker(Random(n))) == 12 for n in range(5))


@pytest.mark.parametrize("seed", [run.SEED, 1, 2, 3])
@pytest.mark.parametrize("minutes", [1.0, run.MINUTES, 60.0])
def test_every_run_has_a_failure_to_tell_and_an_answer_that_is_lost(seed: int, minutes: float):
    made = plan.make(seed, minutes).entries
    own = [each for each in made if each.fields.get("chat") == plan.OWN_CHAT]
    kinds = corpus.names()
    assert [kinds[each.fields["item"]] for each in own] == ["speech", "mute", "mute"]
    assert [each.fields["answer_lost"] for each in own] == [True, False, False]
    assert all(each.at < 2 and not each.fields["stranger"] for each in own)
    assert sum(each.fields.get("action") == "recall" for each in made) == 1


def test_a_file_that_is_no_plan_is_told_on_one_line(tmp_path: Path):
    """And nothing is left where the evidence would have been."""
    broken, folder = tmp_path / "broken.jsonl", tmp_path / "evidence"
    broken.write_text('{"seed": 1}\n{"at": 1}\n')
    (tmp_path / "old").mkdir()
    for given, told in (
        (["--plan", str(tmp_path / "none")], "none: No such file or directory\n"),
        (["--plan", str(broken)], "broken.jsonl: no plan: a line with the seed, then one for"),
        (["--folder", str(tmp_path / "old")], "old: is there already; name a new one\n"),
    ):
        command = [sys.executable, "-m", "chaos", "--folder", str(folder), *given]
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
        )
        assert ended.returncode == 2
        assert ended.stderr.startswith("chaos: ")
        assert told in ended.stderr
        assert ended.stderr.count("\n") == 1
        assert not folder.exists()
        assert ended.stdout == ""


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ((), set()),  # on its way out
        (("/x/bin/pocketbase", "serve", "--http=127.0.0.1:1"), {"pb"}),
        (("/x/bin/pocketbase", "superuser", "upsert"), set()),
        (("python", "-m", "chaos.worker", "engine"), {"engine"}),
        (("python", "-m", "chaos.worker", "pb"), set()),  # becomes PocketBase in a moment
    ],
)
def test_a_process_is_known_by_its_command(command: tuple[str, ...], names: set[str]) -> None:
    process = world.Process(1, 0, command, "")
    assert {name for name in ("pb", "engine", "pipeline") if world._is(process, name)} == names
