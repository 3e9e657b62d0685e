"""How long handing a recording to a remote recogniser may take: the pipeline's lease covers it."""

from __future__ import annotations

from typing import Final

TURN: Final = 20.0
"""Seconds of work on one recording after which others have their turn."""
TURN_PAUSE: Final = 0.5
"""Seconds that a recording then stands back."""
LONGEST_PIECE: Final = 7200.0
"""Seconds of audio in one call, at the most."""
_SLOW: Final = 0.5
"""Seconds of audio that the slowest server admitted recognises in a second."""
_PREPARED: Final = 10.0
"""Seconds of audio that are decoded, searched for speech or encoded in a second, at the least."""

PASSES: Final = 3
"""Over a recording in one turn, at the most: looking for voices, and encoding either channel."""


def piece_limit(seconds: float) -> float:
    """Seconds that a server may take over a piece of so many."""
    return 120 + seconds / _SLOW


def prepare_limit(duration: float) -> float:
    """Seconds that one pass over a recording may take here."""
    return 300 + duration / _PREPARED


def submit_limit(duration: float) -> float:
    """Seconds that one turn with a recording may take, apart from fetching it."""
    return PASSES * prepare_limit(duration) + TURN + piece_limit(min(duration, LONGEST_PIECE))
