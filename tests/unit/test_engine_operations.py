"""The engine's view of PocketBase, on the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from worker.engine.operations import AudioMissing, HttpOperations, Operation
from worker.errors import LeaseLost, PocketBaseRefused

OPERATION = Operation(
    "op", "rec", "t", 2, 1, "ru", "v", ((0, 1.5), (1, 2.5, 1)), frozenset({0}), "ru"
)


class Wire:
    """A client that answers as told and remembers what was asked."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str, Any]] = []

    def request(self, method: str, path: str, *, json: Any = None, timeout: Any = None) -> Any:
        self.asked.append((method, path, json))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def download(self, path: str, destination: Path) -> int:
        self.request("GET", path)
        return 0


def test_the_contract_on_the_wire(tmp_path: Path) -> None:
    row = {
        "id": "op", "recording": "rec", "lease_token": "t", "attempts": 2, "crashes": 1,
        "language": "ru", "vocabulary": "v", "duration": 3.5, "units": [[0, 1.5], [1, 2.5, 1]],
        "done": [0], "detected": "ru",
    }  # fmt: skip
    wire = Wire({"operations": [row]})
    operations = HttpOperations(wire, "engine")
    operation = operations.claim()
    assert operation == OPERATION
    wire.answer = {"yield": True, "returned": 3}
    assert operations.restart() == 3
    assert operations.write(operation, 1, [{"start": 0, "end": 1, "text": "x"}])
    operations.cut(operation, [(0.0, 1.5)], "ru")
    assert operations.renew(operation)
    operations.finish(operation, "failed", engine="e", error_text="why")
    operations.audio(operation, tmp_path / "x")
    assert [(path, json) for _, path, json in wire.asked] == [
        ("/api/operations/claim", {"worker": "engine", "lease_seconds": 60.0}),
        ("/api/operations/restart", {"worker": "engine"}),
        (
            "/api/operations/op/segments",
            {
                "lease_token": "t",
                "unit": 1,
                "segments": [{"start": 0, "end": 1, "text": "x"}],
                "lease_seconds": 60.0,
            },
        ),
        (
            "/api/operations/op/cut",
            {"lease_token": "t", "units": [[0.0, 1.5]], "language": "ru"},
        ),
        ("/api/operations/op/renew", {"lease_token": "t"}),
        (
            "/api/operations/op/finish",
            {
                "lease_token": "t",
                "outcome": "failed",
                "engine": "e",
                "language": "",
                "error_text": "why",
            },
        ),
        ("/api/queue/audio/rec/normalized", None),
    ]
    wire.answer = {"operations": []}
    assert operations.claim() is None


@pytest.mark.parametrize(
    "refusal",
    [PocketBaseRefused("x", 409, "lease_lost"), PocketBaseRefused("x", 404, "not_found")],
)
def test_a_lost_lease_and_a_deleted_operation_are_one(refusal: PocketBaseRefused) -> None:
    with pytest.raises(LeaseLost):
        HttpOperations(Wire(refusal), "engine").renew(OPERATION)


def test_missing_audio_is_told_from_a_lost_lease() -> None:
    class Fileless(Wire):
        def download(self, path: str, destination: Path) -> int:
            raise PocketBaseRefused("x", 404, "not_found")

    with pytest.raises(AudioMissing):
        HttpOperations(Fileless({"yield": False}), "engine").audio(OPERATION, Path("x"))
    lost = PocketBaseRefused("x", 409, "lease_lost")
    with pytest.raises(LeaseLost):
        HttpOperations(Fileless(lost), "engine").audio(OPERATION, Path("x"))


def test_another_refusal_stays_a_refusal() -> None:
    # A fault in a hook answers 400: no verdict about the recording.
    with pytest.raises(PocketBaseRefused):
        HttpOperations(Wire(PocketBaseRefused("x", 400)), "engine").renew(OPERATION)
