"""`transcriber up` itself, with the Procfile that `CHAOS_PROCFILE` names in the place of ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from worker import cli
from worker.cli import up

if __name__ == "__main__":
    up.PROCFILE = Path(os.environ["CHAOS_PROCFILE"])
    sys.exit(cli.main(["up"]))
