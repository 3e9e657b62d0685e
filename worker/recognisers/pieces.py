"""The normalised recording as remote recognisers take it: cut, or smaller. For the sandbox.

They know no channels, so of two each is sent as a sound of its own, and silent where its own voice
is not: what leaks into it from the other one would be written down twice.
"""

from __future__ import annotations

import threading
from bisect import bisect
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import av
import numpy as np
from av.audio.stream import AudioStream

from worker.engine import RATE, audio, channels, cut
from worker.engine.audio import Samples
from worker.engine.scratch import second
from worker.errors import UnreadableMedia
from worker.media import sandbox
from worker.recognisers.limits import prepare_limit

T = TypeVar("T")

GAP: Final = 60.0
"""Seconds of silence that are not worth sending: longer ones stay out of every piece."""
PAD: Final = 0.5
"""Seconds kept around speech."""
WHOLE: Final = 3600.0
"""Seconds of a piece where nothing is to be cut."""
LEAST_ROOM: Final = 2**30
"""Bytes of memory for the voice detection, apart from the samples, which are mapped."""

Span = tuple[float, float]
"""Start and end in seconds."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the recording that is sent."""

    start: float
    """Seconds, like all that follows."""
    end: float
    heard: float
    """How much of it is a voice."""
    channel: int | None = None
    """None: the only one."""
    own: tuple[Span, ...] = ()
    """Where the channel's own voice is."""

    @classmethod
    def of(cls, row: Sequence[Any]) -> Piece:
        """The piece that `row` was made of, lists for tuples."""
        start, end, heard, *rest = row
        channel, own = rest or (None, ())
        return cls(start, end, heard, channel, tuple((first, last) for first, last in own))

    @property
    def row(self) -> list[Any]:
        """The piece as it is stored among the operation's units."""
        row: list[Any] = [self.start, self.end, self.heard]
        return row if self.channel is None else [*row, self.channel, [list(s) for s in self.own]]


def sandboxed(
    function: Callable[..., T],
    *args: object,
    duration: float,
    stop: threading.Event,
    memory: int = sandbox.MEMORY,
) -> T:
    """As `sandbox.run`, within the time of one pass over a recording of `duration` seconds."""
    return sandbox.run(function, *args, timeout=prepare_limit(duration), stop=stop, memory=memory)


def memory(duration: float) -> int:
    """Bytes of address space that `plan` needs for so many seconds, of two channels."""
    return LEAST_ROOM + int(2 * 2 * RATE * duration * 1.1)


def plan(source: Path, longest: float) -> list[Piece]:
    """Where speech is, in pieces of at most `longest` seconds, cut at pauses. None: no speech."""
    decoded = source.with_suffix(".pcm")
    try:
        for _ in audio.decode(source, decoded):
            pass
        sound = audio.channels(decoded)
        rules = replace(cut.RULES, longest=longest, gap=min(GAP, longest), pad=PAD)
        return sorted(
            (
                piece
                for channel, heard in _ended(channels.listen(sound))
                for piece in _pieces(heard, len(sound[0]), rules, *channel)
            ),
            key=lambda piece: (piece.start, piece.channel or 0),
        )
    finally:
        decoded.unlink(missing_ok=True)
        second(decoded).unlink(missing_ok=True)


def voices(source: Path) -> list[tuple[int, tuple[Span, ...]]] | None:
    """The channels that somebody is heard in, with where; None where there are not two."""
    with av.open(str(source)) as recording:
        if recording.streams.audio[0].channels != 2:
            return None
    own: dict[int, list[Span]] = {}
    for piece in plan(source, WHOLE):
        if piece.channel is not None:
            own.setdefault(piece.channel, []).extend(piece.own)
    return [(channel, tuple(own[channel])) for channel in sorted(own)]


def _ended(work: Generator[None, None, T]) -> T:
    while True:
        try:
            next(work)
        except StopIteration as end:
            value: T = end.value
            return value


