"""What `chaos.worker` changes in a process does reach the code that it is meant for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def told_by(code: str) -> Any:
    """What a fresh process prints: these changes last as long as it does."""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(ran.stdout)


def test_leases_are_short_wherever_they_are_used():
    assert told_by("""
import json
from chaos.worker import shorten_leases
shorten_leases(6.0)
from worker.engine import lease, operations
from worker.jobs import Step
from worker.pipeline import runner
from worker.telegram import store

class Client:
    def request(self, method, path, json=None, timeout=None):
        asked.append(json["lease_seconds"])
        return {"operations": []}

asked = []
operations.HttpOperations(Client(), "engine").claim()
print(json.dumps([runner.lease_seconds(Step.CHECK, 3600.0, 0.0),
                  runner.lease_seconds(Step.NORMALISE, 3600.0, 0.0),
                  asked, lease.EVERY, store.LEASE]))
""") == [6.0, 15.0, [6.0], 1.0, 6.0]


def test_a_shifted_clock_is_wrong_for_everybody_in_the_process():
    assert told_by("""
import json, time
from datetime import UTC, datetime
before, steady = time.time(), time.monotonic()
from chaos.worker import shift_clock
shift_clock(7200.0)
from worker.recognisers import remote
from worker.telegram import pulse
times = [time.time(), time.time_ns() / 1e9, pulse.time.time(), time.mktime(time.localtime()),
         remote.datetime.now(UTC).timestamp()]
print(json.dumps([all(7190 < each - before < 7300 for each in times),
                  time.monotonic() - steady < 60]))
""") == [True, True]
