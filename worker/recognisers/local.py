"""The local recogniser: an operation is a row that engine processes work on, slice by slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from worker.errors import PocketBaseRefused
from worker.jobs import Recording, Transcript
from worker.pocketbase.client import Client, held, reading
from worker.recognisers import speakers
from worker.recognisers.base import Abilities, Finished, Refused, Running, Unknown, Verdict


class LocalRecogniser:
    """Speaks to the operations' routes of PocketBase (`pb/pb_hooks/operations.pb.js`)."""

    name: ClassVar[str] = "local"
    abilities: ClassVar[Abilities] = Abilities(
        word_times=False,
        vocabulary=True,
        languages=None,
        longest=None,
        public_address=False,
        leaves_machine=False,
    )

    def __init__(self, client: Client, most: int = 10, alike: float = 0.5) -> None:
        """`most` and `alike`: see `speakers.labelled`."""
        self._rows: Final = Rows(client)
        self._most, self._alike = most, alike

    def submit(self, recording: Recording, audio: Callable[[], Path]) -> str:  # noqa: ARG002 - the form of all recognisers
        """Queue the recording for the engines, which fetch the audio themselves."""
        return self._rows.queue(recording)

    def check(self, operation: str) -> Verdict:
        """How far the engines have come."""
        verdict = self._rows.look(operation)
        if isinstance(verdict, Finished):
            transcript = verdict.transcript
            segments = speakers.labelled(transcript.segments, self._most, self._alike)
            return Finished(replace(transcript, segments=segments))
        return verdict

    def cancel(self, operation: str) -> bool:
        """Remove the operation; an engine at work on it learns that by its next write."""
        self._rows.remove(operation)
        return True


class Rows:
    """The operations that PocketBase keeps."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def queue(self, recording: Recording) -> str:
        """Have the engines work on a recording; the operation's id.

        Raises:
            LeaseLost: its job was given to somebody else meanwhile.
        """
        answer = self._submit("/api/operations", recording)
        with reading("submit"):
            return str(answer["operation"])

    def take(self, recording: Recording, recogniser: str) -> dict[str, Any]:
        """Begin, or go on with, what a remote recogniser makes of a recording.

        Raises:
            LeaseLost: its job was given to somebody else meanwhile.
        """
        answer = self._submit("/api/operations/take", recording, recogniser=recogniser)
        with reading("take"):
            return {key: answer[key] for key in ("id", "state", "lease_token", "units", "done")}

    def _submit(self, path: str, recording: Recording, **body: str) -> dict[str, Any]:
        body |= {"recording": recording.id, "lease_token": recording.lease_token}
        with held(recording.id):
            return self._client.request("POST", path, json=body)

    def act(self, operation: str, action: str, **body: Any) -> None:
        """Write something under the lease whose token stands in the body."""
        self._client.request("POST", f"/api/operations/{operation}/{action}", json=body)

    def look(self, operation: str) -> Verdict:
        """How an operation stands."""
        try:
            found = self._client.request("GET", f"/api/operations/{operation}")
        except PocketBaseRefused as error:
            if error.status == 404:
                return Unknown()
            raise
        with reading("check"):
            if found["state"] == "failed":
                return Refused(found["error_text"])
            if found["state"] == "queued":
                return Running(quiet=found["quiet"])
            # A slice that is missing is a fault to be mended, never a shorter text.
            if [part["unit"] for part in found["parts"]] != list(range(found["units"])):
                return Unknown()
            return Finished(assemble(found["parts"], found["language"], found["engine"]))

    def leave(self, operation: str) -> None:
        """Have somebody else's operation removed there once it has ended."""
        self._client.request("POST", "/api/queue/leftovers", json={"operation": operation})

    def remove(self, operation: str) -> None:
        """Remove an operation and what it has so far; who is at work on it learns by a write."""
        self._client.request("DELETE", f"/api/operations/{operation}")


def assemble(parts: list[dict[str, Any]], language: str, engine: str) -> Transcript:
    """Join the slices' segments, in their order, into one transcript.

    `language`: of the whole; where it is not known, the one that most of the text is in.
    """
    segments = [segment for part in parts for segment in part["segments"]]
    if any("channel" in segment for segment in segments):  # two speak in turns, or at once
        segments.sort(key=lambda segment: (segment["start"], segment["channel"]))
    text = " ".join(filter(None, (str(segment["text"]).strip() for segment in segments)))
    return Transcript(
        text=text,
        segments=segments,
        language=(language or _most(segments)) if text else "",
        engine=engine,
    )


def _most(segments: list[dict[str, Any]]) -> str:
    letters = Counter[str]()
    for segment in segments:
        letters[segment.get("language", "")] += len(segment["text"])
    return letters.most_common(1)[0][0] if letters else ""
