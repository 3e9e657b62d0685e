"""How the hooks hang together: their rooms depend on each other one way, and are loaded once.

PocketBase resolves a `require` anew each time, link by link of the path, in the middle of a
transaction too: one in every function cost a claim 65 calls of the file system.
"""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

HOOKS = Path(__file__).parents[2] / "pb" / "pb_hooks"
ROOMS = sorted((HOOKS / "lib").glob("*.js"))
FILES = sorted(HOOKS.glob("*.pb.js"))
REQUIRE = re.compile(r"require\(`\$\{__hooks\}/lib/([\w${}]+)\.js`\)")
LATE = {
    "index": 1,  # what a handler asks it for
    "routes": 1,  # in a layer of its own
}
"""Rooms that require while a request is answered, and how often they say so."""


def test_there_are_hooks_to_look_at() -> None:
    assert len(ROOMS) > 15
    assert len(FILES) > 10


def test_rooms_depend_on_each_other_one_way() -> None:
    order = TopologicalSorter({room.stem: REQUIRE.findall(room.read_text()) for room in ROOMS})
    order.prepare()  # raises where they go round in a circle


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.stem)
def test_a_room_requires_what_it_needs_when_it_is_loaded(room: Path) -> None:
    late = [
        line for line in room.read_text().splitlines() if REQUIRE.search(line) and line[0] == " "
    ]
    assert len(late) == LATE.get(room.stem, 0), late


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_route_takes_all_it_needs_at_once(file: Path) -> None:
    """Its handler; what stands behind it is required while the file is loaded."""
    for route in re.findall(r"routerAdd\((.*?)\n\)", file.read_text(), re.DOTALL):
        handler = route.split("\n  },")[0]
        assert REQUIRE.findall(handler) in (["index"], []), handler


def test_the_index_knows_every_room_that_is_asked_for() -> None:
    rooms = set(re.findall(r'"(\w+)"', (HOOKS / "lib" / "index.js").read_text()))
    asked = {
        name
        for file in FILES
        for names in re.findall(r"const \{ ([\w, ]+) \} = require\(\S+index", file.read_text())
        for name in names.split(", ")
    }
    assert asked
    assert asked <= rooms <= {room.stem for room in ROOMS}
