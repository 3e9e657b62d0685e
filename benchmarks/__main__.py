"""Run the benchmarks named on the command line, or all, and print their table.

    python -m benchmarks [PART ...] [--speech FOLDER] [--peers VENV] [--server NAME=URL]
        [--rounds N]

`--speech` names a folder of recordings beside their texts, as for `benchmarks.recognition`; else
the repo's two samples are all that is said. `--peers` adds whisper-ctranslate2, installed into that
virtual environment, where Procrastinate is kept, too, which `queue` and `idle` are held against
wherever there is a PostgreSQL; `--server` a server that runs already (see `benchmarks.servers`).
`lecture` is not run unless it is named.
"""

from __future__ import annotations

import importlib
import os
import platform
import signal
import sys

from benchmarks import options
from benchmarks.table import Row, markdown


def main(names: tuple[str, ...]) -> None:
    """Print the table of the benchmarks named."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a service that was begun is ended
    rows: list[Row] = []
    for name in names or options.PARTS:
        print(f"running {name} ...", file=sys.stderr)
        rows += importlib.import_module(f"benchmarks.{name}").rows()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print(markdown(rows))


if __name__ == "__main__":
    main(options.given().names)
