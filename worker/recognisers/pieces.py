"""The normalised recording as remote recognisers take it: cut, or smaller. For the sandbox.

Of two channels they are sent the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import av
import numpy as np
from av.audio.stream import AudioStream

from worker.engine import RATE, cut
from worker.engine.audio import Samples, samples
from worker.errors import UnreadableMedia

GAP: Final = 60.0
"""Seconds of silence that are not worth sending: longer ones stay out of every piece."""
PAD: Final = 0.5
"""Seconds kept around speech."""
LEAST_ROOM: Final = 2**30
"""Bytes of memory for the voice detection, apart from the samples, which are mapped."""

Piece = tuple[float, float, float]
"""Start and end in seconds, and the seconds in between in which a voice was heard."""


def memory(duration: float) -> int:
    """Bytes of address space that `plan` needs for so many seconds."""
    return LEAST_ROOM + int(2 * RATE * duration * 1.1)


def plan(source: Path, longest: float) -> list[Piece]:
    """Where speech is, in pieces of at most `longest` seconds, cut at pauses. None: no speech."""
    decoded = source.with_suffix(".pcm")
    try:
        with av.open(str(source)) as recording, decoded.open("wb") as out:
            for _, block in _blocks(recording, 0):
                out.write(block.tobytes())
        audio = samples(decoded)
        voice = cut.Silero()
        heard = np.concatenate([np.zeros(0, dtype=np.float32), *cut.listen(audio, voice)])
        rules = replace(cut.RULES, longest=longest, gap=min(GAP, longest), pad=PAD)
        spoken = [
            (start * cut.FRAME / RATE, end * cut.FRAME / RATE)
            for start, end in cut.stretches(heard, rules)
        ]
        return [
            (start / RATE, end / RATE, _overlap(start / RATE, end / RATE, spoken))
            for start, end in cut.units(heard, len(audio), rules)
        ]
    finally:
        decoded.unlink(missing_ok=True)


def _overlap(start: float, end: float, spoken: list[tuple[float, float]]) -> float:
    return round(sum(max(0.0, min(end, last) - max(start, first)) for first, last in spoken), 3)


def flac(source: Path, target: Path, start: float, end: float) -> None:
    """Write the samples from `start` to `end` (seconds) as FLAC of its own."""
    first, last = round(start * RATE), round(end * RATE)
    written = 0
    with (
        av.open(str(source)) as recording,
        target.open("wb") as file,
        av.open(file, "w", format="flac") as out,
    ):
        stream = out.add_stream("flac", rate=RATE, layout="mono")
        stream.codec_context.format = "s16"
        for at, block in _blocks(recording, first):
            part = block[max(0, first - at) : max(0, last - at)]
            if len(part):
                out.mux(stream.encode(_frame(part)))
                written += len(part)
            if at + len(block) >= last:
                break
        out.mux(stream.encode(None))
    if not 0 < last - first <= written + 1:
        raise UnreadableMedia("the normalised audio is shorter than it was")


def _blocks(recording: av.container.InputContainer, first: int) -> Iterator[tuple[int, Samples]]:
    """Decoded samples with the index of the first of them, from at or before `first` on."""
    track = recording.streams.audio[0]
    if first > RATE:
        recording.seek((first - RATE) * av.time_base // RATE)
    for frame in recording.decode(track):
        if frame.time is None:
            raise UnreadableMedia("the normalised audio has no times")
        yield round(frame.time * RATE), _mono(frame)


def _mono(frame: av.AudioFrame) -> Samples:
    block = frame.to_ndarray()
    channels = frame.layout.nb_channels
    if channels == 1:
        return block.reshape(-1).astype(np.int16)
    planes = block if frame.format.is_planar else block.reshape(-1, channels).T
    mean: Samples = planes.mean(axis=0).astype(np.int16)
    return mean


def _frame(block: Samples) -> av.AudioFrame:
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(block).reshape(1, -1), "s16", "mono")
    frame.sample_rate = RATE
    return frame


def opus(source: Path, target: Path, bit_rate: int) -> float:
    """Write the recording as Ogg Opus; its length in seconds."""
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
        for _, block in _blocks(recording, 0):
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
