"""Odd recordings, generated: every kind of file that broke products like this one.

`CORPUS` names each with what must become of it. Nothing here depends on time or chance, so a row
that fails today fails tomorrow. Run as a script, it writes the files into a folder.
"""

from __future__ import annotations

import io
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random

import av
import numpy as np

from worker.errors import MediaError, NoAudioTrack, UnreadableMedia

TONE = 440
"""Hz, of every recording that has something to hear in it."""


# Sound


def tone(seconds: float, rate: int, level: float = 0.25) -> np.ndarray:
    """A tone, shape (n,), float32."""
    return (level * np.sin(2 * np.pi * TONE * np.arange(int(seconds * rate)) / rate)).astype("f4")


def channels(*planes: np.ndarray) -> np.ndarray:
    """Channels of equal length, shape (channels, n)."""
    return np.stack(planes)


def pcm(planes: np.ndarray) -> bytes:
    """Interleaved 16-bit samples."""
    return (planes.T * 32767).astype("<i2").tobytes()


# Containers


class Pipe:
    """A file that cannot be wound back, as a browser writes one."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> int:
        self.data += data
        return len(data)


def encode(
    container: str,
    codec: str,
    planes: np.ndarray,
    rate: int,
    layout: str = "mono",
    *,
    to: Pipe | str | None = None,
    video_first: bool = False,
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
    keep: Callable[[av.Packet], bool] = lambda packet: True,
) -> bytes:
    """Encode sound of shape (channels, n). `keep` drops packets, as a bad line does."""
    buffer = io.BytesIO()
    target = buffer if to is None else to
    with av.open(target, "w", format=container, container_options=container_options or {}) as out:
        if video_first:
            picture = out.add_stream("mpeg4", rate=10, width=64, height=64, pix_fmt="yuv420p")
        track = out.add_stream(codec, rate=rate, layout=layout, options=options or {})
        if video_first:
            out.mux(_pictures(picture, planes.shape[1] / rate))
        resampler = av.AudioResampler(track.format, layout, rate)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(planes), "fltp", layout)
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        for part in resampler.resample(frame):
            out.mux([each for each in track.encode(part) if keep(each)])
        out.mux([each for each in track.encode(None) if keep(each)])
    return bytes(target.data) if isinstance(target, Pipe) else buffer.getvalue()


def _pictures(track: av.VideoStream, seconds: float) -> list[av.Packet]:
    packets = []
    for number in range(int(seconds * 10)):
        frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), number % 255, np.uint8), "rgb24")
        frame.pts, frame.time_base = number, Fraction(1, 10)
        packets += track.encode(frame)
    return packets + track.encode(None)


def wav(
    data: bytes,
    rate: int,
    count: int = 1,
    *,
    size: int | None = None,
    extensible: int | None = None,
) -> bytes:
    """A wav of 16-bit samples. `size`: the lie in its header. `extensible`: its channel mask."""
    layout = struct.pack("<HIIHH", count, rate, rate * count * 2 % 2**32, count * 2 % 2**16, 16)
    if extensible is None:
        form = struct.pack("<H", 1) + layout
    else:
        guid = struct.pack("<H", 1) + bytes.fromhex("000000001000800000aa00389b71")
        form = struct.pack("<H", 0xFFFE) + layout + struct.pack("<HHI", 22, 16, extensible) + guid
    size = len(data) if size is None else size
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form
    body += b"data" + struct.pack("<I", size) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def webm_without_duration(seconds: float) -> bytes:
    """What a browser's recorder streams out: no duration, no index."""
    return encode(
        "webm", "libopus", channels(tone(seconds, 48000)), 48000,
        to=Pipe(), container_options={"live": "1"},
    )  # fmt: skip


@cache
def mp3(seconds: float = 3, rate: int = 44100) -> bytes:
    return encode("mp3", "libmp3lame", channels(*[tone(seconds, rate)] * 2), rate, "stereo")


@cache
def m4a(seconds: float = 3, *, index_first: bool = False) -> bytes:
    planes = channels(tone(seconds, 44100))
    if not index_first:
        return encode("mp4", "aac", planes, 44100)
    with tempfile.NamedTemporaryFile(suffix=".m4a") as file:  # the muxer opens it a second time
        options = {"movflags": "faststart"}
        encode("mp4", "aac", planes, 44100, to=file.name, container_options=options)
        return Path(file.name).read_bytes()


