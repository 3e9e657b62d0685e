"""Run the benchmarks named on the command line, or all, and print their table."""

from __future__ import annotations

import importlib
import os
import platform
import sys

from benchmarks.table import Row, markdown

ALL = ("queue", "message", "talk", "memory")


def main(names: list[str]) -> None:
    """Print the table of the benchmarks named."""
    rows: list[Row] = []
    for name in names or ALL:
        print(f"running {name} ...", file=sys.stderr)
        rows += importlib.import_module(f"benchmarks.{name}").rows()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print(markdown(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
