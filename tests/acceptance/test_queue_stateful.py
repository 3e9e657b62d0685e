"""The real routes against the model, call by call: claims, results that come twice or too late,
clock jumps, the owner's forms, old and new, deletions, operations of engines, answers to senders.

Seeded by hypothesis, the same calls each time. `QUEUE_EXAMPLES` names how many runs there are.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.acceptance.bench import Bench
from tests.acceptance.queue_machine import JUMPS, PAUSE, Machine
from tests.model.rows import ENDED, MILESTONES, Outcome

EXAMPLES = int(os.environ.get("QUEUE_EXAMPLES", "25"))
STEPS = 40

STATES = st.sampled_from(MILESTONES[:-1])
NAMES = st.sampled_from(["a", "b"])
NUMBERS = st.integers(0, 99)
CALLS: dict[str, int] = {}


def picked(items: Any, number: int) -> Any:
    """One of them, of the later ones rather than of the earlier."""
    return items[-1 - number % len(items)]


class Calls(RuleBasedStateMachine):
    """What hypothesis may call."""

    machine: Machine

    def __init__(self) -> None:
        super().__init__()
        self.machine.reset()
        self.claims: list[Any] = []
        self.forms: list[Any] = []
        self.work: list[Any] = []
        self.told: list[Any] = []

    @property
    def ids(self) -> list[str]:
        return [job.id for job in self.machine.db.jobs]

    @initialize(state=STATES, telegram=st.booleans())
    def first(self, state: str, telegram: bool) -> None:
        """Jobs at work, one that is stopped, an answer to be given, an operation to work on."""
        self.machine.add(state, telegram)
        self.machine.add("normalized", True)
        self.claims += self.machine.claim("normalized", "a", 2)
        self.submit(0, False)
        self.machine.said += 1  # no pause
        self.finish(self.claims[-1], "advanced", "submitted", 2)
        self.finish(self.claims[-1], "failed")
        self.finish(self.claims[0], "retry")

    @precondition(lambda self: len(self.ids) < 4)
    @rule(state=STATES, telegram=st.booleans())
    def add(self, state: str, telegram: bool) -> None:
        self.machine.add(state, telegram)

    @rule(minutes=st.sampled_from(JUMPS))
    def jump(self, minutes: int) -> None:
        self.machine.jump(minutes)

    @rule(state=STATES, worker=NAMES, count=st.sampled_from([1, 1, 2]))
    def claim(self, state: str, worker: str, count: int) -> None:
        self.claims += self.machine.claim(state, worker, count)

    @precondition(lambda self: self.ids)
    @rule(number=NUMBERS, worker=NAMES)
    def claim_what_is_there(self, number: int, worker: str) -> None:
        state = picked(self.machine.db.jobs, number).state
        if state not in ENDED:
            self.claims += self.machine.claim(state, worker, 1)

    @precondition(lambda self: self.claims)
    @rule(number=NUMBERS, name=st.sampled_from(["advanced"] * 4 + [
        "retry", "capped", "failed", "dead", "released", "waiting", "sent_back"]))  # fmt: skip
    def write(self, number: int, name: str) -> None:
        """Of any claim there was: of a live one, one that is over, one that another has now."""
        claim = picked(self.claims, number)
        self.finish(claim, name, claim[0].state if number % 3 == 0 else "", 2)

    @precondition(lambda self: self.claims)
    @rule(name=st.sampled_from(["advanced", "advanced", "failed"]))
    def write_twice(self, name: str) -> None:
        self.finish(self.claims[-1], name)
        self.finish(self.claims[-1], name)

    def finish(self, claim: Any, name: str, next_of: str = "", count: int = 1) -> list[Any]:
        machine, model = self.machine, claim[0]
        machine.said += 1
        outcome = Outcome(name, pause=machine.said % 2 * PAUSE, error=f"because {machine.said}")
        match name:
            case "advanced":
                to = MILESTONES[MILESTONES.index(model.state) + 1]
                kind = {"transcribed": "raw", "done": "proofread"}.get(to)
                last = [o.id for o in machine.db.operations if o.job == model.id]
                outcome = outcome._replace(
                    to=to,
                    error="",
                    text=(kind, f"said {machine.said}") if kind else None,
                    operation=last[0] if last and to == "submitted" else 0,
                )
            case "capped":
                outcome = outcome._replace(name="retry", cap=1)
            case "sent_back":
                outcome = outcome._replace(to="normalized")
        CALLS[name] = CALLS.get(name, 0) + 1
        claimed = machine.write(claim, outcome, next_of, count)
        CALLS["claimed next"] = CALLS.get("claimed next", 0) + bool(claimed)
        self.claims += claimed
        return claimed

    @precondition(lambda self: self.ids)
    @rule(
        number=NUMBERS, worker=NAMES, name=st.sampled_from(["advanced"] * 3 + ["retry", "failed"])
    )
    def work_on_what_is_there(self, number: int, worker: str, name: str) -> None:
        state = picked(self.machine.db.jobs, number).state
        if state not in ENDED:
            claims = self.machine.claim(state, worker, 1)
            self.claims += claims
            for _ in range(2):  # as a runner does: with each result comes the next
                claims = [each for claim in claims for each in self.finish(claim, name, state)]

    @rule(worker=NAMES, keep=st.booleans())
    def give_back(self, worker: str, keep: bool) -> None:
        kept = [self.claims[-1][0].token] if keep and self.claims else []
        self.machine.give_back(worker, kept)

    # The owner

    @precondition(lambda self: self.ids)
    @rule(number=NUMBERS)
    def open_form(self, number: int) -> None:
        self.forms.append(self.machine.form(picked(self.ids, number)))

    @precondition(lambda self: self.forms)
    @rule(number=NUMBERS, state=st.sampled_from(["", "", *MILESTONES, "dead"]))
    def save_form(self, number: int, state: str) -> None:
        form = picked(self.forms, number)
        self.machine.save(form, form[0].id, self.changes(state))

    @precondition(lambda self: self.ids)
    @rule(number=NUMBERS, state=st.sampled_from(["", *MILESTONES]))
    def save_columns(self, number: int, state: str) -> None:
        self.machine.save(None, picked(self.ids, number), self.changes(state))

    def changes(self, state: str) -> dict[str, Any]:
        self.machine.said += 1
        edit = {"note": f"note {self.machine.said}", "priority": self.machine.said % 3}
        return edit | ({"state": state} if state else {})

    @precondition(lambda self: any(job.state in {"failed", "dead"} for job in self.machine.db.jobs))
    @rule(state=STATES)
    def return_to_work(self, state: str) -> None:
        stopped = [job.id for job in self.machine.db.jobs if job.state in {"failed", "dead"}]
        form = self.machine.form(stopped[0])
        self.machine.save(form, stopped[0], {"state": state})

    @precondition(lambda self: self.machine.db.texts)
    @rule(number=NUMBERS)
    def edit_text(self, number: int) -> None:
        text = picked(self.machine.db.texts, number)
        self.machine.said += 1
        self.machine.edit_text(text.job, text.kind, f"put right {self.machine.said}")

    @precondition(lambda self: len(self.ids) > 2)
    @rule(number=NUMBERS)
    def delete(self, number: int) -> None:
        self.machine.delete(picked(self.ids, number))

    # Operations

    @precondition(lambda self: self.claims)
    @rule(number=NUMBERS, remote=st.booleans())
    def submit(self, number: int, remote: bool) -> None:
        """Under any claim there was, of whatever step."""
        claim = picked(self.claims, number)
        taken = self.machine.take(claim) if remote else None
        if taken:
            self.work.append(taken)
        made = taken or (not remote and self.machine.submit(claim))
        name = f"{'take' if remote else 'submit'} {'ok' if made else 'refused'}"
        CALLS[name] = CALLS.get(name, 0) + 1

    @rule(worker=NAMES, remote=st.booleans(), gets_on=st.booleans())
    def submit_what_is_there(self, worker: str, remote: bool, gets_on: bool) -> None:
        for claim in self.machine.claim("normalized", worker, 1):
            self.claims.append(claim)
            self.submit(0, remote)
            if gets_on:
                self.finish(claim, "advanced")

    @precondition(lambda self: self.machine.db.operations)
    @rule(engine=NAMES)
    def claim_operation(self, engine: str) -> None:
        claim = self.machine.claim_operation(engine)
        if claim:
            self.work.append(claim)

    @precondition(lambda self: self.work)
    @rule(number=st.sampled_from([0, 0, 1, 2]), action=st.sampled_from(
        ["cut", "segments", "segments", "renew", "done", "done", "failed", "released", "lost"]),
        unit=st.integers(0, 1))  # fmt: skip
    def act(self, number: int, action: str, unit: int) -> None:
        self.machine.said += 1
        values = {"cut": (max(unit, 1),), "segments": (unit, f"words {self.machine.said}")}.get(
            action, ()
        )
        CALLS[action] = CALLS.get(action, 0) + 1
        self.machine.act(picked(self.work, number), action, *values)

    @rule(engine=NAMES, units=st.integers(0, 2), written=st.integers(0, 2), dies=st.booleans())
    def recognise(self, engine: str, units: int, written: int, dies: bool) -> None:
        """An operation from its beginning to its end, perhaps with a slice amiss, perhaps by an
        engine that comes back from its death."""
        if dies and self.machine.claim_operation(engine):
            self.machine.give_back_operations(engine)
        claim = self.machine.claim_operation(engine)
        if claim:
            self.work.append(claim)
            self.act(0, "cut", units)
            for unit in range(written):
                self.act(0, "segments", unit)
            self.act(0, "done", 0)
            self.machine.check(claim[0].id)

    @precondition(lambda self: self.work)
    @rule(number=NUMBERS)
    def check(self, number: int) -> None:
        self.machine.check(picked(self.work, number)[0].id)

    @precondition(lambda self: len(self.work) > 2)
    @rule(number=NUMBERS)
    def cancel(self, number: int) -> None:
        self.machine.cancel(picked(self.work, number)[0].id)

    @rule(engine=NAMES)
    def engine_starts_again(self, engine: str) -> None:
        self.machine.give_back_operations(engine)

    # Answers

    @precondition(lambda self: self.machine.db.answers)
    @rule(teller=NAMES)
    def claim_answers(self, teller: str) -> None:
        self.told += self.machine.claim_answers(teller, 2)

    @precondition(lambda self: self.told)
    @rule(number=st.sampled_from([0, 0, 1, 2]), name=st.sampled_from(["begun", "begun", "later"]),
        sent=st.integers(0, 2))  # fmt: skip
    def tell(self, number: int, name: str, sent: int, ended: str = "") -> None:
        CALLS[name] = CALLS.get(name, 0) + 1
        begun = sent + (name == "begun")
        self.machine.write_answer(picked(self.told, number), name, begun, sent, 0, ended=ended)

    @precondition(lambda self: self.told)
    @rule(number=st.sampled_from([0, 1, 2]), sent=st.integers(0, 2), twice=st.booleans(),
        ended=st.sampled_from(["sent", "unsure", "undelivered"]))  # fmt: skip
    def tell_the_end(self, number: int, sent: int, twice: bool, ended: str) -> None:
        for _ in range(1 + twice):
            self.tell(number, "ended", sent, ended)

    @rule(teller=NAMES)
    def teller_starts_again(self, teller: str) -> None:
        self.machine.give_back_answers(teller)

    @invariant()
    def one_queue(self) -> None:
        CALLS["steps"] = CALLS.get("steps", 0) + 1
        self.machine.compare()


@pytest.mark.timeout(1800)
def test_the_real_routes_do_what_the_model_does(bench: Bench):
    Calls.machine = Machine(bench)
    run_state_machine_as_test(
        Calls,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate] if EXAMPLES <= 25 else [Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(CALLS)
    assert CALLS["claimed next"] > EXAMPLES
    assert set(CALLS) > {
        "advanced", "retry", "failed", "cut", "segments", "done", "begun", "ended",
        "submit ok", "submit refused", "take ok", "take refused",
    }  # fmt: skip
