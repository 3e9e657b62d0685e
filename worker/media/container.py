"""Opening a file that a stranger sent: by its content, and without it reaching anything else.

The file is opened here and handed to FFmpeg as a descriptor, and `fd` is the only protocol FFmpeg
may use: whatever a playlist or a reference inside the file names, FFmpeg has no means to open it,
neither a path nor an address. This is as safe as handing over a Python file object and costs no
call into Python per read. Demuxers and decoders that recordings never need are refused as well.

One kind of file does go in as a Python object: a wav with something behind its sound that is no
chunk. FFmpeg looks for more chunks there, and eight zeros are one to it: of the zeros that a
recorder laid out beforehand and never filled, it walks 100 MB for 11 s. It does not look ahead in
a file that can only be read on.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeGuard

import av
from av.audio.codeccontext import AudioCodecContext
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.stream import Discard

from worker.errors import NoAudioTrack, UnreadableMedia

DEMUXERS = (
    "aac", "ac3", "aiff", "amr", "amrnb", "amrwb", "ape", "asf", "au", "avi", "caf", "dts",
    "eac3", "flac", "flv", "loas", "matroska", "webm", "mov", "mp4", "m4a", "3gp", "mp3", "mpeg",
    "mpegts", "ogg", "tta", "voc", "w64", "wav", "wv",
)  # fmt: skip
DECODERS = (
    "aac", "aac_latm", "ac3", "eac3", "alac", "dca", "flac", "ape", "tta", "wavpack", "truehd",
    "mp1float", "mp1", "mp2float", "mp2", "mp3float", "mp3", "opus", "libopus", "vorbis", "speex",
    "amrnb", "amrwb", "libopencore_amrnb", "libopencore_amrwb", "gsm", "gsm_ms", "ilbc", "qcelp",
    "evrc", "g722", "g723_1", "g726", "g726le", "g729", "nellymoser", "truespeech", "qdm2",
    "wmav1", "wmav2", "wmapro", "wmalossless", "wmavoice",
    "adpcm_ima_wav", "adpcm_ima_qt", "adpcm_ms", "adpcm_swf", "adpcm_yamaha",
    "pcm_alaw", "pcm_mulaw", "pcm_u8", "pcm_s8", "pcm_s16le", "pcm_s16be", "pcm_u16le",
    "pcm_u16be", "pcm_s24le", "pcm_s24be", "pcm_s32le", "pcm_s32be", "pcm_f32le", "pcm_f32be",
    "pcm_f64le", "pcm_f64be", "pcm_bluray", "pcm_dvd", "s302m",
)  # fmt: skip
GUESSED = frozenset({"aac", "ac3", "eac3", "loas", "dts"})
"""Raw streams: FFmpeg takes their duration from the first frames' bit rate, and can be far off."""
MAX_CHANNELS = 64
MAX_CHUNKS = 256
"""Of a wav, before its sound and behind it: they are few, and FFmpeg would walk millions."""
_Order = Literal["little", "big"]
WAVS: Final[dict[bytes, _Order]] = {
    b"RIFF": "little",
    b"RF64": "little",
    b"BW64": "little",
    b"RIFX": "big",
}
"""How a wav begins, and its byte order."""
RATES = range(1_000, 768_001)
"""Sample rates that occur, Hz. Outside of them a header lies, and the output would explode."""


@contextmanager
def open_media(path: Path) -> Iterator[InputContainer]:
    """Open a file as media, whatever its name says.

    Raises:
        UnreadableMedia: it is no media that this service takes.
        OSError: the file itself cannot be opened.
    """
    # Not blocking: a FIFO would otherwise be waited for until somebody writes into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableMedia("not a regular file")
        with _open(descriptor) as container:
            yield container
    finally:
        os.close(descriptor)


def audio_track(container: InputContainer) -> AudioStream:
    """The first audio track that can be decoded. Everything else is skipped while reading.

    Raises:
        NoAudioTrack: there is no audio in it.
        UnreadableMedia: there is, and no decoder for it.
    """
    if not container.streams.audio:
        raise NoAudioTrack
    for track in container.streams.audio:
        if _decodable(track.codec_context):
            for other in container.streams:
                if other is not track:
                    other.discard = Discard.all
            track.codec_context.thread_count = 1
            return track
    raise UnreadableMedia("no audio track with a known codec, sample rate and channels")


def packets(container: InputContainer, track: AudioStream) -> Iterator[av.Packet[AudioStream]]:
    """The track's packets, and at the end the empty one that flushes its decoder."""
    # PyAV stumbles behind that one over tracks that only turned up on the way, as one of an FLV or
    # a transport stream may that begins late: it has no place for them.
    with suppress(IndexError):
        yield from container.demux(track)


