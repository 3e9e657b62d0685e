"""The plans of `chaos/`: the same seed gives the same plan, and a short one leaves no fault out."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from chaos import __main__ as run
from chaos import corpus, plan
from chaos.trouble import Trouble


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
