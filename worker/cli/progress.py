"""A progress bar on standard error, for terminals only."""

from __future__ import annotations

import sys
from typing import Self

WIDTH = 30


class Bar:
    """`label [#####-----]  50 %`, drawn over itself; nothing at all where nobody watches."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._shown = ""
        self._watched = sys.stderr.isatty()

    def show(self, fraction: float | None, what: str) -> None:
        """`fraction` is 0 to 1, or None while it is not known."""
        if not self._watched:
            return
        text = f"{self._label}  {what}"
        if fraction is not None:
            done = min(max(fraction, 0.0), 1.0)
            full = round(done * WIDTH)
            text += f" [{'#' * full}{'-' * (WIDTH - full)}] {done:4.0%}"
        if text != self._shown:
            self._shown = text
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the line clean for what is printed next."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = ""