def declared_seconds(container: InputContainer) -> float:
    """How long the container says it is; 0 where it does not say."""
    if container.format.name in GUESSED or container.duration is None:
        return 0.0
    return max(0.0, container.duration / av.time_base)


def _open(descriptor: int) -> InputContainer:
    odd = _odd_wav(descriptor)
    try:
        return av.open(
            "fd:" if odd is None else _Onward(descriptor, odd.end),
            mode="r",
            container_options={
                "fd": str(descriptor),
                "protocol_whitelist": "fd",
                "format_whitelist": ",".join(DEMUXERS),
                "codec_whitelist": ",".join(DECODERS),
                "enable_drefs": "0",
                "ignore_length": "1" if odd is not None and odd.understated else "0",
            },
            metadata_errors="replace",  # tags in any old code page are no reason to refuse
        )
    except MemoryError:
        raise
    except av.ArgumentError:  # what FFmpeg answers to a demuxer that is not on the list
        raise UnreadableMedia("not a kind of file that is taken") from None
    except av.FFmpegError as error:
        raise UnreadableMedia((error.strerror or "no media").lower()) from None


class _Onward:
    """The file up to `end`, as one that cannot be wound back."""

    def __init__(self, descriptor: int, end: int) -> None:
        self._descriptor = descriptor
        self._end = end
        self._position = 0

    def read(self, size: int) -> bytes:
        data = os.pread(self._descriptor, min(size, self._end - self._position), self._position)
        self._position += len(data)
        return data


@dataclass(frozen=True, slots=True)
class _OddWav:
    """A wav with something behind its sound that is no chunk."""

    understated: bool
    """It follows at once, so it is more sound. A recorder that never came to write the final size
    leaves it behind; FFmpeg would stop where the header says, without a word."""
    end: int
    """Bytes of the file that count."""


def _odd_wav(descriptor: int) -> _OddWav | None:
    """Look behind the sound of a wav.

    Raises:
        UnreadableMedia: too much stands before it.
    """
    head = os.pread(descriptor, 12, 0)
    if head[:4] not in WAVS or head[8:] != b"WAVE":
        return None
    order, whole = WAVS[head[:4]], os.fstat(descriptor).st_size
    position, size = _sound(descriptor, order)
    if size in {0, 0xFFFFFFFF}:  # FFmpeg knows how to take these
        return None
    position += size
    for chunks in range(MAX_CHUNKS):
        if whole - position < 8:
            return None
        length = _length_of_chunk(descriptor, position, whole, order)
        if length is None:
            understated = chunks == 0
            return _OddWav(understated, whole if understated else position)
        position += length
    return _OddWav(understated=False, end=position)


def _sound(descriptor: int, order: _Order) -> tuple[int, int]:
    """Where the sound of a wav begins, and its bytes; 0 where there is none.

    Raises:
        UnreadableMedia: too many chunks stand before it.
    """
    position, long_size = 12, 0
    for _ in range(MAX_CHUNKS):
        name, size = _chunk(descriptor, position, order)
        position += 8
        if len(name) < 4:
            return position, 0
        if name == b"data":
            return position, long_size if long_size and size == 0xFFFFFFFF else size
        if name == b"ds64":  # of the two long forms, whose `data` gives no size
            long_size = int.from_bytes(os.pread(descriptor, 8, position + 8), "little")
        position += size + size % 2
    raise UnreadableMedia("no sound behind so many chunks")


def _length_of_chunk(descriptor: int, position: int, whole: int, order: _Order) -> int | None:
    """Bytes from here to the end of the chunk that stands here; None: no chunk does."""
    for padding in (0, 1):  # not every writer pads an odd size
        name, size = _chunk(descriptor, position + padding, order)
        if name.isascii() and name.decode().isprintable() and size < whole - position:
            return padding + 8 + size
    return None


def _chunk(descriptor: int, position: int, order: _Order) -> tuple[bytes, int]:
    data = os.pread(descriptor, 8, position)
    return data[:4], int.from_bytes(data[4:], order)


def _decodable(context: AudioCodecContext | None) -> TypeGuard[AudioCodecContext]:
    # PyAV gives no context where FFmpeg has no decoder.
    return (
        context is not None
        and context.codec.name in DECODERS
        and context.sample_rate in RATES
        and 0 < context.layout.nb_channels <= MAX_CHANNELS
    )
