"""Any audio or video becomes 16 kHz FLAC, in a stream, in constant memory.

Mono, or both channels of a recording that has two, where a speaker is in each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import InputContainer

from worker.errors import NoAudioTrack, TooLong, UnreadableMedia
from worker.media.container import audio_track, declared_seconds, open_media, packets
from worker.media.mix import Mono, Pair

RATE = 16_000
"""Hz, of everything behind this step."""
GROUP = 65_536
"""Samples handed to the resampler at once: frame by frame it costs three times the time."""
TOLERANCE = 0.1
"""Seconds by which timestamps may disagree with the samples before the timeline is mended."""
LONGEST_GAP = 600.0
"""Seconds. A longer jump of the timestamps is their fault, not missing sound."""
MAX_READ_ERRORS = 50
"""Failed reads in a row, after which the rest of the file is given up."""
FLAC = {"compression_level": "5", "frame_size": "4096"}
"""Measured on speech: 0.65 s per hour, 55 % of PCM; level 8 takes twice as long for 55.2 %."""


@dataclass(frozen=True, slots=True)
class Normalised:
    """What came out."""

    duration: float
    """Seconds decoded, silence for missing stretches included. This is what counts."""
    declared: float
    """Seconds that the container states, 0 where it states none."""
    damaged: int
    """Packets and reads that failed and were passed over."""
    format: str
    """FFmpeg's name of the container."""


def normalise(
    source: Path, destination: Path, max_seconds: float, apart: bool = False
) -> Normalised:
    """Write the first audio track of `source` to `destination` (FLAC, 16 kHz, mono, 16 bit).

    `destination` appears complete or not at all. `apart`: two channels stay two.

    Raises:
        UnreadableMedia: it is no media, or nothing in it can be decoded.
        NoAudioTrack: it is media without any sound in it.
        TooLong: it goes on after `max_seconds`; found as soon as that much is decoded.
        OSError: reading the source or writing the destination failed.
    """
    if source.stat().st_size == 0:
        raise NoAudioTrack("no audio, the file is empty")
    scratch = destination.with_name(destination.name + ".part")
    try:
        with open_media(source) as container:
            decoder = _Decoder(container)
            with _Flac(scratch, max_seconds, pair=apart and decoder.channels == 2) as flac:
                _copy(decoder, flac)
        if not decoder.samples:
            if decoder.damaged:
                raise UnreadableMedia("nothing in it can be decoded")
            raise NoAudioTrack("no audio samples")
        if not flac.seconds:  # shorter than the resampler's filter, of which nothing comes out
            raise NoAudioTrack("too short to hold any sound")
        scratch.replace(destination)
    finally:
        scratch.unlink(missing_ok=True)
    return Normalised(flac.seconds, decoder.declared, decoder.damaged, decoder.format)


def _copy(decoder: _Decoder, flac: _Flac) -> None:
    timeline = _Timeline(decoder.start)
    stretch: _Stretch | None = None
    for frame in decoder:
        gap = timeline.place(frame)
        if stretch is None or gap or not stretch.continues(frame):
            if stretch is not None:
                stretch.finish()
            flac.fill_up_to(timeline.position)
            stretch = _Stretch(frame, flac)
        stretch.add(frame)
        timeline.position += frame.samples / frame.sample_rate
    if stretch is not None:
        stretch.finish()


class _Decoder:
    """The frames of the first audio track. Damage is passed over and counted."""

    def __init__(self, container: InputContainer) -> None:
        self._container = container
        self._track: AudioStream = audio_track(container)
        self.format = container.format.name
        self.declared = declared_seconds(container)
        self.start = None if container.start_time is None else container.start_time / av.time_base
        """Seconds: where the recording's own clock begins."""
        self.channels = self._track.channels
        self.samples = 0
        self.damaged = 0

    def __iter__(self) -> Iterator[av.AudioFrame]:
        errors = 0
        while errors < MAX_READ_ERRORS:
            try:
                for packet in packets(self._container, self._track):
                    errors = 0
                    yield from self._decode(packet)
            except MemoryError:
                raise
            except av.FFmpegError:
                errors += 1
                self.damaged += 1
            else:
                return

    def _decode(self, packet: av.Packet[AudioStream]) -> Iterator[av.AudioFrame]:
        try:
            frames = packet.decode()
        except MemoryError:
            raise
        except av.FFmpegError:
            self.damaged += 1
            return
        for frame in frames:
            if frame.samples and frame.sample_rate:
                self.samples += frame.samples
                yield frame


