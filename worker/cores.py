"""How many processors this process may keep busy."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Final

GROUPS: Final = Path("/sys/fs/cgroup")
OWN: Final = Path("/proc/self/cgroup")
PLENTY: Final = 1 << 16


def cores() -> int:
    """Those it may run on, and no more than its control group gives time for (a container's
    `--cpus`, a unit's `CPUQuota`): threads beyond that only wait for each other."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(own or 1, quota()))


def quota() -> int:
    """Processors by the control group (version 2, `cpu.max`) and those above it, rounded up; plenty
    without one."""
    try:
        [own] = [line[3:] for line in OWN.read_text().splitlines() if line.startswith("0::")]
    except (OSError, ValueError):
        return PLENTY
    group = GROUPS / own.lstrip("/")
    return min(map(_quota, [group, *group.parents]))


def _quota(group: Path) -> int:
    try:
        most, period = (group / "cpu.max").read_text().split()
        return math.ceil(int(most) / int(period))
    except (OSError, ValueError, ZeroDivisionError):  # there is none, or "max"
        return PLENTY
