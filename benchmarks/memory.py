"""Peak memory: a large upload, and a long recording against a short one."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks import speech
from benchmarks.processes import private
from benchmarks.table import Row
from tests.acceptance.service import ALL, Service, User

UPLOAD = 1 << 30
SHORT, LONG = 600, 3 * 3600


class Watch:
    """Samples the memory of every process of a service, children under their ancestor's name."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.peak: dict[str, int] = defaultdict(int)
        """Bytes of the largest single process of each of the Procfile's."""

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.02):
            for name, pid in self._pids():
                self.peak[name] = max(self.peak[name], private(pid))

    def _pids(self) -> Iterator[tuple[str, int]]:
        leaders = {process.pid: name for name, process in self._service.processes.items()}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    session = os.getsid(int(entry.name))
                except ProcessLookupError:
                    continue
                if session in leaders:
                    yield leaders[session], int(entry.name)


def rows() -> list[Row]:
    """The memory's part of the table."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder), MAX_UPLOAD_MB="2048")
        try:
            service.start(*ALL)
            user = service.user()
            two_minutes = speech.make(Path(folder) / "usual.wav", 120)
            user.wait(user.upload(two_minutes))  # what all need, loaded
            with Watch(service) as usual:
                user.wait(user.upload(two_minutes))
            rise = upload(service, user, Path(folder), usual.peak)
            return [rise, *length(service, user, Path(folder))]
        finally:
            service.close()


def upload(service: Service, user: User, folder: Path, usual: dict[str, int]) -> Row:
    """One gigabyte of WAV, most of it silence, so that the engine has little to do.

    Args:
        usual: the peaks of a recording of two minutes.
    """
    path = speech.make(folder / "large.wav", 20)
    grow(path, UPLOAD)
    with Watch(service) as busy:
        started = time.monotonic()
        job = user.upload(path)
        took = time.monotonic() - started
        user.wait(job, 3600)
    rise = {name: (busy.peak[name] - usual[name]) >> 20 for name in busy.peak}
    return Row(
        "upload of 1 GB: peak memory above that of two minutes of speech",
        ", ".join(f"{name} {rise[name]} MB" for name in ALL),
        "aims: pb 128, workers 32 MB each",
        f"upload at {UPLOAD / took / 1e6:.0f} MB/s",
    )


def grow(path: Path, size: int) -> None:
    """Make a WAV file so large, with silence, and its header right."""
    with path.open("r+b") as file:
        file.truncate(size)
        file.seek(4)
        file.write((size - 8).to_bytes(4, "little"))
        file.seek(40)
        file.write((size - 44).to_bytes(4, "little"))


def length(service: Service, user: User, folder: Path) -> list[Row]:
    """The same speech for ten minutes and for three hours (mostly silence after the first)."""
    peaks = {}
    for seconds in (SHORT, LONG):
        path = speech.make(folder / f"{seconds}.wav", SHORT)
        grow(path, 44 + seconds * 2 * speech.RATE)
        with Watch(service) as watch:
            user.wait(user.upload(path), 3600)
        peaks[seconds] = dict(watch.peak)
    return [
        Row(
            "recording of 3 h against 10 min: peak memory",
            ", ".join(
                f"{n} {peaks[LONG][n] >> 20} MB ({peaks[LONG][n] / peaks[SHORT][n]:.2f})"
                for n in ALL
            ),
            "aim: 1.10",
        )
    ]
