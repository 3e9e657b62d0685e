"""A loopback proxy before PocketBase, with faults to switch on: what networks do, on demand."""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from contextlib import suppress
from typing import Self

REQUEST = re.compile(rb"(?m)^(?:GET|POST|PATCH|PUT|DELETE) (\S+) HTTP/1\.1\r$")


class Proxy:
    """Forwards TCP, and looks at the request lines that pass."""

    def __init__(self, target: int, *, remember: bool = True) -> None:
        """`remember`: keep what clients sent, which is too much in a long run."""
        self._target = target
        self._remember = remember
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.requests: Counter[str] = Counter()
        """How often each path was asked for."""
        self.sent = bytearray()
        """Everything that clients sent."""
        self._drops: Counter[str] = Counter()
        self._swallowed: set[str] = set()
        self._open = True
        self._pairs: set[_Pair] = set()
        self._lock = threading.Lock()
        self._change = threading.Condition(self._lock)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    # Faults

    def drop_answers(self, path: str, times: int = 1) -> None:
        """Forward the next requests whose path begins so, and lose what is answered to them."""
        with self._change:
            self._drops[path] = times

    @property
    def drops_left(self) -> int:
        with self._lock:
            return self._drops.total()

    def swallow(self, path: str = "/") -> None:
        """From now on nothing that answers such a request arrives; the connection stays open."""
        with self._change:
            self._swallowed.add(path)

    def cut(self) -> None:
        """Break every connection and let nobody in."""
        with self._change:
            self._open = False
            pairs = list(self._pairs)
            self._change.notify_all()
        for pair in pairs:
            pair.close()

    def heal(self) -> None:
        """No faults from now on. What was swallowed arrives."""
        with self._change:
            self._open = True
            self._drops.clear()
            self._swallowed.clear()
            self._change.notify_all()

    # Traffic

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._open:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            pair = _Pair(client, server)
            with self._lock:
                self._pairs.add(pair)
            for pump in (self._requests, self._answers):
                threading.Thread(target=self._run, args=(pump, pair), daemon=True).start()

    def _run(self, pump, pair: _Pair) -> None:
        with suppress(OSError):
            pump(pair)
        pair.close()
        with self._lock:
            self._pairs.discard(pair)

    def _requests(self, pair: _Pair) -> None:
        while chunk := pair.client.recv(1 << 16):
            for match in REQUEST.finditer(chunk):
                path = match.group(1).decode().partition("?")[0]
                with self._lock:
                    self.requests[path] += 1
                    pair.path = path
            if self._remember:
                with self._lock:
                    self.sent += chunk[:100_000]
            pair.server.sendall(chunk)

    def _answers(self, pair: _Pair) -> None:
        while chunk := pair.server.recv(1 << 16):
            if self._lost(pair):
                return
            pair.client.sendall(chunk)

    def _lost(self, pair: _Pair) -> bool:
        """Wait while this answer is swallowed; whether it is to be lost."""
        with self._change:
            for path, left in self._drops.items():
                if left and pair.path.startswith(path):
                    self._drops[path] -= 1
                    return True
            while not pair.closed and any(map(pair.path.startswith, self._swallowed)):
                self._change.wait()
            return pair.closed


class _Pair:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.path = ""
        self.closed = False

    def close(self) -> None:
        self.closed = True
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
