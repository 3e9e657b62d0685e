"""How long each step may hold a job: at least as long as it can take on the longest recording.

The one place for these numbers. They are generous, since a crash does not cost them: a process
that starts again gives back at once what its predecessor held.
"""

from __future__ import annotations

from worker.jobs import Step
from worker.recognisers.limits import submit_limit

_SHORT = 300.0
"""Seconds: some requests to services that each answer, or do not, within their own limit."""
_TRANSFER_RATE = 5.0
"""Seconds of audio moved per second of transfer, at the slowest line admitted."""
_DECODE_RATE = 10.0
"""Seconds of audio decoded per second on the slowest machine admitted."""

_PROOFREAD_RATE = 4.0
"""Seconds of speech whose text is proofread in a second by the slowest model worth waiting for."""


def decode_limit(max_duration: float) -> float:
    """Seconds that decoding the longest recording may take."""
    return _SHORT + max_duration / _DECODE_RATE


def proofread_limit(duration: float, timeout: float) -> float:
    """Seconds that proofreading the text of `duration` seconds may take in all.

    `timeout`: what one piece of a text may take.
    """
    return timeout + duration / _PROOFREAD_RATE


def lease_seconds(step: Step, max_duration: float, proofread_timeout: float = 0.0) -> float:
    """The step's lease in seconds, for recordings of up to `max_duration` seconds.

    `proofread_timeout`: what one piece of a text may take to proofread; 0: none is.
    """
    if step is Step.NORMALISE:  # download, decode, upload
        return _SHORT + 2 * max_duration / _TRANSFER_RATE + decode_limit(max_duration)
    if step is Step.SUBMIT:  # fetched, and sent whole to a remote recogniser
        return _SHORT + 2 * max_duration / _TRANSFER_RATE + submit_limit(max_duration)
    if step is Step.FINISH and proofread_timeout:
        return _SHORT + proofread_limit(max_duration, proofread_timeout)
    return _SHORT


def give_up_after(duration: float) -> float:
    """Seconds of silence after which an operation on `duration` seconds of audio has no end."""
    return 24 * 3600.0 + 10.0 * duration
