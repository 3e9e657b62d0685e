"""Tellers, Telegram and a bad network around the answers on their way to senders, to be searched.

A teller notes that a message is about to leave, sends it, and notes that with the next one or at
the end; it may die, be overtaken or lose an answer between any two of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.model.rows import Answer, Database, Job
from tests.model.rules import Rules
from tests.model.search import Violation

LEASE = 1
PARTS = 2
NOTICES = 2
"""Times that the line about a missing part is said while nobody knows whether it came."""


class Teller(NamedTuple):
    """What one process believes."""

    name: str
    phase: str = "idle"
    """new: gives back first; held: between two messages; begun: one is about to leave."""
    key: tuple[str, int] = ("", 0)
    token: int = 0
    begun: int = 0
    sent: int = 0
    unsure: int = 0
    told: bool = False
    """Whether the notice arrived for certain."""


class Note(NamedTuple):
    """A call of a teller's."""

    call: str
    teller: str
    key: tuple[str, int] = ("", 0)
    token: int = 0
    at: tuple[int, int, int] = (0, 0, 0)


class State(NamedTuple):
    """All of it."""

    db: Database
    tellers: tuple[Teller, ...]
    wire: tuple[Note, ...] = ()
    arrived: tuple[tuple[tuple[str, int], tuple[int, ...]], ...] = ()
    """Of each answer, how often each of its messages arrived; the last is the notice."""
    faults: int = 0


