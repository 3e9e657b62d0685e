"""On the disk, and not only in the system's memory: what a power cut does not take back."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def keep(file: Path, root: Path) -> None:
    """Write a stored file, its folders and the database's latest transactions through to the disk.

    PocketBase has SQLite write its log through only now and then (`synchronous = NORMAL`): after a
    power cut the database is sound, but the last half minute may be missing, and Go's store does
    not write files through at all.

    Args:
        file: below `root`.
        root: the storage folder, which lies beside PocketBase's database.

    Raises:
        OSError: the disk does not take it, or there is no such file.
    """
    folders = [folder for folder in file.parents if folder.is_relative_to(root.resolve())]
    with suppress(FileNotFoundError):  # everything is in the database itself
        _through(root.parent / "data.db-wal")
    for path in (file, *folders, root.parent):
        _through(path)


def _through(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
