"""Mutated recordings, through the metadata source's process and the decoder's.

Held against `docs/media.md`: always an answer of the documented form, in bounded time and memory;
no file but the one asked about is opened, no address called, nothing left behind; what a log line
says of it names no file.
"""

from __future__ import annotations

import ctypes
import math
import os
import secrets as chance
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import av
import httpx

from fuzz import mutate
from fuzz.run import Run
from tests import media_corpus as corpus
from tests.acceptance.service import Service
from tests.media_inside import attempted
from worker import secrets
from worker.errors import DecoderDied, MediaError
from worker.media import sandbox
from worker.media.normalise import RATE, normalise
from worker.settings import load

LARGEST = 200_000
"""Bytes of a file of the corpus that is worth changing: larger ones only take longer."""
PROBE_SECONDS = 5.0
"""For a look. It counts packets for two at most; the machine may have other work."""
NORMALISE_SECONDS = 20.0
MEMORY = sandbox.MEMORY + 100 * 2**20
"""Resident: what the sandbox may take, and the libraries. The corpus as it is stays below 75 MB."""
LONGEST = 1800.0
"""Seconds of sound that a mutated file may make: the limit that the owner would set."""
MORE: tuple[tuple[str, str, int], ...] = (
    ("ac3", "ac3", 48000), ("eac3", "eac3", 48000), ("mp2", "mp2", 44100),
    ("aiff", "pcm_s16be", 16000), ("au", "pcm_s16be", 16000), ("caf", "alac", 44100),
    ("mov", "pcm_s24le", 16000), ("w64", "pcm_s16le", 16000), ("wav", "adpcm_ima_wav", 16000),
    ("wav", "adpcm_ms", 16000), ("wav", "g722", 16000), ("wav", "g726", 8000),
    ("wav", "pcm_f32le", 16000), ("flv", "nellymoser", 8000), ("flv", "libmp3lame", 44100),
    ("wv", "wavpack", 44100), ("tta", "tta", 44100), ("ogg", "flac", 44100),
    ("mp4", "alac", 44100), ("voc", "pcm_u8", 16000), ("mpeg", "mp2", 44100),
    ("latm", "aac", 44100), ("3gp", "aac", 16000), ("avi", "pcm_s16le", 16000),
    ("mpegts", "libopus", 48000), ("ogg", "libopus", 48000),
)  # fmt: skip
"""Containers and codecs beside the corpus' own."""


def files() -> list[bytes]:
    """What is changed: the corpus, and what else the library can make, half a second of each."""
    rows = [row.make() for row in corpus.CORPUS if row.name != "hour.ogg"]
    made = [data for data in rows if 0 < len(data) <= LARGEST]
    for container, codec, rate in MORE:
        planes = corpus.channels(corpus.tone(0.5, rate))
        made.append(corpus.encode(container, codec, planes, rate))
    return made


