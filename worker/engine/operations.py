"""The engine's view of PocketBase: operations, claimed by lease and written unit by unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from worker.errors import LeaseLost
from worker.pocketbase.client import held, reading

LEASE: Final = 60.0
"""Seconds of a lease; it is renewed every third of that."""

Outcome = Literal["done", "failed", "released", "lost"]
"""`lost`: its audio is not there any more and has to be made again."""
Unit = tuple[float, ...]
"""Start and end of a unit of speech, in seconds, and its channel where each is read apart."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A claimed operation: a snapshot of its row at the moment of the claim."""

    id: str
    recording: str
    lease_token: str
    attempts: int
    """Claims since something of it was last written, this one included."""
    crashes: int
    """How many of them ended with the death of the engine's whole process."""
    language: str
    """The sender's hint, or empty."""
    vocabulary: str
    """Names and terms to expect, or empty."""
    units: tuple[Unit, ...] | None
    """Where the recording is cut; None: not yet."""
    done: frozenset[int]
    """Indexes of the units written already."""
    detected: str
    """The language found when it was cut, or empty."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Operation:
        """Build the operation from a row of a claim's answer."""
        units = row["units"]
        return cls(
            id=row["id"],
            recording=row["recording"],
            lease_token=row["lease_token"],
            attempts=row["attempts"],
            crashes=row["crashes"],
            language=row["language"],
            vocabulary=row["vocabulary"],
            units=None if units is None else tuple(map(tuple, units)),
            done=frozenset(row["done"]),
            detected=row["detected"],
        )


class AudioMissing(Exception):
    """The operation is ours, but there is no audio to work on."""


class Operations(Protocol):
    """What an engine needs of PocketBase.

    Every method may raise `PocketBaseUnavailable` or `PocketBaseRefused`; those that take an
    operation raise `LeaseLost` when it was given to somebody else, or is gone.
    """

    def restart(self) -> int:
        """Give back what the previous process of this name held; how many that were."""
        ...

    def claim(self) -> Operation | None:
        """The operation whose turn it is, or None."""
        ...

    def renew(self, operation: Operation) -> bool:
        """Keep the lease. True: another operation's turn has come."""
        ...

    def audio(self, operation: Operation, destination: Path) -> None:
        """Fetch the normalised recording. Raises `AudioMissing` where there is none."""
        ...

    def cut(self, operation: Operation, units: Sequence[Unit], language: str) -> None:
        """Store where the recording is cut, and its language."""
        ...

    def write(self, operation: Operation, unit: int, segments: Sequence[Any]) -> bool:
        """Store what is said in a unit. True: another operation's turn has come."""
        ...

    def finish(
        self,
        operation: Operation,
        outcome: Outcome,
        *,
        engine: str = "",
        language: str = "",
        error_text: str = "",
    ) -> None:
        """End the claim."""
        ...


class Client(Protocol):
    """The part of `worker.pocketbase.client.Client` that is used here."""

    def request(
        self, method: str, path: str, *, json: Any = None, timeout: float | None = None
    ) -> dict[str, Any]:
        """Send JSON, return the answer's JSON object."""
        ...

    def download(self, path: str, destination: Path) -> int:
        """Stream a file to disk; its size in bytes."""
        ...


class HttpOperations:
    """Speaks to `pb/pb_hooks/operations.pb.js`. Used by all threads of a process."""

    def __init__(self, client: Client, worker: str) -> None:
        self._client = client
        self._worker = worker

    def restart(self) -> int:
        """See `Operations`."""
        answer = self._post("restart", worker=self._worker)
        with reading("give back"):
            return int(answer["returned"])

    def claim(self) -> Operation | None:
        """See `Operations`."""
        answer = self._post("claim", worker=self._worker, lease_seconds=LEASE)
        with reading("claim operation"):
            rows = answer["operations"]
            return Operation.from_row(rows[0]) if rows else None

    def renew(self, operation: Operation) -> bool:
        """See `Operations`."""
        answer = self._act(operation, "renew")
        with reading("renew"):
            return bool(answer["yield"])

    def audio(self, operation: Operation, destination: Path) -> None:
        """See `Operations`."""
        path = f"/api/queue/audio/{operation.recording}/normalized"
        try:
            with held(operation.recording):
                self._client.download(path, destination)
        except LeaseLost:
            self.renew(operation)  # deleted, or somebody else's: raises
            raise AudioMissing(operation.recording) from None

    def cut(self, operation: Operation, units: Sequence[Unit], language: str) -> None:
        """See `Operations`."""
        self._act(operation, "cut", units=[list(unit) for unit in units], language=language)

    def write(self, operation: Operation, unit: int, segments: Sequence[Any]) -> bool:
        """See `Operations`."""
        answer = self._act(
            operation, "segments", unit=unit, segments=list(segments), lease_seconds=LEASE
        )
        with reading("write segments"):
            return bool(answer["yield"])

    def finish(
        self,
        operation: Operation,
        outcome: Outcome,
        *,
        engine: str = "",
        language: str = "",
        error_text: str = "",
    ) -> None:
        """See `Operations`."""
        self._act(
            operation,
            "finish",
            outcome=outcome,
            engine=engine,
            language=language,
            error_text=error_text,
        )

    def _act(self, operation: Operation, action: str, **body: Any) -> dict[str, Any]:
        with held(operation.recording):
            return self._post(f"{operation.id}/{action}", lease_token=operation.lease_token, **body)

    def _post(self, path: str, **body: Any) -> dict[str, Any]:
        return self._client.request("POST", f"/api/operations/{path}", json=body)
