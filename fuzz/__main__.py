"""`python -m fuzz [TARGET ...] [--seed N] [--cases M | --seconds S | --case K]`."""

from __future__ import annotations

import argparse
import importlib
import logging
import secrets
import signal
import sys
import tempfile
from pathlib import Path

from fuzz.run import Run

ALL = ("settings", "answers", "media", "telegram", "routes")


def main(arguments: list[str]) -> int:
    """Fuzz the targets named, or all. The exit code is 1 when anything was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(ALL)}")
    parser.add_argument("--seed", type=int, help="the same seed makes the same cases")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--cases", type=int, help="how many, of each target")
    length.add_argument("--seconds", type=float, help="for how long, each target")
    length.add_argument("--case", type=int, help="this one alone")
    given = parser.parse_args(arguments)
    if unknown := set(given.targets) - set(ALL):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    seconds = given.seconds
    if seconds is None and given.cases is None and given.case is None:
        seconds = 60.0
    # Told to stop, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    logging.getLogger("dotenv").setLevel(logging.ERROR)  # the settings name these lines themselves
    findings = 0
    for target in given.targets or ALL:
        with tempfile.TemporaryDirectory(prefix=f"fuzz-{target}-") as folder:
            run = Run(target, seed, Path(folder), given.cases, seconds, given.case)
            importlib.import_module(f"fuzz.{target}").fuzz(run)
        print(run.report(), flush=True)
        findings += len(run.findings)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