def cover_art() -> bytes:
    """An mp3 with a picture in its tag, which is no video."""

    def chunk(name: bytes, data: bytes) -> bytes:
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    picture = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
    picture += chunk(b"IDAT", zlib.compress((b"\0" + b"\x80" * 24) * 8)) + chunk(b"IEND", b"")
    # A title in an old Russian code page, which is not what the tag says it is.
    frames = _id3(b"TIT2", b"\x03" + "Лекция".encode("cp1251"))
    frames += _id3(b"APIC", b"\0image/png\0\x03\0" + picture)
    size = bytes(len(frames) >> shift & 0x7F for shift in (21, 14, 7, 0))
    return b"ID3\x03\0\0" + size + frames + mp3()


def _id3(name: bytes, data: bytes) -> bytes:
    return name + struct.pack(">IH", len(data), 0) + data


def silent_video() -> bytes:
    target = io.BytesIO()
    with av.open(target, "w", format="mp4") as out:
        track = out.add_stream("mpeg4", rate=10, width=64, height=64, pix_fmt="yuv420p")
        out.mux(_pictures(track, 2))
    return target.getvalue()


def repeated(container: str, codec: str, rate: int, seconds: float, **options: str) -> bytes:
    """A tone as long as wanted, in the time that it takes to copy packets."""
    target = io.BytesIO()
    with av.open(target, "w", format=container) as out:
        track = out.add_stream(codec, rate=rate, layout="mono", options=options)
        track.codec_context.format = "s16" if codec == "libopus" else "fltp"
        second = av.AudioFrame.from_ndarray(channels(tone(2, rate)), "fltp", "mono")
        second.sample_rate, second.pts, second.time_base = rate, 0, Fraction(1, rate)
        packets = [each for each in track.encode(second) if each.duration]
        model = packets[len(packets) // 2]
        data, step, tick = bytes(model), model.duration, model.time_base
        for number in range(int(seconds / (step * tick))):
            packet = av.Packet(data)
            packet.pts = packet.dts = number * step
            packet.duration, packet.time_base, packet.stream = step, tick, track
            out.mux(packet)
    return target.getvalue()


def late_picture() -> bytes:
    """An FLV whose video begins long after its sound, as a stream's does when a camera joins."""
    body = b"\x12" + bytes(40)
    tag = b"\x09" + len(body).to_bytes(3, "big") + bytes(7) + body
    return repeated("flv", "libmp3lame", 44100, 30) + tag + len(tag).to_bytes(4, "big")


def noise(size: int) -> bytes:
    return Random(7).randbytes(size)


def damaged(data: bytes) -> bytes:
    """The same with stretches of rubbish in the middle."""
    result = bytearray(data)
    for at in range(len(data) // 3, len(data) * 2 // 3, len(data) // 12):
        result[at : at + 300] = noise(300)
    return bytes(result)


# Files that point at others


def hls(*targets: str) -> bytes:
    lines = ["#EXTM3U", "#EXT-X-TARGETDURATION:10"]
    for target in targets:
        lines += ["#EXTINF:10.0,", target]
    return "\n".join([*lines, "#EXT-X-ENDLIST", ""]).encode()


def concat(*targets: str) -> bytes:
    return "\n".join(["ffconcat version 1.0", *[f"file '{each}'" for each in targets], ""]).encode()


def sdp(port: int) -> bytes:
    return (
        f"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
        f"m=audio {port} RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
    ).encode()


def dash(target: str) -> bytes:
    return (
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
        'mediaPresentationDuration="PT3S" profiles="urn:mpeg:dash:profile:isoff-on-demand:2011">'
        '<Period><AdaptationSet mimeType="audio/mp4"><Representation id="1" bandwidth="64000">'
        f"<BaseURL>{target}</BaseURL></Representation></AdaptationSet></Period></MPD>"
    ).encode()


def external_reference(name: str) -> bytes:
    """An mp4 whose sound lies in the file `name` of the same folder, as old cameras wrote it."""
    path = f"Volume:folder:{name}".encode()
    alias = bytes(10) + b"\x06Volume".ljust(28, b"\0") + bytes(12)
    alias += bytes([len(name)]) + name.encode().ljust(63, b"\0") + bytes(16)
    alias += struct.pack(">hh", 1, 1) + bytes(16)
    alias += struct.pack(">hh", 2, len(path)) + path + bytes(len(path) % 2)
    alias += struct.pack(">hh", -1, 0)
    entry = b"alis" + bytes(4) + alias  # version and flags: not in this file
    entry = struct.pack(">I", len(entry) + 4) + entry
    reference = b"dref" + struct.pack(">II", 0, 1) + entry
    return _replaced(m4a(), struct.pack(">I", len(reference) + 4) + reference)


def _replaced(data: bytes, box: bytes) -> bytes:
    """Put another `dref` into an mp4 whose index stands at its end."""
    result, start, end = bytearray(data), 0, len(data)
    parents = []
    for name in (b"moov", b"trak", b"mdia", b"minf", b"dinf", b"dref"):
        while result[start + 4 : start + 8] != name:
            start += int.from_bytes(result[start : start + 4], "big")
            assert start < end, name
        parents.append(start)
        end = start + int.from_bytes(result[start : start + 4], "big")
        start += 8
    growth = len(box) - (end - parents[-1])
    for parent in parents[:-1]:
        size = int.from_bytes(result[parent : parent + 4], "big") + growth
        result[parent : parent + 4] = struct.pack(">I", size)
    result[parents[-1] : end] = box
    return bytes(result)


# The corpus


@dataclass(frozen=True)
class Row:
    """A file and what must become of it."""

    name: str
    make: Callable[[], bytes]
    seconds: float = 3.0
    """How much sound comes out, within a tenth and 0.15 s; 0: none."""
    probed: float | None = None
    """What the probe may say instead, where the file lies."""
    error: type[MediaError] | None = None
    """What normalising ends in."""
    refused: bool = False
    """Whether the probe refuses it already."""


def _unreadable(name: str, make: Callable[[], bytes]) -> Row:
    return Row(name, make, seconds=0, error=UnreadableMedia, refused=True)


def _stereo(left: np.ndarray, right: np.ndarray) -> bytes:
    return wav(pcm(channels(left, right)), 44100, 2)


CORPUS: tuple[Row, ...] = (
    Row("m4a-index-at-end.m4a", m4a),
    Row("m4a-index-first.m4a", lambda: m4a(index_first=True)),
    Row("browser.webm", lambda: webm_without_duration(3)),
    Row("extensible.wav", lambda: wav(pcm(channels(tone(3, 16000))), 16000, extensible=4)),
    Row("size-too-small.wav", lambda: wav(pcm(channels(tone(3, 16000))), 16000, size=32000)),
    Row("size-zero.wav", lambda: wav(pcm(channels(tone(3, 16000))), 16000, size=0)),
    Row("size-unknown.wav", lambda: wav(pcm(channels(tone(3, 16000))), 16000, size=2**32 - 1)),
    Row("size-too-big.wav", lambda: wav(pcm(channels(tone(3, 16000))), 16000, size=10**9)),
    Row("8khz.wav", lambda: wav(pcm(channels(tone(3, 8000))), 8000)),
    Row("telephone.wav", lambda: encode("wav", "pcm_mulaw", channels(tone(3, 8000)), 8000)),
    Row("96khz.flac", lambda: encode("flac", "flac", channels(tone(3, 96000)), 96000)),
    Row("surround.m4a", lambda: encode(
        "mp4", "aac", channels(*[tone(3, 48000, 0.1)] * 6), 48000, "5.1")),
    Row("surround.wav", lambda: wav(
        pcm(channels(*[tone(3, 48000, 0.1)] * 6)), 48000, 6, extensible=0x3F)),
    Row("nine-microphones.wav", lambda: wav(
        pcm(channels(*[tone(3, 16000, 0)] * 8, tone(3, 16000))), 16000, 9)),
    Row("video.mp4", lambda: encode(
        "mp4", "aac", channels(tone(3, 44100)), 44100, video_first=True)),
    Row("video.mkv", lambda: encode(
        "matroska", "libopus", channels(tone(3, 48000)), 48000, video_first=True)),
    Row("video.avi", lambda: encode(
        "avi", "libmp3lame", channels(tone(3, 44100)), 44100, video_first=True)),
    Row("video.ts", lambda: encode(
        "mpegts", "aac", channels(tone(3, 44100)), 44100, video_first=True)),
    Row("video-without-audio.mp4", silent_video, 0, 2.0, NoAudioTrack),
    Row("cover-art.mp3", cover_art),
    Row("mp3-called.wav", mp3),
    Row("m4a-called.mp3", m4a),
    Row("no-extension", lambda: encode("ogg", "libopus", channels(tone(3, 48000)), 48000)),
    Row("truncated.mp3", lambda: mp3()[: len(mp3()) // 2], 1.5, 3.0),
    Row("truncated-index-first.m4a", lambda: m4a(index_first=True)[: len(m4a()) * 2 // 3],
        2.0, 3.0),
    _unreadable("truncated-index-at-end.m4a", lambda: m4a()[: len(m4a()) // 2]),
    Row("damaged.mp3", lambda: damaged(mp3(6)), 6.0),
    Row("damaged.ogg", lambda: damaged(
        encode("ogg", "libopus", channels(tone(6, 48000)), 48000)), 6.0),
    Row("two-seconds.mp3", lambda: mp3(2), 2.0),
    Row("a-tenth-of-a-second.ogg", lambda: encode(
        "ogg", "libopus", channels(tone(0.1, 48000)), 48000), 0.1),
    Row("a-tenth-of-a-second.wav", lambda: wav(pcm(channels(tone(0.1, 8000))), 8000), 0.1),
    Row("opposite-phase.wav", lambda: _stereo(tone(3, 44100), -tone(3, 44100))),
    Row("one-silent-channel.wav", lambda: _stereo(tone(3, 44100), tone(3, 44100, 0))),
    Row("raw.aac", lambda: encode("adts", "aac", channels(tone(3, 44100)), 44100)),
    Row("telegram.oga", lambda: encode(
        "ogg", "libopus", channels(tone(3, 48000)), 48000,
        options={"application": "voip", "b": "24000"})),
    Row("phone.amr", lambda: encode("amr", "libopencore_amrnb", channels(tone(3, 8000)), 8000)),
    Row("two-kinds.mp3", lambda: mp3(2) + mp3(2, 22050), 4.0, 3.0),
    Row("late-picture.flv", late_picture, 30.0),
    Row("hour.ogg", lambda: repeated("ogg", "libopus", 48000, 3600, frame_duration="60"), 3600.0),
    Row("empty.mp3", bytes, 0, 0.0, NoAudioTrack),
    _unreadable("random.mp3", lambda: noise(60_000)),
    _unreadable("random.wav", lambda: noise(60_000)),
    _unreadable("zeros.mp3", lambda: bytes(60_000)),
    _unreadable("text.mp3", lambda: "Это не запись. This is no recording.\n".encode() * 500),
    Row("header-only.wav", lambda: wav(b"", 16000), 0, error=NoAudioTrack, refused=True),
    _unreadable("half-a-header.wav", lambda: wav(b"", 16000)[:20]),
    _unreadable("header-only.m4a", lambda: m4a(index_first=True)[:1000]),
    _unreadable("rubbish-behind-a-tag.mp3", lambda: b"ID3\x03\0\0\0\0\0\0" + noise(5000)),
    _unreadable("archive.zip", lambda: b"PK\x03\x04\x14\0\0\0\x08\0" + noise(5000)),
    _unreadable("picture.gif", lambda: b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0"
                b"\x01\0\x01\0\0\x02\x02D\x01\0;"),
    _unreadable("paper.pdf", lambda: b"%PDF-1.4\n1 0 obj <<>> endobj\ntrailer <<>>\n%%EOF\n"),
    _unreadable("65535-channels.wav", lambda: wav(bytes(200_000), 48000, 65535)),
    _unreadable("4-ghz.wav", lambda: wav(bytes(200_000), 2**32 - 1)),
    _unreadable("1-hz.wav", lambda: wav(bytes(200_000), 1)),
    _unreadable("playlist.m3u8", lambda: hls("neighbour.wav", "http://127.0.0.1:9/x.ts")),
    _unreadable("script.ffconcat", lambda: concat("neighbour.wav")),
    _unreadable("manifest.mpd", lambda: dash("neighbour.wav")),
    _unreadable("session.sdp", lambda: sdp(9)),
    Row("external-reference.mov", lambda: external_reference("neighbour.wav"), 0,
        error=NoAudioTrack, refused=True),
)  # fmt: skip


def long_recording(seconds: float) -> bytes:
    """An m4a: of all containers the one whose index grows with its length."""
    return repeated("mp4", "aac", 8000, seconds)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for row in CORPUS:
        (folder / row.name).write_bytes(row.make())


if __name__ == "__main__":
    main()
