"""Who spoke when: from the voices of a recording's segments to labels, "1", "2", ...

The same segments always give the same labels, however often the recognition was broken off.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from worker.engine.voices import KEY, unpack

BLOCK: Final = 500
"""Groups that are compared at once, each with each: a long recording is grouped by stretches
first, and then the groups of all stretches. Memory and time stay bounded."""
CROWD: Final = 50
"""Speakers of one stretch, at most."""

Sums = npt.NDArray[np.float64]


def labelled(segments: Sequence[dict[str, Any]], most: int, alike: float) -> list[dict[str, Any]]:
    """The segments without voices, and with a `speaker` in each that has a text.

    Numbers go by first appearance. Channels that were recognised apart share no speaker. A segment
    too short to tell has the speaker of the nearest one. Where no voice was looked for, nothing is
    added.

    Args:
        segments: in their order.
        most: speakers, at most; of each channel where there are two.
        alike: mean cosine of two groups from which on they are one speaker.
    """
    bare = [{k: v for k, v in each.items() if k != KEY} for each in segments]
    spoken = [n for n, each in enumerate(segments) if each["text"]]
    if not any(KEY in segments[n] for n in spoken):
        return bare
    voices = _voices(segments, spoken)
    numbers: dict[tuple[int, int], int] = {}
    who: dict[int, tuple[int, int]] = {}
    for channel in sorted({segments[n].get("channel", 0) for n in spoken}):
        own = [n for n in spoken if segments[n].get("channel", 0) == channel]
        told = [n for n in own if n in voices]
        groups = grouped(
            np.array([voices[n] for n in told]), [_seconds(segments[n]) for n in told], most, alike
        )
        of = {told[n]: number for number, group in enumerate(groups) for n in group}
        for n in own:
            at = bisect_left(told, n)
            beside = told[at : at + 1] if n in of else told[max(0, at - 1) : at + 1]
            near = min(beside, key=lambda m: _apart(segments[m], segments[n]), default=n)
            who[n] = (channel, of.get(near, 0))
    for n in spoken:
        bare[n]["speaker"] = str(numbers.setdefault(who[n], len(numbers) + 1))
    return bare


def _voices(segments: Sequence[dict[str, Any]], spoken: Sequence[int]) -> dict[int, Sums]:
    """The vectors by segment, of the model that most of them are of: others compare with none."""
    packed = {n: unpack(segments[n][KEY]) for n in spoken if segments[n].get(KEY)}
    models = Counter(model for model, _ in packed.values())
    main = models.most_common(1)[0][0] if models else ""
    return {n: vector.astype(np.float64) for n, (model, vector) in packed.items() if model == main}


def _seconds(segment: dict[str, Any]) -> float:
    return max(float(segment["end"] - segment["start"]), 0.1)


def _apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Seconds between two segments."""
    return max(0.0, float(other["start"] - one["end"]), float(one["start"] - other["end"]))


def grouped(
    vectors: Sums, seconds: Sequence[float], most: int, alike: float
) -> list[tuple[int, ...]]:
    """Which vectors are of one speaker: average linkage by cosine, weighed by seconds of speech.

    Args:
        vectors: of length 1, shape (n, dimensions).
        seconds: how much each weighs.
        most: groups, at most.
        alike: mean cosine from which on two groups are one.
    """
    if not len(vectors):
        return []
    groups: list[tuple[int, ...]] = [(n,) for n in range(len(vectors))]
    weights = np.asarray(seconds, dtype=np.float64)
    sums = vectors * weights[:, None]
    while len(groups) > BLOCK:
        next_groups: list[tuple[int, ...]] = []
        next_sums, next_weights = [], []
        for at in range(0, len(groups), BLOCK):
            block = slice(at, at + BLOCK)
            merged = _merged(sums[block], weights[block], max(most, CROWD), alike)
            for members in merged:
                here = [at + n for n in members]
                next_groups.append(tuple(sorted(n for m in here for n in groups[m])))
                next_sums.append(sums[here].sum(axis=0))
                next_weights.append(weights[here].sum())
        groups, sums, weights = next_groups, np.array(next_sums), np.array(next_weights)
    merged = _merged(sums, weights, most, alike)
    return sorted(tuple(sorted(n for m in members for n in groups[m])) for members in merged)


def _merged(sums: Sums, weights: Sums, most: int, alike: float) -> list[list[int]]:
    """Merge the two most alike while they are alike enough, then the smallest into its nearest
    while there are too many."""
    members: dict[int, list[int]] = {n: [n] for n in range(len(sums))}
    gone = np.zeros(len(sums), dtype=bool)
    sums, weights = sums.copy(), weights.copy()
    likeness = (sums @ sums.T) / np.outer(weights, weights)
    np.fill_diagonal(likeness, -np.inf)
    while len(members) > 1:
        one, other = divmod(int(np.argmax(likeness)), len(sums))
        if likeness[one, other] < alike:
            if len(members) <= most:
                break
            one = min(members, key=lambda n: (weights[n], n))
            other = int(np.argmax(likeness[one]))
        one, other = min(one, other), max(one, other)
        members[one] += members.pop(other)
        sums[one] += sums[other]
        weights[one] += weights[other]
        row = (sums @ sums[one]) / (weights * weights[one])
        gone[other] = True
        likeness[other, :] = likeness[:, other] = -np.inf
        row[gone] = row[one] = -np.inf
        likeness[one, :] = likeness[:, one] = row
    return list(members.values())
