"""The second look: speech that the model passed over is read again, alone.

That is what no line covers, and what a line covers that has too few words for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from worker.engine import RATE, cut
from worker.engine.audio import Samples
from worker.engine.line import Line

TOGETHER: Final = 4
"""Clips of the second look that share a batch."""
MISSED: Final = 0.7
"""Seconds of speech without text that are worth a second look."""
REST: Final = 2.0
"""The same, where a line covers the other part of a stretch."""
THIN: Final = 6.0
"""Letters for each second of heard speech below which a line says less than was said (measured: 9
and more, what passed a whole sentence over 2 to 4); a digit counts as a word of four letters."""
THIN_SPEECH: Final = 4.0
"""Seconds of heard speech from which on that can be told."""
PIECE: Final = 1.5
"""The shortest piece of a thin line that is read alone; a shorter one stays with the next."""
FINE: Final = replace(cut.RULES, pause=0.25)
"""Rules by which speech inside a unit is compared with the text."""

Piece = tuple[int, int]
"""Start and end of a part of a unit."""


def completed(
    clips: Sequence[Samples],
    first: Sequence[Sequence[Line]],
    read: Callable[[list[Samples]], list[list[Line]]],
) -> list[list[Line]]:
    """What was found in each clip at the first look and at the second, in order.

    Args:
        clips: the samples of each unit.
        first: the lines that the first look found in each.
        read: the model, for pieces of them.
    """
    found = [list(lines) for lines in first]
    looks: list[tuple[int, Line | None, Piece]] = []
    for unit, clip in enumerate(clips):
        spoken = [line for line in found[unit] if line.text]
        heard = cut.stretches(cut.hear(clip), FINE)
        looks += [(unit, None, span) for span in missed(clip, spoken, heard)]
        looks += [(unit, line, span) for line, span in thin(clip, spoken, heard)]
    more: defaultdict[tuple[int, Line | None], list[Line]] = defaultdict(list)
    for at in range(0, len(looks), TOGETHER):
        some = looks[at : at + TOGETHER]
        again = read([clips[unit][start:end] for unit, _, (start, end) in some])
        for (unit, instead, (start, _)), lines in zip(some, again, strict=True):
            more[unit, instead] += [line.later(start / RATE) for line in lines]
    for (unit, instead), lines in more.items():
        if instead is None:
            found[unit] += lines
        elif _letters(" ".join(line.text for line in lines)) > _letters(instead.text):
            found[unit] = [line for line in found[unit] if line is not instead] + lines
    return [settled(lines) for lines in found]


def settled(lines: Sequence[Line]) -> list[Line]:
    """In order, and nothing left out where the second look found words; one note for a stretch."""
    kept: list[Line] = []
    spoken = [line for line in lines if line.text]
    for line in sorted(lines, key=lambda line: line.start):
        if line.left_out and any(a.start < line.end and line.start < a.end for a in spoken):
            continue
        if line.left_out and kept and kept[-1].left_out == line.left_out:
            kept[-1] = replace(kept[-1], end=max(kept[-1].end, line.end))
            continue
        kept.append(line)
    return kept


def missed(clip: Samples, found: Sequence[Line], heard: Sequence[Piece]) -> list[Piece]:
    """Stretches of speech, in samples of the clip, that no line covers; neighbours as one.

    Where a line covers part of a stretch, only the rest is missed, and only when it is long: the
    model's times are rough.

    Args:
        clip: the samples.
        found: the lines with text.
        heard: stretches of speech, in frames.
    """
    gaps: list[tuple[float, float]] = []
    for first, last in heard:
        start, end = first * cut.FRAME / RATE, last * cut.FRAME / RATE
        for left, right in _without(start, end, found):
            if right - left < min(REST, (end - start) / 2):
                continue
            if gaps and not any(gaps[-1][1] < (a.start + a.end) / 2 < left for a in found):
                gaps[-1] = (gaps[-1][0], right)
            else:
                gaps.append((left, right))
    length = len(clip) / RATE
    return [
        (
            int(RATE * max([0.0, left - FINE.pad, *(a.end for a in found if a.end <= left)])),
            int(
                RATE
                * min([length, right + FINE.pad, *(a.start for a in found if a.start >= right)])
            ),
        )
        for left, right in gaps
        if right - left >= MISSED
    ]


def thin(
    clip: Samples, found: Sequence[Line], heard: Sequence[Piece]
) -> Iterator[tuple[Line, Piece]]:
    """Lines with too few words for the speech they cover, each with its pieces, in samples.

    Where the language changes after a short pause, the model may stretch a line of the one over
    all that was said in the other. For the arguments see `missed`.
    """
    pad = int(FINE.pad * RATE)
    for line in found:
        inside = [
            (start, end)
            for first, last in heard
            if (start := max(first * cut.FRAME, int(line.start * RATE)))
            < (end := min(last * cut.FRAME, int(line.end * RATE)))
        ]
        speech = sum(end - start for start, end in inside) / RATE
        if speech < THIN_SPEECH or _letters(line.text) >= THIN * speech:
            continue
        pieces: list[Piece] = []
        for start, end in inside:
            if pieces and pieces[-1][1] - pieces[-1][0] < PIECE * RATE:
                pieces[-1] = (pieces[-1][0], end)
            else:
                pieces.append((start, end))
        for start, end in pieces:
            yield line, (max(0, start - pad), min(len(clip), end + pad))


def _letters(text: str) -> int:
    """Letters, as if everything were spelt out: digits, and scripts with a sign for a syllable."""
    return sum(4 if sign.isdigit() else 3 if sign >= "\u2e80" else sign.isalpha() for sign in text)


def _without(start: float, end: float, found: Sequence[Line]) -> Iterator[tuple[float, float]]:
    """The parts of a stretch that no line covers."""
    for line in sorted(found, key=lambda line: line.start):
        if line.start >= end:
            break
        if line.start > start:
            yield start, line.start
        start = max(start, line.end)
    if start < end:
        yield start, end
