"""What a file is: how long, and whether there is anything to hear in it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import av
from av.audio.stream import AudioStream
from av.container import InputContainer

from worker.errors import NoAudioTrack, UnreadableMedia
from worker.media.container import audio_track, declared_seconds, open_media, packets

SCAN_SECONDS = 2.0
"""How long packets are counted where the container states no duration."""
TRIES = 200
"""Damaged packets that are tolerated before the first good one."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What the container says. What counts in the end is what normalising decodes."""

    duration: float
    """Seconds; 0 for an empty file or an unknown length."""
    has_audio: bool
    format: str
    """FFmpeg's name of the container, empty for an empty file."""


def probe(path: Path) -> Probe:
    """Look into a file, in bounded time.

    An empty file is readable: the intake has no lower limit of size, and the step that
    normalises it says that there is no audio.

    Raises:
        UnreadableMedia: it is no media, or nothing in it can be decoded.
        OSError: the file itself cannot be opened.
    """
    size = path.stat().st_size
    if size == 0:
        return Probe(0.0, has_audio=False, format="")
    with open_media(path) as container:
        name, declared = container.format.name, declared_seconds(container)
        try:
            track = audio_track(container)
        except NoAudioTrack:
            if not len(container.streams):
                raise UnreadableMedia("no tracks") from None
            return Probe(declared, has_audio=False, format=name)
        return Probe(_scan(container, track, declared, size), has_audio=True, format=name)


def _scan(container: InputContainer, track: AudioStream, declared: float, size: int) -> float:
    """Read until something decodes and the duration is known. Returns seconds."""
    deadline = time.monotonic() + SCAN_SECONDS
    tick = float(track.time_base or 0)
    seen = decoded = tries = 0
    first = end = None
    try:
        for packet in packets(container, track):
            seen += packet.size > 0
            if not decoded and tries < TRIES:
                tries += 1
                decoded = _samples(packet)
            if packet.pts is not None:
                first = packet.pts if first is None else min(first, packet.pts)
                end = max(end or 0, packet.pts + (packet.duration or 0))
            if decoded or tries >= TRIES:
                if declared > 0:
                    return declared
                if time.monotonic() > deadline and packet.pos is not None:
                    return ((end or 0) - (first or 0)) * tick * size / (packet.pos + packet.size)
    except MemoryError:
        raise
    except av.FFmpegError:
        pass  # damage ends the scan, not the recording
    if not seen:
        raise UnreadableMedia("no samples behind the header")
    if not decoded and tries < TRIES:
        raise UnreadableMedia("nothing in it can be decoded")
    return declared or ((end or 0) - (first or 0)) * tick


def _samples(packet: av.Packet[AudioStream]) -> int:
    try:
        return sum(frame.samples for frame in packet.decode())
    except MemoryError:
        raise
    except av.FFmpegError:
        return 0
