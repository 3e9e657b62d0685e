"""Judges a run from its folder alone: `python -m chaos.checker FOLDER [--figures] [--most N]`.

With `--story RECORDING` it judges nothing, and tells of that one.

Exit code 0: every invariant held, and each that should have had cases had some. 1: something did
not. 2: the folder is not one of a finished run. `docs/reliability.md` has the invariants; each
module of `chaos/check` begins with the promises that it holds the service to, and where they are
made.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from chaos.check import answers, edits, files, intake, metrics, outcomes, privacy, queue, texts
from chaos.check.figures import HEADER, figures
from chaos.check.journal import Unusable
from chaos.check.ledger import Ledger
from chaos.check.run import Run
from chaos.check.story import story

FAMILIES = (outcomes, texts, answers, edits, files, metrics, privacy, queue, intake)


def judge(folder: Path) -> tuple[Run, Ledger]:
    """Look at everything.

    Raises:
        Unusable: there is nothing to look at.
    """
    run = Run(folder)
    ledger = Ledger(given=run.given)
    for family in FAMILIES:
        family.check(run, ledger)
    return run, ledger


def main(arguments: list[str] | None = None) -> int:
    """Judge, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m chaos.checker", description="Judge a run.")
    parser.add_argument("folder", type=Path, nargs="+", help="what `python -m chaos` left")
    parser.add_argument("--figures", action="store_true", help="only the table for the docs")
    parser.add_argument("--most", type=int, default=5, help="violations shown of each clause")
    parser.add_argument("--story", metavar="RECORDING", help="only what was seen of this one")
    options = parser.parse_args(arguments)
    rows, violations = [], 0
    for folder in options.folder:
        try:
            if options.story:
                told = story(Run(folder), options.story)
                print(told or f"nothing in {folder} names {options.story}")
                continue
            run, ledger = judge(folder)
        except Unusable as error:
            print(f"{error}", file=sys.stderr)
            return 2
        rows.append(figures(run, ledger))
        violations += ledger.violations
        if not options.figures:
            print(f"{folder}\n\n{ledger.table(options.most)}\n")
    if options.story:
        return 0
    if options.figures:
        print("\n".join([*HEADER, *rows]))
    else:
        print(f"{violations} violations" if violations else "nothing found")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
