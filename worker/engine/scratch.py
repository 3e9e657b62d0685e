"""Decoded recordings on disk: one file for each in work, and a few that will come back soon."""

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


class Scratch:
    """A folder of `<recording>.pcm`. What a previous process left there is removed."""

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
                    self._path(self._idle.pop(0)).unlink(missing_ok=True)

    def drop(self, recording: str) -> None:
        """The recording will not come back; who still reads its samples may go on."""
        with self._lock:
            if recording in self._idle:
                self._idle.remove(recording)
            self._path(recording).unlink(missing_ok=True)

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """A file to fill. It is gone afterwards, unless it was renamed."""
        path = self._folder / f"{uuid.uuid4().hex}.part"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _path(self, recording: str) -> Path:
        return self._folder / f"{recording}.pcm"
