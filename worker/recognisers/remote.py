"""Calls to a recogniser on somebody else's machine: patient, interruptible, and discreet.

What such a server says in words may repeat a key, a vocabulary or the recording itself, so no word
of it goes any further: only statuses and machine codes do.
"""

from __future__ import annotations

import queue
import re
import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from time import monotonic
from typing import Any, Final, TypeVar

import httpx

from worker.errors import Cancelled, RecogniserRefused, RecogniserUnavailable

T = TypeVar("T")

CONNECT: Final = 15.0
"""Seconds for a connection."""
STALL: Final = 60.0
"""Seconds for one write, or for one read where the answer is not long in coming."""
LONGEST_PAUSE: Final = 24 * 3600.0
"""Seconds that a server is believed when it asks for a pause."""
REFUSALS: Final = frozenset({400, 413, 415, 422})
"""What says something about this very recording."""
LARGEST: Final = 32 << 20
"""Bytes of an answer, unpacked, that are read: some three times four hours with a time a word."""
WHOLE: Final = 120.0
"""Seconds that an answer may take to come in, once it has begun."""
MALFORMED: Final = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
)
"""What reading an answer raises that is something else than it should be."""


class Endless(Exception):
    """An answer larger than any that makes sense."""


class Bounded(httpx.Client):
    """Reads an answer whole, as far as that has an end."""

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """As httpx does it, for answers that are not streamed.

        Raises:
            Endless: there is more than `LARGEST`.
            httpx.ReadTimeout: it began, and was not there within `WHOLE`.
        """
        response = super().send(request, **{**options, "stream": True})
        try:
            data = bytearray()
            deadline = monotonic() + WHOLE
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > LARGEST:
                    raise Endless
                if monotonic() > deadline:
                    raise httpx.ReadTimeout("trickles", request=request)
        finally:
            response.close()
        told = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name not in {"content-encoding", "content-length", "transfer-encoding"}
        ]
        return httpx.Response(
            response.status_code, headers=told, content=bytes(data), request=request
        )


class Remote:
    """One server. Used by all threads of a process."""

    def __init__(self, name: str, key_setting: str, stop: threading.Event) -> None:
        """`key_setting`: the setting to name when the key is not accepted."""
        self.name = name
        self._key_setting = key_setting
        self._stop = stop
        # A proxy for the outside world is honoured here, unlike in the calls to PocketBase.
        self._http = Bounded(limits=httpx.Limits(max_connections=64, max_keepalive_connections=16))

    def close(self) -> None:
        """Close the connections. No call may follow."""
        self._http.close()

    def send(self, request: Callable[[httpx.Client], httpx.Response]) -> httpx.Response:
        """Make one call, its answer read whole, whatever its status.

        Raises:
            RecogniserUnavailable: there was no answer.
            Cancelled: the process is stopping.
        """
        try:
            return self._unless_stopped(lambda: request(self._http))
        # Not `from` the error: one about a header shows the header.
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise self.unavailable(
                f"not reachable ({type(error).__name__})", blameless=True
            ) from None
        except httpx.TimeoutException:
            raise self.unavailable("no answer in time") from None
        except Endless:
            raise self.unavailable("the answer has no end") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self.unavailable(f"broken off ({type(error).__name__})") from None

    def judge(self, response: httpx.Response) -> None:
        """Raise what the status says, unless that is success.

        Raises:
            RecogniserRefused: this recording will never be taken.
            RecogniserUnavailable: something else is the matter.
        """
        status = response.status_code
        if status == httpx.codes.OK:
            return
        code, parameter = _codes(response)
        told = f"answered {status} {code}".rstrip()
        if status in REFUSALS and parameter != "model" and "model_not_found" not in code:
            raise RecogniserRefused(self.name, told)
        if status == httpx.codes.TOO_MANY_REQUESTS:
            raise self.unavailable(f"{told}: no quota", pause=_asked(response), blameless=True)
        if status in {401, 402, 403}:
            raise self.unavailable(f"{told}: look at {self._key_setting}", blameless=True)
        if status < 500 and status not in {408, 409, 425}:
            raise self.unavailable(f"{told}: look at its address and model", blameless=True)
        raise self.unavailable(told, pause=_asked(response))

    def unavailable(
        self, reason: str, *, pause: float = 0.0, blameless: bool = False
    ) -> RecogniserUnavailable:
        """The error that says so."""
        return RecogniserUnavailable(self.name, reason, pause=pause, blameless=blameless)

    def rest(self, seconds: float) -> None:
        """Wait, unless the process is stopping.

        Raises:
            Cancelled: it is.
        """
        if self._stop.wait(seconds):
            raise Cancelled

    def _unless_stopped(self, call: Callable[[], T]) -> T:
        """Wait for the call no longer than for the stop; left alone, it dies with the process."""
        if self._stop.is_set():
            raise Cancelled
        ended: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

        def run() -> None:
            try:
                ended.put((call(), None))
            except BaseException as error:  # noqa: BLE001 - raised where the call is waited for
                ended.put((None, error))

        threading.Thread(target=run, name=f"call-{self.name}", daemon=True).start()
        while True:
            try:
                result, error = ended.get(timeout=0.1)
            except queue.Empty:
                if self._stop.is_set():
                    raise Cancelled from None
                continue
            if error is not None:
                raise error
            return result  # type: ignore[return-value] # None is a T where T admits it


class Pace:
    """At most so many calls in so many seconds."""

    def __init__(self, calls: int, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._calls = calls
        self._seconds = seconds
        self._clock = clock
        self._made: deque[float] = deque()
        self._lock = threading.Lock()

    def take(self) -> float:
        """Take a place and return 0, or the seconds until there is one."""
        with self._lock:
            now = self._clock()
            while self._made and now - self._made[0] >= self._seconds:
                self._made.popleft()
            if len(self._made) >= self._calls:
                return max(self._seconds - (now - self._made[0]), 0.001)
            self._made.append(now)
            return 0.0


def timeout(answer: float = STALL) -> httpx.Timeout:
    """Limits of a call whose answer takes up to `answer` seconds to begin."""
    return httpx.Timeout(STALL, connect=CONNECT, read=answer)


def _asked(response: httpx.Response) -> float:
    """The pause that the server asks for, in seconds."""
    value = response.headers.get("Retry-After", "").strip()
    if value.replace(".", "", 1).isdecimal():
        seconds = float(value)
    else:
        try:
            # By the server's own clock, where it tells it: one that is wrong is wrong in both.
            now = response.headers.get("Date") or format_datetime(datetime.now(UTC))
            seconds = (parsedate_to_datetime(value) - parsedate_to_datetime(now)).total_seconds()
        except MALFORMED:
            return 0.0
    return min(max(seconds, 0.0), LONGEST_PAUSE)


def _codes(response: httpx.Response) -> tuple[str, str]:
    """The machine code and the parameter that an error names; empty where it is no such word."""
    try:
        body: Any = response.json()
    except MALFORMED:
        return "", ""
    error = body.get("error", body) if isinstance(body, dict) else {}
    if not isinstance(error, dict):
        return "", ""
    code, parameter = error.get("code") or error.get("type"), error.get("param")
    return _word(code), _word(parameter)


def _word(value: object) -> str:
    text = str(value) if isinstance(value, str | int) else ""
    return text if re.fullmatch(r"[A-Za-z0-9_.]{1,40}", text) else ""
