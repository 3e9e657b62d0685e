"""Senders of files: processes with a kept connection each, too lean to be what is measured."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

from benchmarks.processes import crew, serve, working

HEAD = (
    "--bench\r\n"
    'Content-Disposition: form-data; name="audio"; filename="{name}"\r\n'
    "Content-Type: audio/wav\r\n\r\n"
)
TAIL = b"\r\n--bench--\r\n"
PIECE = 1 << 20


class Sender:
    """One connection over which the same file is sent again and again."""

    def __init__(self, address: str, path: str, token: str, file: str) -> None:
        self._line = HTTPConnection(address, timeout=600)
        self._line.connect()
        self._path = path
        self._file = Path(file)
        self._head = HEAD.format(name=self._file.name).encode()
        size = self._file.stat().st_size
        self._headers = {
            "Authorization": token,
            "Content-Type": "multipart/form-data; boundary=bench",
            "Content-Length": str(len(self._head) + size + len(TAIL)),
        }
        self._small = self._file.read_bytes() if size < PIECE else None

    def send(self) -> int:
        """One upload, which must be accepted."""
        body = self._pieces() if self._small is None else self._head + self._small + TAIL
        self._line.request("POST", self._path, body=body, headers=self._headers)
        answer = self._line.getresponse()
        text = answer.read()
        assert answer.status in {200, 201}, (answer.status, text)
        return 1

    def _pieces(self) -> Iterator[bytes]:
        yield self._head
        with self._file.open("rb") as file:
            while piece := file.read(PIECE):
                yield piece
        yield TAIL


def main(address: str, path: str, token: str) -> None:
    """Serve until nobody asks any more."""

    def many(file: str, senders: int, seconds: float) -> dict[str, float]:
        def member(gate: Callable[[], object], seconds: float) -> tuple[int, float]:
            sender = Sender(address, path, token, file)
            gate()
            return working(seconds, sender.send)

        return crew(senders, seconds, member)

    def one(file: str) -> float:
        sender = Sender(address, path, token, file)
        started = time.monotonic()
        sender.send()
        return time.monotonic() - started

    serve(many=many, one=one)


if __name__ == "__main__":
    main(*sys.argv[1:])
