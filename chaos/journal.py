"""What the outside saw, one JSON object a line, each on disk before anything goes on."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any


class Journal:
    """Used by all threads."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._secrets: set[str] = set()

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return round(time.monotonic() - self._start, 3)

    def write(self, event: str, **fields: Any) -> None:
        line = json.dumps({"t": self.now, "event": event, **fields}, ensure_ascii=False)
        with self._lock:
            if not self._file.closed:
                self._file.write(line + "\n")
                self._file.flush()

    def secret(self, kind: str, value: str) -> None:
        """Note what no log may show; once."""
        if value not in self._secrets:
            self._secrets.add(value)
            self.write("secret", kind=kind, value=value)

    def close(self) -> None:
        with self._lock:
            self._file.close()
