"""What the command line of the benchmarks says."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

PARTS = ("queue", "intake", "idle", "archive", "message", "talk", "office", "growth", "memory")
"""What is run where none is named, each a module of this package."""
LONG = ("lecture",)
"""What is run by name alone."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to measure; each part takes of it what it needs."""

    names: tuple[str, ...] = ()
    speech: Path | None = None
    """A folder with recordings and their texts; None: the repo's two samples."""
    rounds: int | None = None
    """None: as many as the part thinks right."""
    peers: Path | None = None
    """A virtual environment with the peers that the package registry has."""
    servers: tuple[tuple[str, str], ...] = ()
    """Name and address of servers that run already (see `benchmarks.servers`)."""
    model: str = "base"
    threads: int = 2


def add(parser: argparse.ArgumentParser) -> None:
    """The options that several programs here share."""
    parser.add_argument("--peers", type=Path, metavar="VENV", help="made there if need be")
    parser.add_argument(
        "--server", action="append", default=[], metavar="NAME=URL", help="one that runs already"
    )
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--model", default="base")
    parser.add_argument("--threads", type=int, default=2)


def parse(arguments: list[str]) -> Options:
    """The command line of `python -m benchmarks`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    known = (*PARTS, *LONG)
    parser.add_argument("names", nargs="*", metavar="PART", help=f"of {', '.join(known)}")
    parser.add_argument("--speech", type=Path, metavar="FOLDER", help="NAME.wav and NAME.txt")
    add(parser)
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if name not in known]:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(known)}")
    return Options(
        names=tuple(given.names),
        speech=given.speech,
        rounds=given.rounds,
        peers=given.peers,
        servers=servers(given.server),
        model=given.model,
        threads=given.threads,
    )


def servers(given: list[str]) -> tuple[tuple[str, str], ...]:
    """Each NAME=URL apart."""
    pairs = [each.partition("=") for each in given]
    if bad := [name for name, _, url in pairs if not url.startswith("http")]:
        raise SystemExit(f"--server wants NAME=URL: {', '.join(bad)}")
    return tuple((name, url) for name, _, url in pairs)


def given() -> Options:
    """This program's command line."""
    return parse(sys.argv[1:])
