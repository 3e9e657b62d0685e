"""Wake-ups over PocketBase's realtime channel. They are hints: polling is the truth.

Protocol: server-sent events from `GET /api/realtime`; the first, `PB_CONNECT`, carries a client id
with which `POST /api/realtime` subscribes. PocketBase ends a connection after 5 idle minutes and
after 30 in any case.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from loguru import logger

from worker.errors import ConfigurationError, PocketBaseError, describe
from worker.pocketbase.client import Client

TOPIC: Final = "transcriber/wake"
_IDLE = 360.0
"""Longer than PocketBase lets a connection idle, so that it is the one to end it."""


class Wakeups:
    """Listens in a thread of its own and wakes whoever waits for a state."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._events: dict[str, list[threading.Event]] = defaultdict(list)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wakeups", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Wake everybody for good. The listening thread ends with the process."""
        self._stop.set()
        self._wake_all()

    def listen(self, state: str) -> Listener:
        """A listener of one state's wake-ups, for one thread."""
        event = threading.Event()
        self._events[state].append(event)
        return Listener(event, self._stop)

    def wake(self, states: Iterable[str]) -> None:
        """Wake whoever waits for one of these."""
        for state in states:
            for event in self._events.get(state, ()):
                event.set()

    def _run(self) -> None:
        pause = 1.0
        while not self._stop.is_set():
            try:
                for states in self._connection():
                    pause = 1.0
                    self.wake(states)
            except (PocketBaseError, ConfigurationError) as error:  # others say it
                logger.debug("wake-ups interrupted", reason=describe(error))
            except Exception as error:  # noqa: BLE001 - a hint that fails must not end the process
                logger.warning("wake-ups failed", reason=describe(error))
            self._stop.wait(pause)
            pause = min(pause * 2, 30.0)

    def _connection(self) -> Iterator[list[str]]:
        """The states named by each message of one connection."""
        with self._client.stream("/api/realtime", _IDLE) as response:
            name = ""
            for line in response.iter_lines():
                field, _, value = line.partition(":")
                if field == "event":
                    name = value.strip()
                elif field == "data" and name == "PB_CONNECT":
                    self._subscribe(json.loads(value)["clientId"])
                    self._wake_all()  # what was sent while nobody listened is lost
                    yield []
                elif field == "data" and name == TOPIC:
                    yield json.loads(value)["states"]

    def _subscribe(self, client_id: str) -> None:
        self._client.request(
            "POST", "/api/realtime", json={"clientId": client_id, "subscriptions": [TOPIC]}
        )

    def _wake_all(self) -> None:
        self.wake(list(self._events))


class Listener:
    """Waits for one state's wake-up."""

    def __init__(self, event: threading.Event, stop: threading.Event) -> None:
        self._event = event
        self._stop = stop

    def wait(self, timeout: float) -> None:
        """Return when woken since the last wait, at a stop, or after `timeout` seconds."""
        if not self._stop.is_set():
            self._event.wait(timeout)
        self._event.clear()
