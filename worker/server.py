"""An HTTP server of threads in which those who only connect keep out nobody who asks.

A connection begins as a stranger and has a few seconds to show what it must: a secret, or a whole
request. Where all places of strangers are taken, a newcomer gets the oldest one's. Whoever has
shown it is a guest, for as long as the connection lasts, and guests have places of their own.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from loguru import logger


class Server(ThreadingHTTPServer):
    """At most `places` strangers and as many guests, each served by a thread of its own."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # five, the library's, overflow while one thread is started

    def __init__(
        self, address: str, handler: type[BaseHTTPRequestHandler], places: int, patience: float
    ) -> None:
        """Listen on `address`, HOST:PORT. `patience`: seconds that a stranger has.

        Raises:
            OSError: the address cannot be listened on.
        """
        host, _, port = address.rpartition(":")
        if host.startswith("["):
            self.address_family = socket.AF_INET6
        self._places = places
        self._patience = patience
        self._strangers: dict[socket.socket, float] = {}
        """Each with the time at which its patience ends: the oldest first."""
        self._guests: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__((host.strip("[]"), int(port)), handler)

    def admit(self, connection: socket.socket) -> bool:
        """Make a stranger a guest. False: there is no place, or it has been hung up on already."""
        with self._lock:
            if connection in self._guests:
                return True
            if connection not in self._strangers or len(self._guests) >= self._places:
                return False
            del self._strangers[connection]
            self._guests.add(connection)
            return True

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override] # sockets of TCP alone come here
        with self._lock:
            if len(self._strangers) >= self._places:
                self._drop(next(iter(self._strangers)))
            self._strangers[request] = time.monotonic() + self._patience
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Called between connections, and twice a second when there are none."""
        with self._lock:
            while self._strangers:
                oldest, end = next(iter(self._strangers.items()))
                if end > time.monotonic():
                    return
                self._drop(oldest)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override] # sockets of TCP alone come here
        with self._lock:  # before it is closed: its number may be another connection's at once
            self._strangers.pop(request, None)
            self._guests.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            for each in (*self._strangers, *self._guests):
                _hang_up(each)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the library's form
        """A connection that broke is nobody's concern. What was asked stays out of the log."""
        error = sys.exception()
        if error is None or isinstance(error, OSError):
            return
        at = traceback.extract_tb(error.__traceback__)[-1]
        logger.error("{} at {}:{}", type(error).__name__, Path(at.filename).name, at.lineno)

    def _drop(self, stranger: socket.socket) -> None:
        del self._strangers[stranger]
        _hang_up(stranger)


def _hang_up(connection: socket.socket) -> None:
    """Wake the thread that reads from it, which then ends."""
    with suppress(OSError):  # the other side was first
        connection.shutdown(socket.SHUT_RDWR)
