"""The local recogniser: an operation is a row that engine processes work on, slice by slice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker.errors import PocketBaseRefused
from worker.jobs import Recording, Transcript
from worker.pocketbase.client import Client
from worker.recognisers.base import Finished, Refused, Running, Unknown, Verdict


class LocalRecogniser:
    """Speaks to the operations' routes of PocketBase (`pb/pb_hooks/operations.pb.js`)."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def submit(self, recording: Recording, audio: Callable[[], Path]) -> str:  # noqa: ARG002
        """Queue the recording for the engines, which fetch the audio themselves."""
        answer = self._client.request("POST", "/api/operations", json={"recording": recording.id})
        return str(answer["operation"])

    def check(self, operation: str) -> Verdict:
        """How far the engines have come."""
        try:
            found = self._client.request("GET", f"/api/operations/{operation}")
        except PocketBaseRefused as error:
            if error.status == 404:
                return Unknown()
            raise
        if found["state"] == "failed":
            return Refused(found["error_text"])
        if found["state"] == "queued":
            return Running(quiet=found["quiet"])
        # A slice that is missing is a fault to be mended, never a shorter text.
        if [part["unit"] for part in found["parts"]] != list(range(found["units"])):
            return Unknown()
        return Finished(assemble(found["parts"], found["language"], found["engine"]))

    def cancel(self, operation: str) -> None:
        """Remove the operation; an engine at work on it learns that by its next write."""
        self._client.request("DELETE", f"/api/operations/{operation}")


def assemble(parts: list[dict[str, Any]], language: str, engine: str) -> Transcript:
    """Join the slices' segments, in their order, into one transcript."""
    segments = [segment for part in parts for segment in part["segments"]]
    text = " ".join(filter(None, (str(segment["text"]).strip() for segment in segments)))
    return Transcript(
        text=text, segments=segments, language=language if text else "", engine=engine
    )
