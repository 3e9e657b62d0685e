"""Decoded recordings on disk: those in work, and a few that will come back soon."""

from __future__ import annotations

import shutil
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

KEPT: Final = 3
"""Recordings that are kept while others have their turn."""


def second(samples: Path) -> Path:
    """Where the second channel's samples are, beside the first one's, where there are two."""
    return samples.with_name(f"{samples.name}.2")


class Scratch:
    """A folder of `<recording>.*`. What a previous process left there is removed."""

    def __init__(self, folder: Path, kept: int = KEPT) -> None:
        self._folder = folder
        self._kept = kept
        self._lock = threading.Lock()
        self._users: Counter[str] = Counter()
        self._idle: list[str] = []  # most recently used last
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def hold(self, recording: str) -> Iterator[Path]:
        """Where the recording's samples are, or are to be put (whole, by a rename)."""
        with self._lock:
            self._users[recording] += 1
            if recording in self._idle:
                self._idle.remove(recording)
        try:
            yield self._path(recording)
        finally:
            with self._lock:
                self._users[recording] -= 1
                if not self._users[recording]:
                    del self._users[recording]
                    self._idle.append(recording)
                while len(self._idle) > self._kept:
                    self._remove(self._idle.pop(0))

    def drop(self, recording: str) -> None:
        """The recording will not come back; who still reads its samples may go on."""
        with self._lock:
            if recording in self._idle:
                self._idle.remove(recording)
            self._remove(recording)

    def draft(self, recording: str) -> Path:
        """A new file to fill, kept for as long as the recording's others."""
        return self._folder / f"{recording}.{uuid.uuid4().hex}"

    def _remove(self, recording: str) -> None:
        for path in self._folder.glob(f"{recording}.*"):
            path.unlink(missing_ok=True)

    def _path(self, recording: str) -> Path:
        return self._folder / f"{recording}.pcm"