class _Timeline:
    """Where the next sample belongs, in seconds from the recording's beginning."""

    def __init__(self, start: float | None) -> None:
        self._origin = start
        self.position = 0.0

    def place(self, frame: av.AudioFrame) -> bool:
        """Move `position` over sound that is missing before this frame. True if any is.

        A jump back, or one that cannot be true, moves the clock instead: no sound is dropped for
        a timestamp, and no silence is made up without end.
        """
        if frame.time is None:
            return False
        time = frame.time
        if self._origin is None:
            self._origin = time
        drift = time - self._origin - self.position
        if abs(drift) <= TOLERANCE:
            return False
        if not 0 < drift <= LONGEST_GAP:
            self._origin += drift
            return False
        self.position += drift
        return True


class _Stretch:
    """Frames of one kind without a gap between them, on their way to the output in groups."""

    def __init__(self, first: av.AudioFrame, flac: _Flac) -> None:
        self._kind = _kind(first)
        self._fifo = av.AudioFifo()
        self._converter = (Pair if flac.pair else Mono)(RATE)
        self._flac = flac

    def continues(self, frame: av.AudioFrame) -> bool:
        """Whether this frame is of the same kind: a fifo would not notice another layout."""
        return _kind(frame) == self._kind

    def add(self, frame: av.AudioFrame) -> None:
        frame.pts = None  # a fifo refuses what is not continuous to the tick
        self._fifo.write(frame)
        if self._fifo.samples >= GROUP:
            self._pass_on(self._fifo.read())

    def finish(self) -> None:
        if self._fifo.samples:
            self._pass_on(self._fifo.read())
        self._pass_on(None)

    def _pass_on(self, group: av.AudioFrame | None) -> None:
        for frame in self._converter.convert(group):
            self._flac.write(frame)


def _kind(frame: av.AudioFrame) -> tuple[str, str, int]:
    return frame.format.name, frame.layout.name, frame.sample_rate


class _Flac:
    """The file being written."""

    def __init__(self, path: Path, max_seconds: float, pair: bool) -> None:
        # Through a Python file: a full disk is an OSError at once, and its name stays out of it.
        self._file = path.open("wb")
        self._container = av.open(self._file, mode="w", format="flac")
        self.pair = pair
        self._layout = "stereo" if pair else "mono"
        self._stream = self._container.add_stream(
            "flac", rate=RATE, options=FLAC, layout=self._layout
        )
        self._stream.codec_context.format = "s16"
        self._max_seconds = max_seconds
        self._samples = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None and self._samples:
                self._container.mux(self._stream.encode(None))
                self._container.close()
        finally:
            self._file.close()

    @property
    def seconds(self) -> float:
        return self._samples / RATE

    def write(self, frame: av.AudioFrame) -> None:
        self._samples += frame.samples
        if self.seconds > self._max_seconds:
            raise TooLong(self._max_seconds)
        frame.pts = None
        self._container.mux(self._stream.encode(frame))

    def fill_up_to(self, position: float) -> None:
        """Write silence until the output is `position` seconds long."""
        missing = round(position * RATE) - self._samples
        while missing > 0:
            length = min(missing, GROUP)
            silence = np.zeros((1, length * (1 + self.pair)), np.int16)
            frame = av.AudioFrame.from_ndarray(silence, "s16", self._layout)
            frame.sample_rate = RATE
            self.write(frame)
            missing -= frame.samples
