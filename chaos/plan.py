"""From a seed to a schedule: who sends what when, and what goes wrong when, and where.

The same seed and length give the same plan. What a plan says of records that are not there yet
("one of those that are done") it says by a number from 0 to 1, a `pick`, which counts then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from chaos import corpus

AROUND = 70.0
"""Seconds of a run that go to setting up, calming down and checking, on an ordinary machine."""
SHORTEST = 30.0
BUSY = 100.0
"""Seconds for which more may come in than two busy cores can recognise."""
SENDERS = 4
CHATS = 4
OWN_CHAT = CHATS
"""A chat more, for what must happen in every run: the dice send nothing there."""
LEASE = 6.0
"""Seconds of a lease; longer stops than that make others take over."""

PROCESSES = (
    [("kill", target) for target in (
        "pb", "media", "pipeline", "engine", "engine_child", "telegram", "decoder",
        "second/pipeline", "second/engine")]
    + [("stop", target) for target in (
        "pipeline", "engine", "telegram", "pb", "media", "second/pipeline", "second/engine")]
    + [("restart", target) for target in ("service", "pipeline", "engine")]
    + [("starve", target) for target in ("hogs", "slices")]
    + [("clock", target) for target in ("pipeline", "telegram")]
)  # fmt: skip
SURROUNDINGS = (
    [("network_cut", target) for target in ("workers", "second", "senders")]
    + [("answers_dropped", target) for target in ("workers", "senders")]
    + [("swallowed", "workers"), ("disk_full", "data")]
)
OUTSIDERS = (
    [(f"recogniser_{kind}", target)
     for kind in ("refuses", "quota", "fails", "hangs", "twice", "late", "garbled")
     for target in ("openai", "speechkit")]
    + [("recogniser_loses", "speechkit")]
    + [(f"telegram_{kind}", "sendMessage") for kind in ("429", "5xx", "504", "hangs", "lost")]
    + [("telegram_409", "getUpdates"), ("telegram_hangs", "getUpdates")]
    + [("telegram_cut", "download")]
)  # fmt: skip
RARE = [
    ("kill", "up"), ("restart", "pb"), ("restart", "media"), ("restart", "telegram"),
    ("restart", "second"), ("clock", "engine"), ("clock", "media"), ("answers_dropped", "second"),
]  # fmt: skip
"""Only in longer runs: the short ones have enough to do with the others."""
KINDS = sorted({kind for kind, _ in (*PROCESSES, *SURROUNDINGS, *OUTSIDERS)})

SECONDS = {
    "stop": (LEASE + 1, LEASE + 4),
    "starve": (3, 6),
    "clock": (8, 15),
    "network_cut": (2, 6),
    "answers_dropped": (1, 3),
    "swallowed": (2, 5),
    "disk_full": (4, 9),
    "kill": (0, 0),
    "restart": (0, 0),
}
"""How long a fault of a kind lasts; (2, 6) for those that are not named."""
OTHERWISE = {
    # What everybody waits for meanwhile; and longer than the longest lease.
    ("stop", "pb"): (2, 4), ("stop", "media"): (2, 5),
    ("stop", "second/pipeline"): (2.5 * LEASE, 3 * LEASE),
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """Something that is to happen `at` so many seconds."""

    at: float
    what: str
    """send, message, ask_again, owner or fault."""
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    seed: int
    minutes: float
    seconds: float
    """How long the trouble lasts."""
    entries: tuple[Entry, ...]
    recogniser: str = "local"
    fallback: str = ""

    def lines(self) -> Iterator[str]:
        """As kept in `plan.jsonl`."""
        yield json.dumps({key: getattr(self, key) for key in HEAD})
        for each in self.entries:
            yield json.dumps({"at": each.at, "what": each.what, **each.fields}, ensure_ascii=False)


HEAD = ("seed", "minutes", "seconds", "recogniser", "fallback")


def save(plan: Plan, path: Path) -> None:
    path.write_text("\n".join(plan.lines()) + "\n", encoding="utf-8")


class Unusable(Exception):
    """A file is no plan; the message says why."""


def load(path: Path) -> Plan:
    """A plan that `save` wrote.

    Raises:
        Unusable: there is none.
    """
    try:
        head, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        entries = tuple(Entry(each.pop("at"), each.pop("what"), each) for each in lines)
        return Plan(**head, entries=entries)
    except OSError as error:
        raise Unusable(error.strerror or "cannot be read") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Unusable("no plan: a line with the seed, then one for each entry") from error


def make(seed: int, minutes: float) -> Plan:
    """The plan of a run that takes so many minutes in all."""
    seconds = max(SHORTEST, minutes * 60 - AROUND)
    dice = Random(f"{seed}")
    calm = calm_times(seconds)
    entries = [
        *_sends(dice, seconds),
        *_messages(dice, seconds),
        *_owner(dice, seconds),
        *_faults(dice, seconds, calm),
        *_certain(Random(f"{seed} certain"), seconds),
    ]
    entries.sort(key=lambda entry: entry.at)
    # Now and then a remote recogniser comes first, and the engines where that one is away.
    first, instead = ("openai", "local") if seed % 4 == 3 else ("local", "")
    return Plan(seed, minutes, seconds, tuple(entries), first, instead)


def calm_times(seconds: float) -> list[tuple[float, float]]:
    """Stretches in which no fault begins: the first moments, and some of each half minute."""
    spans = [(0.0, 2.0)]
    at = 18.0
    while at < seconds:
        spans.append((at, at + 3.0))
        at += 25.0
    return spans


def _times(dice: Random, first: float, last: float, count: int) -> list[float]:
    """So many moments, spread out and yet at random."""
    step = (last - first) / max(count, 1)
    return [round(first + (n + dice.random()) * step, 2) for n in range(count)]


def _item(dice: Random) -> str:
    kinds = corpus.names()
    wanted = dice.choices(
        ("speech", "video", "long", "silence", "sound", "mute", "empty", "broken", "too_large"),
        (55, 6, 6, 5, 4, 4, 4, 12, 4),
    )[0]
    return dice.choice([name for name, kind in kinds.items() if kind == wanted])


def marker(dice: Random) -> str:
    """A word that nothing else in the world says."""
    return "q" + "".join(dice.choice("bcdfghjklmnpqrstvwxz0123456789") for _ in range(11))


def _sends(dice: Random, seconds: float) -> Iterator[Entry]:
    count = round(seconds * (0.7 if seconds <= BUSY else 0.3))
    for number, at in enumerate(_times(dice, 0.0, seconds, count)):
        item = _item(dice)
        recogniser = ""
        if dice.random() < 0.4:
            item = dice.choice(corpus.REMOTE)
            recogniser = dice.choice(("openai", "speechkit"))
        via = dice.choices(("http", "cli", "broken"), (84, 9, 7))[0]
        if via == "cli" and corpus.names()[item] != "speech":
            via = "http"
        yield Entry(at, "send", {
            "id": number, "sender": dice.randrange(SENDERS), "item": item, "recogniser": recogniser,
            "via": via, "name": marker(dice), "title": marker(dice) if dice.random() < 0.5 else "",
            "two_files": via == "http" and dice.random() < 0.03,
        })  # fmt: skip


def _messages(dice: Random, seconds: float) -> Iterator[Entry]:
    count = round(seconds * (0.4 if seconds <= BUSY else 0.2))
    for number, at in enumerate(_times(dice, 0.0, seconds, count)):
        item = _item(dice)
        form = dice.choice(("voice", "audio", "document", "document"))
        if corpus.names()[item] == "video":
            form = dice.choice(("video", "video_note", "document"))
        yield Entry(at, "message", {
            "id": 100_000 + number, "chat": dice.randrange(CHATS), "item": item, "form": form,
            "name": marker(dice), "album": dice.random() < 0.1,
            "deleted_after": round(dice.uniform(0.5, 4), 2) if dice.random() < 0.1 else None,
            "stranger": dice.random() < 0.06,
        })  # fmt: skip
    for number, at in enumerate(_times(dice, seconds / 4, seconds, round(seconds / 12))):
        yield Entry(at, "ask_again", {
            "id": 180_000 + number, "chat": dice.randrange(CHATS), "pick": round(dice.random(), 6),
        })  # fmt: skip


def _owner(dice: Random, seconds: float) -> Iterator[Entry]:
    actions = ("edit_text", "edit_title", "set_priority", "note", "return", "delete", "cancel",
               "delete_transcript", "edit_state", "set_recogniser", "stale_form")  # fmt: skip
    weights = (16, 12, 14, 10, 16, 5, 5, 2, 8, 6, 6)
    for number, at in enumerate(_times(dice, 3.0, seconds, round(seconds * 1.2))):
        yield Entry(at, "owner", {
            "id": 200_000 + number, "action": dice.choices(actions, weights)[0],
            "pick": round(dice.random(), 6), "dice": round(dice.random(), 6), "word": marker(dice),
        })  # fmt: skip


def _certain(dice: Random, seconds: float) -> Iterator[Entry]:
    """What every run has, however short: an answer that arrives and is not known to have arrived, a
    failure that is told, and a stopped job that is returned to work and deleted there."""
    for number, (item, form) in enumerate((
        ("hello-b", "voice"), ("mute-film", "video"), ("mute-film", "document"),
    )):  # fmt: skip
        yield Entry(round(0.5 + 0.3 * number, 2), "message", {
            "id": 190_000 + number, "chat": OWN_CHAT, "item": item, "form": form,
            "name": marker(dice), "album": False, "deleted_after": None, "stranger": False,
            "answer_lost": number == 0,
        })  # fmt: skip
    yield Entry(round(seconds * 0.7, 2), "owner", {"id": 290_000, "action": "recall"})


def _faults(dice: Random, seconds: float, calm: Sequence[tuple[float, float]]) -> Iterator[Entry]:
    identifier = 300_000
    tracks = (
        (PROCESSES + (RARE if seconds > 200 else []), 3.5),
        (SURROUNDINGS, 9.0),
        (OUTSIDERS, 3.0),
    )
    for kinds, every in tracks:
        # Each of them once at least, in any order; after that again, as often as there is time.
        count = max(len(kinds), round(seconds / every))
        deck: list[tuple[str, str]] = []
        while len(deck) < count:
            deck += dice.sample(kinds, len(kinds))
        last = seconds - 3.0
        for (kind, target), at in zip(deck[:count], _times(dice, 2.0, last, count), strict=True):
            shortest, longest = OTHERWISE.get((kind, target), SECONDS.get(kind, (2, 6)))
            for start, end in calm:
                if start <= at < end:
                    at = min(round(end + dice.random(), 2), last)  # noqa: PLW2901 - moved out of the calm
            yield Entry(at, "fault", {
                "id": identifier, "kind": kind, "target": target,
                "seconds": round(dice.uniform(shortest, longest), 2),
                "dice": round(dice.random(), 6),
            })  # fmt: skip
            identifier += 1
