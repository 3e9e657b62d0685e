"""The counters of the Python processes, by the names of the design.

Processes share them through files (prometheus-client's multiprocess mode), so that the `media`
process can show one page for all. Import this module only after `share(folder)`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

STEPS: Final = ("normalise", "submit", "check", "finish")
OUTCOMES: Final = ("ok", "waiting", "retry", "failed", "dead", "lost")
UNDELIVERED: Final = ("input_down", "no_addressee")
EXTENSIONS: Final = (
    "mp3", "wav", "ogg", "oga", "opus", "flac", "m4a", "aac", "wma", "mp4", "mkv", "mov", "avi",
    "webm", "audio",
)  # fmt: skip
OTHER: Final = "other"


def extension_label(extension: str) -> str:
    """The extension as a metric may show it: one of the closed list, or `other`."""
    lowered = extension.lower().lstrip(".")
    return lowered if lowered in EXTENSIONS else OTHER


def share(folder: Path) -> None:
    """Keep this process's counters in `folder`. Call before anything imports prometheus_client."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
