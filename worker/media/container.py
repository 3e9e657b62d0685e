"""Opening a file that a stranger sent: by its content, and without it reaching anything else.

The file is opened here and handed to FFmpeg as a descriptor, and `fd` is the only protocol FFmpeg
may use: whatever a playlist or a reference inside the file names, FFmpeg has no means to open it,
neither a path nor an address. This is as safe as handing over a Python file object and costs no
call into Python per read. Demuxers and decoders that recordings never need are refused as well.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeGuard

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
MAX_CHANNELS = 64
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
        container = _open(descriptor)
    finally:
        os.close(descriptor)  # FFmpeg has made its own copy
    with container:
        yield container


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


def diagnosis(error: av.FFmpegError) -> str:
    """FFmpeg's own words, without the address of anything."""
    return (error.strerror or type(error).__name__).lower()


def _open(descriptor: int) -> InputContainer:
    try:
        return av.open(
            "fd:",
            mode="r",
            container_options={
                "fd": str(descriptor),
                "protocol_whitelist": "fd",
                "format_whitelist": ",".join(DEMUXERS),
                "codec_whitelist": ",".join(DECODERS),
                "enable_drefs": "0",
            },
            metadata_errors="replace",  # tags in any old code page are no reason to refuse
        )
    except MemoryError:
        raise
    except av.FFmpegError as error:
        raise UnreadableMedia(diagnosis(error)) from None  # its text would name the file


def _decodable(context: AudioCodecContext | None) -> TypeGuard[AudioCodecContext]:
    # PyAV gives no context where FFmpeg has no decoder.
    return (
        context is not None
        and context.codec.name in DECODERS
        and context.sample_rate in RATES
        and 0 < context.layout.nb_channels <= MAX_CHANNELS
    )
