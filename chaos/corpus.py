"""The recordings that are handed in: real speech in combinations of its own, and what is none.

What each of them must become is not written here: an undisturbed run at the start says it. `KINDS`
says of what kind that must be, so that a run that was wrong from its beginning is no measure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import av
import numpy as np

from tests import media_corpus as media
from tests.acceptance.speech import RATE, Sound, pause, said

KINDS = {
    "speech": "done",
    "long": "done",
    "video": "done",
    "silence": "done",
    "sound": "done",
    "mute": "failed",
    "empty": "failed",
    "broken": "refused",
    "too_large": "refused",
}
"""What must become of an item of this kind."""
UPLOAD_MB = 2
"""MAX_UPLOAD_MB of the run."""
REMOTE = ("hello-a", "hello-c", "talk", "quiet")
"""Items that are given to remote recognisers, too."""


@dataclass
class Item:
    """One of the corpus."""

    name: str
    kind: str
    extension: str
    data: bytes = field(repr=False)
    expected: dict[str, dict[str, str]] = field(default_factory=dict)
    """By recogniser, from the undisturbed run."""

    @property
    def outcome(self) -> str:
        return KINDS[self.kind]

    def recognisers(self, first: str) -> tuple[str, ...]:
        """Those that can meet it, where `first` is the default."""
        if self.name in REMOTE:
            return ("local", "openai", "speechkit")
        return ("local",) if first == "local" or self.outcome == "refused" else ("local", first)

    def entry(self) -> dict[str, Any]:
        """What the journal says of it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "sha256": hashlib.sha256(self.data).hexdigest(),
            "size": len(self.data),
            "expected": self.expected,
        }


def parts(sound: Sound, least: float = 0.12, level: float = 0.02) -> list[Sound]:
    """The sound cut at its pauses, so that no part is shorter than a second."""
    frame = RATE // 50
    loud = np.abs(sound[: len(sound) // frame * frame].reshape(-1, frame)).max(axis=1)
    quiet = loud < level * np.abs(sound).max()
    found, start, n = [], 0, 0
    while n < len(quiet):
        end = n
        while end < len(quiet) and quiet[end]:
            end += 1
        middle = (n + end) // 2 * frame
        if end - n >= least * 50 and middle - start >= RATE and len(sound) - middle >= RATE:
            found.append(sound[start:middle])
            start = middle
        n = end + 1
    return [*found, sound[start:]]


def phrases() -> dict[str, Sound]:
    """What can be said: each part of the samples, and the samples whole."""
    voices = {name: said(name) for name in ("en", "ru")}
    named = dict(voices)
    for name, sound in voices.items():
        named |= {f"{name}{n}": part for n, part in enumerate(parts(sound))}
    return named


def _talk(known: dict[str, Sound], said_in_order: str, gap: float = 0.7) -> Sound:
    sounds: list[Sound] = [pause(0.2)]
    for name in said_in_order.split():
        sounds += [known[name], pause(gap)]
    return np.concatenate(sounds)


Encoder = Callable[[Sound], bytes]


def _encoder(container: str, codec: str, rate: int = RATE, **more: Any) -> Encoder:
    def encode(sound: Sound) -> bytes:
        samples = sound.astype(np.float32) / 32768
        if rate != RATE:
            samples = _resampled(sound, rate)
        return media.encode(container, codec, media.channels(samples), rate, **more)

    return encode


def _resampled(sound: Sound, rate: int) -> np.ndarray:
    frame = av.AudioFrame.from_ndarray(sound.reshape(1, -1), "s16", "mono")
    frame.sample_rate = RATE
    resampler = av.AudioResampler("flt", "mono", rate)
    frames = [*resampler.resample(frame), *resampler.resample(None)]
    return np.concatenate([each.to_ndarray().reshape(-1) for each in frames])


ENCODERS: dict[str, Encoder] = {
    "ogg": _encoder("ogg", "libopus", 48000),
    "oga": _encoder("ogg", "libopus", 48000, options={"application": "voip", "b": "24000"}),
    "wav": _encoder("wav", "pcm_s16le"),
    "flac": _encoder("flac", "flac"),
    "mp3": _encoder("mp3", "libmp3lame", 44100),
    "m4a": _encoder("mp4", "aac", 44100),
    "mp4": _encoder("mp4", "aac", 44100, video_first=True),
}

SPEECH = {
    # name: (kind, extension, what is said, seconds between)
    "hello-a": ("speech", "ogg", "en", 0.5),
    "hello-b": ("speech", "oga", "ru", 0.5),
    "hello-c": ("speech", "wav", "en0", 0.5),
    "hello-d": ("speech", "mp3", "en1 en0", 0.6),
    "hello-e": ("speech", "m4a", "ru1 ru0", 0.8),
    "hello-f": ("speech", "flac", "en1 en", 1.0),
    "film": ("video", "mp4", "en en1", 0.6),
    "talk": ("long", "ogg", "en en1 en en0", 6.0),
    "lecture": ("long", "ogg", "ru ru0 ru ru1 ru", 5.0),
}


def names() -> dict[str, str]:
    """Every item's name and kind, for the plan: nothing has to be made for that."""
    made = {name: kind for name, (kind, *_) in SPEECH.items()}
    return made | {name: kind for name, (kind, *_) in OTHERS.items()}


def _quiet(seconds: float) -> bytes:
    return ENCODERS["flac"](pause(seconds))


OTHERS: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "quiet": ("silence", "flac", lambda: _quiet(4)),
    "hum": ("sound", "mp3", media.mp3),
    "mute-film": ("mute", "mp4", media.silent_video),
    "nothing": ("empty", "mp3", bytes),
    "noise": ("broken", "mp3", lambda: media.noise(60_000)),
    "zeros": ("broken", "mp3", lambda: bytes(60_000)),
    "letter": ("broken", "mp3", lambda: "Это не запись. No recording.\n".encode() * 500),
    "half": ("broken", "m4a", lambda: media.m4a()[: len(media.m4a()) // 2]),
    "list": ("broken", "m3u8", lambda: media.hls("neighbour.wav", "http://127.0.0.1:9/x.ts")),
    "huge": ("too_large", "wav", lambda: media.wav(media.noise(UPLOAD_MB << 20), RATE)),
}


def make(seed: int) -> dict[str, Item]:
    """The corpus, the same for the same seed."""
    dice = Random(seed)
    known = phrases()
    items = {}
    for name, (kind, extension, words, gap) in SPEECH.items():
        # A little quieter or louder with each seed, so that no two runs hear quite the same.
        sound = (_talk(known, words, gap) * dice.uniform(0.6, 0.95)).astype(np.int16)
        items[name] = Item(name, kind, extension, ENCODERS[extension](sound))
    for name, (kind, extension, content) in OTHERS.items():
        items[name] = Item(name, kind, extension, content())
    return items


def write(folder: Path, items: dict[str, Item]) -> None:
    """Keep the files beside the evidence."""
    folder.mkdir(parents=True, exist_ok=True)
    for item in items.values():
        (folder / f"{item.name}.{item.extension}").write_bytes(item.data)