def _pieces(
    heard: cut.Probabilities, length: int, rules: cut.Rules, channel: int | None = None
) -> Iterator[Piece]:
    spoken = [
        (first * cut.FRAME / RATE, last * cut.FRAME / RATE)
        for first, last in cut.stretches(heard, rules)
    ]
    for first, last in cut.units(heard, length, rules):
        start, end = first / RATE, last / RATE
        inside = [(s, e) for s, e in spoken if s < end and e > start]
        yield Piece(
            start,
            end,
            round(sum(min(end, e) - max(start, s) for s, e in inside), 3),
            channel,
            ()
            if channel is None
            else tuple((round(s - PAD, 3), round(e + PAD, 3)) for s, e in inside),
        )


def flac(source: Path, target: Path, piece: Piece) -> None:
    """Write a piece as FLAC of its own."""
    first, last = round(piece.start * RATE), round(piece.end * RATE)
    written = 0
    with (
        av.open(str(source)) as recording,
        target.open("wb") as file,
        av.open(file, "w", format="flac") as out,
    ):
        stream = out.add_stream("flac", rate=RATE, layout="mono")
        stream.codec_context.format = "s16"
        for at, block in _blocks(recording, first, piece.channel, piece.own):
            part = block[max(0, first - at) : max(0, last - at)]
            if len(part):
                out.mux(stream.encode(_frame(part)))
                written += len(part)
            if at + len(block) >= last:
                break
        out.mux(stream.encode(None))
    if not 0 < last - first <= written + 1:
        raise UnreadableMedia("the normalised audio is shorter than it was")


def _blocks(
    recording: av.container.InputContainer,
    first: int,
    channel: int | None,
    own: Sequence[Span],
) -> Iterator[tuple[int, Samples]]:
    """Decoded samples with the index of the first of them, from at or before `first` on.

    Of a channel's only its `own` are kept, in order of time, and all else is silence.
    """
    track = recording.streams.audio[0]
    if first > RATE:
        recording.seek((first - RATE) * av.time_base // RATE)
    for frame in recording.decode(track):
        if frame.time is None:
            raise UnreadableMedia("the normalised audio has no times")
        at, block = round(frame.time * RATE), _one(frame, channel)
        yield at, block if channel is None else _muted(block, at, own)


def _one(frame: av.AudioFrame, channel: int | None) -> Samples:
    block = frame.to_ndarray()
    count = frame.layout.nb_channels
    if count == 1:
        return block.reshape(-1).astype(np.int16)
    planes = block if frame.format.is_planar else block.reshape(-1, count).T
    one: Samples = (planes.mean(axis=0) if channel is None else planes[channel]).astype(np.int16)
    return one


def _muted(block: Samples, at: int, own: Sequence[Span]) -> Samples:
    kept = np.zeros_like(block)
    for start, end in own[max(0, bisect(own, (at / RATE, 0.0)) - 1) :]:
        first, last = round(start * RATE) - at, round(end * RATE) - at
        if first >= len(block):
            break
        part = slice(max(first, 0), max(last, 0))
        kept[part] = block[part]
    return kept


def _frame(block: Samples) -> av.AudioFrame:
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(block).reshape(1, -1), "s16", "mono")
    frame.sample_rate = RATE
    return frame


def opus(
    source: Path,
    target: Path,
    bit_rate: int,
    channel: int | None = None,
    own: Sequence[Span] = (),
) -> float:
    """Write the recording, or what is its `own` of a channel, as Ogg Opus; its seconds."""
    seconds = 0.0
    fifo = av.AudioFifo()
    with (
        av.open(str(source)) as recording,
        target.open("wb") as file,
        av.open(file, "w", format="ogg") as out,
    ):
        stream = out.add_stream(
            "libopus",
            rate=RATE,
            options={"application": "voip", "compression_level": "5"},
            layout="mono",
        )
        stream.bit_rate = bit_rate
        stream.codec_context.format = "s16"
        for _, block in _blocks(recording, 0, channel, own):
            seconds += len(block) / RATE
            fifo.write(_frame(block))
            _encode(fifo, stream, out, partial=False)
        _encode(fifo, stream, out, partial=True)
        out.mux(stream.encode(None))
    return seconds


def _encode(
    fifo: av.AudioFifo, stream: AudioStream, out: av.container.OutputContainer, *, partial: bool
) -> None:
    size = stream.codec_context.frame_size or 320
    while (frame := fifo.read(size, partial)) is not None:
        frame.pts = None
        out.mux(stream.encode(frame))
        if partial and not fifo.samples:
            return
