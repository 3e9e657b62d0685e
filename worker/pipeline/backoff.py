"""How long a failed job rests before the next attempt. Pure functions."""

from __future__ import annotations

import random

JITTER = 0.1
"""The pause is stretched by up to this share, so that jobs that failed together part."""


def backoff(attempts: int, base: float, ceiling: float) -> float:
    """Seconds to rest after the `attempts`-th failure in a row: doubling up to the ceiling."""
    exponent = min(max(attempts, 1) - 1, 64)
    return float(min(base * 2.0**exponent, ceiling))


def with_jitter(seconds: float, draw: float | None = None) -> float:
    """The pause with its jitter, added after the cap so that even capped pauses part.

    `draw` is uniform in [0, 1); None: drawn here.
    """
    share = random.random() if draw is None else draw  # noqa: S311 - no secret hangs on it
    return seconds * (1.0 + JITTER * share)