class Answers:
    """The world: some chats, one answer in each, or two in one."""

    manners = ("every message arrives",)

    def __init__(
        self, rules: Rules | None = None, *, chats: str = "c", tellers: int = 2, faults: int = 1
    ) -> None:
        self.rules = rules or Rules()
        names = [f"j{n}" for n in range(len(chats))]
        answers = tuple(
            Answer(name, 1, "text", chat) for name, chat in zip(names, chats, strict=True)
        )
        self.start = State(
            Database(jobs=tuple(Job(name, "done") for name in names), answers=answers, issued=1),
            tuple(Teller(name) for name in "ab"[:tellers]),
            arrived=tuple(((name, 1), (0,) * (PARTS + 1)) for name in names),
            faults=faults,
        )

    def moves(self, state: State) -> Iterator[tuple[str, Callable[[], State]]]:
        def move(made: Callable[[], State]) -> Callable[[], State]:
            return lambda: self.checked(made())

        for n, teller in enumerate(state.tellers):
            call = self.next_call(teller)
            if call is None:
                yield (
                    f"{teller.name}'s message arrives",
                    move(lambda n=n: self.send(state, n, True)),
                )
                if state.faults:
                    yield (
                        f"nobody knows whether {teller.name}'s message arrived, and it did",
                        move(lambda n=n: self.send(state, n, True, known=False)),
                    )
                    yield (
                        f"nobody knows whether {teller.name}'s message arrived, and it did not",
                        move(lambda n=n: self.send(state, n, False, known=False)),
                    )
            else:
                label = f"{teller.name}: {call.call} {call.at}"
                yield label, move(lambda n=n, c=call: self.call(state, n, c))
                if state.faults:
                    yield (
                        f"{label}, and the answer is lost",
                        move(lambda n=n, c=call: self.lose(state, n, c)),
                    )
            if state.faults and teller.phase in {"held", "begun"}:
                yield f"{teller.name} crashes", move(lambda n=n: self.crash(state, n))
                late = Note(
                    "later", teller.name, teller.key, teller.token, _at(teller, teller.sent)
                )
                yield f"{teller.name} puts off", move(lambda n=n, c=late: self.put_off(state, n, c))
        for n, note in enumerate(state.wire):
            rest = state._replace(wire=state.wire[:n] + state.wire[n + 1 :])
            yield f"late: {note}", move(lambda s=rest, c=note: self.perform(s, c)[0])
        yield "time passes", move(lambda: state._replace(db=state.db._replace(now=1)))

    def next_call(self, teller: Teller) -> Note | None:
        """What a teller asks of PocketBase next; None: it sends a message instead."""
        match teller.phase:
            case "idle":
                return Note("claim", teller.name)
            case "new":
                return Note("give_back", teller.name)
            case "begun":
                return None
        notices = NOTICES if teller.unsure and not teller.told else 0
        if teller.sent < PARTS + notices:
            at = _at(teller, teller.sent + 1)
            return Note("begun", teller.name, teller.key, teller.token, at)
        return Note("ended", teller.name, teller.key, teller.token, _at(teller, teller.begun))

    def call(self, state: State, n: int, note: Note) -> State:
        state, answer = self.perform(state, note)
        teller = Teller(state.tellers[n].name)
        if note.call == "claim" and answer:
            [given] = answer
            teller = teller._replace(
                phase="held", key=(given.job, given.cause), token=given.token,
                begun=given.begun, sent=given.sent, unsure=given.unsure,
            )  # fmt: skip
            if given.begun > given.sent:  # whoever was sending it is gone
                teller = _pass_over(teller)
        elif note.call == "begun" and answer:
            teller = state.tellers[n]._replace(phase="begun", begun=note.at[0])
        return self.believe(state, n, teller)

    def lose(self, state: State, n: int, note: Note) -> State:
        """It is carried out some time or never, and asked again where that matters."""
        teller = state.tellers[n]
        if note.call in {"claim", "give_back"}:
            teller = Teller(teller.name, "new")
        state = state._replace(wire=tuple(sorted([*state.wire, note])), faults=state.faults - 1)
        return self.believe(state, n, teller)

    def put_off(self, state: State, n: int, note: Note) -> State:
        return self.call(state._replace(faults=state.faults - 1), n, note)

    def crash(self, state: State, n: int) -> State:
        teller = Teller(state.tellers[n].name, "new")
        return self.believe(state._replace(faults=state.faults - 1), n, teller)

    def send(self, state: State, n: int, arrives: bool, known: bool = True) -> State:
        teller = state.tellers[n]
        if arrives:
            arrived = dict(state.arrived)
            counts = list(arrived[teller.key])
            counts[min(teller.sent, PARTS)] += 1
            arrived[teller.key] = tuple(counts)
            if max(counts[:PARTS]) > 1 or counts[PARTS] > NOTICES:
                raise Violation("no message is sent twice", arrived)
            state = state._replace(arrived=tuple(arrived.items()))
        if known:
            notice = teller.sent >= PARTS
            after = teller._replace(phase="held", sent=teller.sent + 1, told=notice)
        else:
            state = state._replace(faults=state.faults - 1)
            after = _pass_over(teller)._replace(phase="held")
        return self.believe(state, n, after)

    def believe(self, state: State, n: int, teller: Teller) -> State:
        tellers = state.tellers
        return state._replace(tellers=(*tellers[:n], teller, *tellers[n + 1 :]))

    def perform(self, state: State, note: Note) -> tuple[State, object]:
        db = state.db
        if note.call == "claim":
            pending = [answer for answer in db.answers if answer.state == "pending"]
            first = {answer.chat: answer.job for answer in reversed(pending)}
            db, given = self.rules.claim_answers(db, LEASE, 1, note.teller)
            for answer in given:
                if first[answer.chat] != answer.job:
                    raise Violation("a chat hears in order", given)
            return state._replace(db=db), given
        if note.call == "give_back":
            return state._replace(db=self.rules.give_back_answers(db, note.teller)[0]), None
        before = db.answer(*note.key)
        ended = "unsure" if note.at[2] else "sent"
        after, taken = self.rules.write_answer(
            db, note.key, note.token, note.call, note.at, pause=1, state=ended
        )
        if before and before.state != "pending" and after != db:
            raise Violation("what was told stays so", before)
        if not taken and note.call != "begun" and before and before.written == note.token:
            raise Violation("nothing is called lost that was written", note)
        return state._replace(db=after), taken

    def checked(self, state: State) -> State:
        for answer in state.db.answers:
            counts = dict(state.arrived)[answer.job, answer.cause]
            if answer.state == "sent" and set(counts[:PARTS]) != {1}:
                raise Violation("what is called sent has arrived, all of it", counts)
            if answer.state == "sent" and counts[PARTS]:
                raise Violation("no notice without a doubt", counts)
        return canonical(state)

    def settle(self, state: State, manner: str) -> State | None:
        if all(answer.state != "pending" for answer in state.db.answers):
            return None
        for n, teller in enumerate(state.tellers):
            call = self.next_call(teller)
            if call is None:
                return self.checked(self.send(state, n, True))
            after = self.checked(self.call(state, n, call))
            if after != state:
                return after
        return self.checked(state._replace(db=state.db._replace(now=1)))


def _at(teller: Teller, begun: int) -> tuple[int, int, int]:
    return (begun, teller.sent, teller.unsure)


def _pass_over(teller: Teller) -> Teller:
    """Nobody knows whether this message arrived: go on behind it."""
    unsure = teller.unsure + (teller.sent < PARTS)
    return teller._replace(sent=teller.sent + 1, begun=teller.sent + 1, unsure=unsure)


def canonical(state: State) -> State:
    """The same with its times counted from now and its tokens numbered by appearance."""
    numbers: dict[int, int] = {0: 0, 1: 1}  # 1: the cause of each answer
    db = state.db

    def number(token: int) -> int:
        return numbers.setdefault(token, len(numbers))

    answers = tuple(
        answer._replace(
            token=number(answer.token),
            written=number(answer.written),
            leased_at=max(answer.leased_at - db.now, -LEASE - 1) if answer.token else 0,
            not_before=max(answer.not_before - db.now, 0),
        )
        for answer in db.answers
    )
    tellers = tuple(each._replace(token=number(each.token)) for each in state.tellers)
    wire = tuple(sorted(each._replace(token=number(each.token)) for each in state.wire))
    return state._replace(
        db=db._replace(now=0, answers=answers, issued=len(numbers) - 1), tellers=tellers, wire=wire
    )
