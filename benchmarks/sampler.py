"""The most that a figure came to while something ran."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Sampler:
    """Asks for the figure fifty times a second."""

    def __init__(self, figure: Callable[[], int]) -> None:
        self._figure = figure
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.most = 0

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.02):
            self.most = max(self.most, self._figure())