class Bait:
    """What no decoder may touch: a file beside the recording, and an address of this machine."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "neighbour.wav"
        self._file.write_bytes(corpus.wav(corpus.pcm(corpus.channels(corpus.tone(1, 8000))), 8000))
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._watch = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._libc.inotify_add_watch(self._watch, os.fsencode(self._file), 0x20)  # IN_OPEN
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]

    def taken(self) -> str:
        """What was touched since the last look, or nothing."""
        try:
            os.read(self._watch, 4096)
        except BlockingIOError:
            pass
        else:
            return "opened another file"
        try:
            self._listener.accept()[0].close()
        except BlockingIOError:
            return ""
        return "called an address"

    def pointing_at_it(self) -> list[bytes]:
        """Files that name it."""
        url = f"http://127.0.0.1:{self.port}/x.ts"
        names = (str(self._file), "neighbour.wav", f"file:{self._file}", url)
        made = [corpus.hls(*names), corpus.concat(*names), corpus.sdp(self.port)]
        made += [corpus.dash(name) for name in names]
        return [*made, corpus.external_reference("neighbour.wav")]

    def close(self) -> None:
        os.close(self._watch)
        self._listener.close()


@contextmanager
def source(folder: Path) -> Iterator[tuple[Service, httpx.Client]]:
    """The process `media` and a client that has its secret."""
    service = Service(folder)
    (service.data / "pocketbase" / "storage").mkdir(parents=True)
    try:
        service.start("media")
        settings = load(telegram_enabled=False, data_dir=service.data)
        headers = {"Authorization": f"Bearer {secrets.media_secret(settings)}"}
        address = f"http://127.0.0.1:{service.ports['MEDIA']}"
        with httpx.Client(base_url=address, headers=headers, timeout=60, trust_env=False) as client:
            yield service, client
    finally:
        service.close()


def fuzz(run: Run) -> None:
    """Send each case both ways."""
    material = files()
    storage = run.folder / "data" / "pocketbase" / "storage"
    with source(run.folder) as (service, client):
        bait = Bait(storage)
        try:
            material += bait.pointing_at_it()
            for number, rng in run.each():
                _case(run, number, rng, mutate.media(rng, material), client, storage, bait)
            _requests(run, client)
            _afterwards(run, service)
        finally:
            bait.close()


def _case(
    run: Run, number: int, rng: Random, data: bytes, client: httpx.Client, storage: Path, bait: Bait
) -> None:
    name = f"private-{chance.token_hex(8)}"
    path, target = storage / name, storage / f"{name}.flac"
    path.write_bytes(data)
    given = f"{len(data)} bytes, {data[:80].hex()}"
    try:
        _probe(run, number, client, name, given)
        _normalise(run, number, path, target, apart=rng.random() < 0.3, given=given)
        if touched := bait.taken():
            run.found(number, touched, given)
        left = {each.name for each in storage.iterdir()} - {name, target.name, "neighbour.wav"}
        if left:
            run.found(number, f"left behind: {len(left)} files", given)
    finally:
        path.unlink(missing_ok=True)
        target.unlink(missing_ok=True)


def _probe(run: Run, number: int, client: httpx.Client, name: str, given: str) -> None:
    began = time.monotonic()
    try:
        answer = client.post("/probe", json={"path": name})
        body: Any = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        run.found(number, f"the metadata source gave no answer: {type(error).__name__}", given)
        return
    spent = time.monotonic() - began
    run.measured("probe, s", spent)
    run.seen[f"probe {answer.status_code}"] += 1
    if spent > PROBE_SECONDS:
        run.found(number, f"a look took {spent:.1f} s", given)
    if answer.status_code == 200:
        if set(body) != {"duration", "has_audio"} or not isinstance(body["has_audio"], bool):
            run.found(number, f"an answer of another form: {body}", given)
        elif not (isinstance(body["duration"], int | float) and 0 <= body["duration"] < math.inf):
            run.found(number, f"a duration that is none: {body['duration']}", given)
    elif answer.status_code in {422, 503}:
        if set(body) != {"error"} or name in str(body):
            run.found(number, f"an answer of another form: {body}", given)
        if answer.status_code == 503:
            _died(run, number, "probe", str(body.get("error")), given)
    else:
        run.found(number, f"answered {answer.status_code} {body}", given)


def _died(run: Run, number: int, where: str, reason: str, given: str) -> None:
    """A crash of the decoder is contained; an error of ours, or a hang, is a finding."""
    run.seen[f"{where}: {reason}"] += 1
    if "unexpected" in reason or "longer than" in reason or "could not be started" in reason:
        run.found(number, f"{where}: {reason}", given)


def _normalise(run: Run, number: int, path: Path, target: Path, *, apart: bool, given: str) -> None:
    began = time.monotonic()
    try:
        told, peak = sandbox.run(
            attempted, normalise, path, target, LONGEST, apart, timeout=NORMALISE_SECONDS
        )
    except DecoderDied as error:
        _died(run, number, "normalise", error.reason, given)
        return
    except (MediaError, OSError) as error:
        run.found(number, f"normalise: {type(error).__name__} {error}", given)
        return
    run.measured("normalise, s", time.monotonic() - began)
    run.measured("decoder, MB", peak / 2**20)
    if peak > MEMORY:
        run.found(number, f"the decoder took {peak >> 20} MB", given)
    if path.name in told or str(path.parent) in told:
        run.found(number, f"names the file: {told}", given)
    if told:
        run.seen["normalise refused"] += 1
        if target.exists():
            run.found(number, f"a file in spite of {told}", given)
        return
    run.seen["normalised"] += 1
    if problem := _unlike_flac(target):
        run.found(number, f"what came out is {problem}", given)


def _unlike_flac(path: Path) -> str:
    """What is wrong with a normalised file, or nothing."""
    with av.open(str(path)) as container:
        context = container.streams.audio[0].codec_context
        if (context.name, context.sample_rate) != ("flac", RATE):
            return f"{context.name} of {context.sample_rate} Hz"
        samples = sum(frame.samples for frame in container.decode(audio=0))
    if not 0 < samples <= RATE * LONGEST:
        return f"{samples} samples long"
    return ""


PATHS = (
    "neighbour.wav/", "../neighbour.wav", "/etc/passwd", "neighbour.wav\0", "\ud800", "x" * 9000,
    ".", "", "./neighbour.wav", "neighbour.wav/../../..", "//neighbour.wav", "~", "CON", "%2e%2e",
)  # fmt: skip


def _requests(run: Run, client: httpx.Client) -> None:
    """What is asked of the metadata source, mutated: a fifth as many as files."""
    for number in range(max(10, run.made // 5)):
        rng = Random(f"{run.target}/{run.seed}/request/{number}")
        body = mutate.json_value(rng, {"path": rng.choice(PATHS)}, rng.choice([1, 2]))
        given = repr(body)[:200]
        try:
            data = mutate.dumped(body)
        except RecursionError:
            continue
        if rng.random() < 0.3:
            data = mutate.bytes_of(rng, data)
        method = rng.choice(["POST"] * 6 + ["GET", "PUT", "BREW", "HEAD"])
        path = rng.choice(["/probe"] * 5 + ["/", "//probe", "/probe?x=%zz", "/../probe"])
        began = time.monotonic()
        try:
            answer = client.request(method, path, content=data)
        except httpx.HTTPError as error:
            run.found(-1, f"no answer to a request: {type(error).__name__}", given)
            continue
        run.measured("request, s", time.monotonic() - began)
        run.seen[f"request {answer.status_code}"] += 1
        if answer.status_code not in {200, 400, 404, 422, 501}:
            run.found(-1, f"a request was answered {answer.status_code}", given)


def _afterwards(run: Run, service: Service) -> None:
    """The source lives, and has said nothing that is not its to say."""
    printed = service.printed("media")
    if "private-" in printed or "Traceback" in printed or str(run.folder) in printed:
        run.found(-1, "a log line names a file, or is a traceback", printed[-400:])
    process = service.processes["media"]
    if process.poll() is not None:
        run.found(-1, f"the metadata source ended with {process.poll()}")
        return
    peaks = list(_peaks(process.pid))
    run.measured("a looking process, MB", max(peaks, default=0.0))
    if max(peaks, default=0.0) > MEMORY / 2**20:
        run.found(-1, f"a looking process took {max(peaks):.0f} MB")
    if len(peaks) > 8:
        run.found(-1, f"{len(peaks)} processes are left below the metadata source")


def _peaks(pid: int) -> Iterator[float]:
    """The peak of resident memory of each process below this one, in MB."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        status = Path(f"/proc/{child}/status")
        if status.exists():
            for line in status.read_text().splitlines():
                if line.startswith("VmHWM"):
                    yield int(line.split()[1]) / 1024
            yield from _peaks(int(child))
