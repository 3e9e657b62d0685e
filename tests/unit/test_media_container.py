"""A stranger's file is opened by its content, and reaches nothing but itself."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import socket
import struct
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import pytest
from av.stream import Discard

from tests.media_corpus import (
    channels,
    concat,
    dash,
    encode,
    external_reference,
    hls,
    m4a,
    pcm,
    sdp,
    tone,
    wav,
)
from worker.errors import NoAudioTrack, UnreadableMedia
from worker.media.container import audio_track, open_media
from worker.media.normalise import normalise
from worker.media.probe import probe

OPENED = 0x20  # IN_OPEN


class Watch:
    """Notices when anybody opens a file."""

    def __init__(self, path: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), OPENED)

    def opened(self) -> bool:
        try:
            return bool(os.read(self._descriptor, 4096))
        except BlockingIOError:
            return False

    def close(self) -> None:
        os.close(self._descriptor)


@pytest.fixture
def neighbour(tmp_path: Path) -> Iterator[Watch]:
    """A sound file beside the one under test, and whether anybody opened it."""
    path = tmp_path / "neighbour.wav"
    path.write_bytes(wav(pcm(channels(tone(3, 16000))), 16000))
    watch = Watch(path)
    yield watch
    watch.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server on loopback that nobody should talk to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def connected(listener: socket.socket) -> bool:
    try:
        connection, _ = listener.accept()
    except BlockingIOError:
        return False
    connection.close()
    return True


def pointing_elsewhere(folder: Path, port: int) -> dict[str, bytes]:
    beside, address = str(folder / "neighbour.wav"), f"http://127.0.0.1:{port}/sound.ts"
    return {
        "relative.m3u8": hls("neighbour.wav", address),
        "network.m3u8": hls(address),
        "absolute.m3u8": hls(f"file://{beside}", f"subfile,,start,0,end,0,,:{beside}"),
        "inline.m3u8": hls("data:audio/wav;base64,UklGRg==", f"concat:{beside}|{beside}"),
        "called.mp3": hls(beside, address),
        "script.ffconcat": concat("neighbour.wav"),
        "script.mp3": concat(beside),
        "script-network.txt": concat(address),
        "manifest.mpd": dash(address),
        "local.mpd": dash(beside),
        "session.sdp": sdp(port),
        "reference.mov": external_reference("neighbour.wav"),
        "images%03d.png": b"\x89PNG\r\n\x1a\n",
        "smooth.ism": b"#EXTM3U\n" + beside.encode(),
    }


@pytest.mark.parametrize("name", sorted(pointing_elsewhere(Path("/"), 1)))
def test_a_file_that_points_elsewhere_is_refused_and_nothing_else_is_read(
    name: str, tmp_path: Path, neighbour: Watch, listener: socket.socket
) -> None:
    source = tmp_path / name
    source.write_bytes(pointing_elsewhere(tmp_path, listener.getsockname()[1])[name])

    with pytest.raises(UnreadableMedia) as probed:
        probe(source)
    with pytest.raises((UnreadableMedia, NoAudioTrack)):
        normalise(source, tmp_path / "out.flac", 60)

    assert not neighbour.opened()
    assert not connected(listener)
    assert "neighbour" not in str(probed.value)
    assert str(tmp_path) not in str(probed.value)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("relative.m3u8", {"extension_picky": "0", "allowed_extensions": "ALL"}),
        ("script.ffconcat", {}),
        ("reference.mov", {"enable_drefs": "1"}),
    ],
)
def test_the_attacks_work_on_a_plain_open(
    name: str, options: dict[str, str], tmp_path: Path, neighbour: Watch
) -> None:
    """Or the test above would prove nothing."""
    source = tmp_path / name
    source.write_bytes(pointing_elsewhere(tmp_path, 1)[name])

    with contextlib.suppress(av.FFmpegError), av.open(str(source), options=options):
        pass

    assert neighbour.opened()


def test_a_playlist_reaches_the_network_on_a_plain_open(
    tmp_path: Path, listener: socket.socket
) -> None:
    source = tmp_path / "network.m3u8"
    source.write_bytes(pointing_elsewhere(tmp_path, listener.getsockname()[1])[source.name])
    options = {"protocol_whitelist": "file,http,tcp", "rw_timeout": "200000"}

    with contextlib.suppress(av.FFmpegError):
        av.open(str(source), options=options, timeout=1)

    assert connected(listener)


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    with pytest.raises(UnreadableMedia, match="not a regular file"), open_media(tmp_path / "fifo"):
        pass


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_is_left_behind(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_bytes(m4a())
    bad.write_bytes(b"no media" * 100)
    before = descriptors()

    for _ in range(3):
        probe(good)
        with pytest.raises(UnreadableMedia):
            probe(bad)

    assert descriptors() == before


def test_a_track_without_a_decoder_gives_way_to_the_next(tmp_path: Path) -> None:
    source, buffer = tmp_path / "two.mka", io.BytesIO()
    with av.open(buffer, "w", format="matroska") as out:
        tracks = [out.add_stream(codec, rate=48000, layout="mono") for codec in ("flac", "aac")]
        for track in tracks:
            sound = channels(tone(1, 48000))
            frame = av.AudioFrame.from_ndarray(sound, "fltp", "mono")
            frame.sample_rate, frame.pts, frame.time_base = 48000, 0, Fraction(1, 48000)
            out.mux(track.encode(frame) + track.encode(None))
    source.write_bytes(buffer.getvalue().replace(b"A_FLAC", b"A_SPAT"))

    with open_media(source) as container:
        assert audio_track(container).codec_context.codec.name == "aac"


def test_only_the_sound_is_read_and_no_picture_decoded(tmp_path: Path) -> None:
    (tmp_path / "video").write_bytes(
        encode("matroska", "aac", channels(tone(1, 44100)), 44100, video_first=True)
    )

    with open_media(tmp_path / "video") as container:
        track = audio_track(container)
        picture = container.streams.video[0]
        # Of this codec the pixels' form is known only to who has decoded one.
        assert picture.codec_context.pix_fmt is None
        assert (picture.discard, track.discard) == (Discard.all, Discard.default)


def test_more_channels_than_any_recorder_has_are_refused(tmp_path: Path) -> None:
    (tmp_path / "many").write_bytes(wav(bytes(500_000), 8000, 65))

    with pytest.raises(UnreadableMedia, match="channels"), open_media(tmp_path / "many") as many:
        audio_track(many)


def test_a_track_without_a_decoder_alone_is_unreadable(tmp_path: Path) -> None:
    source = tmp_path / "a.wav"
    data = bytearray(wav(pcm(channels(tone(1, 16000))), 16000))
    data[20:22] = b"\x34\x12"  # a format that nobody registered
    source.write_bytes(data)

    with pytest.raises(UnreadableMedia, match="known codec"), open_media(source) as container:
        audio_track(container)


@pytest.mark.parametrize(
    ("size", "tail", "expected"),
    [
        (32000, b"", 3.0),  # says a second, holds three
        (32001, b"", 3.0),
        (96000, b"LIST" + struct.pack("<I", 32000) + bytes(32000), 3.0),  # a true chunk is no sound
        (96000, b"", 3.0),
    ],
)
def test_a_wav_is_decoded_to_its_end(
    size: int, tail: bytes, expected: float, tmp_path: Path
) -> None:
    source = tmp_path / "a.wav"
    source.write_bytes(wav(pcm(channels(tone(3, 16000))), 16000, size=size) + tail)

    result = normalise(source, tmp_path / "out.flac", 60)

    assert result.duration == pytest.approx(expected, abs=0.001)


def rf64(data: bytes, size: int) -> bytes:
    """The long form of a wav, whose `ds64` chunk gives the size."""
    plain = wav(data, 16000, size=2**32 - 1)
    sizes = b"ds64" + struct.pack("<IQQQI", 28, len(plain), size, 0, 0)
    return b"RF64\xff\xff\xff\xffWAVE" + sizes + plain[12:]


def rifx(data: bytes, size: int) -> bytes:
    """A wav in the other byte order. Its sound is silence, which is the same in both."""
    form = struct.pack(">HHIIHH", 1, 1, 16000, 32000, 2, 16)
    return (
        b"RIFX" + struct.pack(">I", size + 36) + b"WAVEfmt " + struct.pack(">I", 16) + form
        + b"data" + struct.pack(">I", size) + data
    )  # fmt: skip


SECOND = pcm(channels(tone(1, 16000)))
LIST = b"LIST" + struct.pack("<I", 4) + b"INFO"
ZEROS = 64 * 2**20
"""Bytes. Walked chunk by chunk they take 7 s; read as sound they are 35 minutes."""


@pytest.mark.parametrize(
    ("head", "seconds"),
    [
        (wav(SECOND * 3, 16000), 3 + ZEROS / 32000),
        (wav(SECOND * 3, 16000, size=32000), 3 + ZEROS / 32000),
        (rf64(SECOND * 3, 32000), 3 + ZEROS / 32000),
        (rifx(bytes(96000), 32000), 3 + ZEROS / 32000),
        (wav(SECOND, 16000) + LIST, 1.0),  # a true chunk: what follows is no sound
        (rf64(SECOND, 32000) + LIST, 1.0),
        (wav(SECOND, 16000) + b"data" + struct.pack("<I", 32000) + SECOND, 2.0),
    ],
    ids=["wav", "wav-small", "rf64", "rifx", "wav-chunk", "rf64-chunk", "wav-second-sound"],
)
def test_zeros_behind_the_sound_cost_no_walk(head: bytes, seconds: float, tmp_path: Path) -> None:
    """A recorder lays a file out beforehand; one that dies leaves what it has not filled."""
    source = tmp_path / "a.wav"
    with source.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + ZEROS)

    started = time.process_time()
    assert probe(source).has_audio
    probed = time.process_time()
    result = normalise(source, tmp_path / "out.flac", 3600)

    assert probed - started < 1
    assert time.process_time() - probed < 4
    assert result.duration == pytest.approx(seconds, abs=0.001)


@pytest.mark.parametrize("name", [b"RIFF", b"RIFX", b"RF64", b"BW64"])
def test_zeros_before_the_sound_are_refused_at_once(name: bytes, tmp_path: Path) -> None:
    source = tmp_path / "a.wav"
    with source.open("wb") as file:
        file.write(name + bytes(4) + b"WAVE")
        file.truncate(ZEROS)

    started = time.process_time()
    with pytest.raises(UnreadableMedia, match="so many chunks"):
        probe(source)
    assert time.process_time() - started < 1
