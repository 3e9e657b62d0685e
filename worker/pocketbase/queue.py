"""The one adapter to the queue's routes (`pb/pb_hooks/queue.pb.js`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from worker.errors import LeaseLost, NoWork, PocketBaseRefused
from worker.jobs import (
    Advanced,
    Dead,
    Failed,
    Job,
    Milestone,
    Normalised,
    Outcome,
    Recording,
    Released,
    Retry,
    SentBack,
    Transcript,
    Waiting,
    Wanted,
)
from worker.pocketbase.client import Client, held, reading


class Queue:
    """Claims jobs and writes their outcomes, under one worker's name."""

    def __init__(self, client: Client, worker: str) -> None:
        self._client = client
        self.worker = worker

    def due(self, claims: Iterable[Wanted]) -> set[str]:
        """The states of those claims that would find something now: a hint, and no claim.

        Raises:
            PocketBaseError: the queue did not answer.
        """
        asked = [{"state": each.state, "lease_seconds": each.lease_seconds} for each in claims]
        answer = self._client.request("POST", "/api/queue/due", json={"claims": asked})
        with reading("due"):
            return set(map(str, answer["states"]))

    def claim(self, state: Milestone, lease_seconds: float, count: int = 1) -> list[Job]:
        """Claim up to `count` jobs of a state, each with a token of its own.

        Raises:
            NoWork: nothing in this state can be claimed now.
            PocketBaseError: the queue did not answer.
        """
        wanted = self._claims(Wanted(state, lease_seconds, count))
        answer = self._client.request("POST", "/api/queue/claim", json=wanted)
        with reading(f"claim {state}"):
            jobs = _jobs(answer)
        if not jobs:
            raise NoWork(state)
        return jobs

    def write(self, job: Job, outcome: Outcome, wanted: Wanted | None = None) -> list[Job] | None:
        """Write what a claim came to. Writing the same outcome twice is the same as once.

        With it are claimed the jobs wanted next. Returns them, none where there is no work, and
        None where no claim was made: normalised audio takes none along, nor what comes again.

        Raises:
            LeaseLost: the claim is no longer this worker's; nothing was written, nothing claimed.
            PocketBaseError: the queue did not answer. Write it again; jobs may have been claimed.
        """
        if isinstance(outcome, Normalised):
            self._write_normalised(job, outcome)
            return None
        lost, jobs = self.write_all([(job, outcome)], wanted)
        if job.id in lost:
            raise LeaseLost(job.id)
        return jobs

    def write_all(
        self, results: Iterable[tuple[Job, Outcome]], wanted: Wanted | None = None
    ) -> tuple[set[str], list[Job] | None]:
        """Write many outcomes in one transaction, and claim in it what is wanted next, as `write`
        does. Returns the ids whose lease was lost, and the jobs claimed."""
        body: dict[str, Any] = {
            "results": [
                {"id": job.id, "lease_token": job.lease_token, **_fields(outcome)}
                for job, outcome in results
            ]
        }
        if wanted:
            body["next"] = self._claims(wanted)
        answer = self._client.request("POST", "/api/queue/finish", json=body)
        with reading("finish"):
            return set(map(str, answer["lost"])), _jobs(answer) if "jobs" in answer else None

    def give_back(self, keep: Iterable[str] = ()) -> int:
        """Give back what this worker's name holds, but for the tokens in `keep`.

        At a start: what the previous process of this name held. After a claim whose answer was
        lost: what PocketBase believes this worker has.
        """
        answer = self._client.request(
            "POST", "/api/queue/restart", json={"worker": self.worker, "keep": list(keep)}
        )
        with reading("give back"):
            return int(answer["returned"])

    def recording(self, job_id: str) -> Recording:
        """The recording of a job.

        Raises:
            LeaseLost: it was deleted, and its job with it.
        """
        with held(job_id):
            row = self._client.request("GET", f"/api/queue/recording/{job_id}")
        with reading("recording"):
            return Recording(
                id=row["id"],
                audio=row["audio"],
                normalized=row["normalized"],
                extension=row["extension"],
                duration=row["duration"],
                language=row["language"],
                vocabulary=row["vocabulary"],
                recogniser=row["recogniser"],
                channels=row["channels"],
            )

    def download(self, job_id: str, kind: str, destination: Path) -> int:
        """Fetch a recording's `audio` or `normalized` file. Returns its size in bytes."""
        return self._client.download(f"/api/queue/audio/{job_id}/{kind}", destination)

    def transcript(self, job_id: str, kind: str = "raw") -> Transcript | None:
        """A recording's text of one kind, or None while there is none."""
        answer = self._client.request("GET", f"/api/queue/transcript/{job_id}/{kind}")
        with reading("transcript"):
            row = answer["transcript"]
            if row is None:
                return None
            return Transcript(
                text=row["text"],
                segments=row["segments"],
                language=row["language"],
                engine=row["engine"],
                kind=kind,
            )

    def leftovers(self) -> list[str]:
        """Operations of recordings that are gone, to be removed where they are."""
        answer = self._client.request("POST", "/api/queue/leftovers/claim", json={})
        return [str(each) for each in answer["operations"]]

    def leave(self, operation: str) -> None:
        """Have an operation removed once it has ended, if it leaves anything elsewhere."""
        self._client.request("POST", "/api/queue/leftovers", json={"operation": operation})

    def removed(self, operation: str) -> None:
        """Nothing of the operation is left anywhere."""
        self._client.request("POST", "/api/queue/leftovers/removed", json={"operation": operation})

    def _claims(self, wanted: Wanted) -> dict[str, Any]:
        """A claim as the routes take it."""
        return {
            "state": wanted.state,
            "lease_seconds": wanted.lease_seconds,
            "count": wanted.count,
            "worker": self.worker,
        }

    def _write_normalised(self, job: Job, outcome: Normalised) -> None:
        try:
            self._client.upload(
                f"/api/queue/normalized/{job.id}",
                "normalized",
                outcome.file,
                {"lease_token": job.lease_token, "duration": repr(outcome.duration)},
            )
        except PocketBaseRefused as error:
            if error.error_code in {"lease_lost", "not_found"}:
                raise LeaseLost(job.id) from error
            raise


def _jobs(answer: Mapping[str, Any]) -> list[Job]:
    return [Job.from_row(row) for row in answer["jobs"]]


def _fields(outcome: Outcome) -> dict[str, Any]:
    """An outcome as the route takes it: its name and the values of its own columns."""
    match outcome:
        case Advanced():
            transcript = outcome.transcript
            return {
                "outcome": "advanced",
                "to": outcome.to,
                "operation": outcome.operation,
                "delay": outcome.delay,
                "transcript": transcript
                and {
                    "kind": transcript.kind,
                    "text": transcript.text,
                    "segments": transcript.segments,
                    "language": transcript.language,
                    "engine": transcript.engine,
                },
            }
        case SentBack():
            return {
                "outcome": "sent_back",
                "to": outcome.to,
                "pause": outcome.pause,
                "error_text": outcome.error_text,
            }
        case Waiting():
            return {"outcome": "waiting", "delay": outcome.delay}
        case Retry():
            cap = {} if outcome.cap is None else {"cap": outcome.cap}
            return {
                "outcome": "retry",
                "pause": outcome.pause,
                "error_text": outcome.error_text,
                **cap,
            }
        case Failed():
            why = {"why": outcome.why} if outcome.why else {}
            return {"outcome": "failed", "error_text": outcome.error_text, **why}
        case Dead():
            return {"outcome": "dead", "error_text": outcome.error_text}
        case Released():
            return {"outcome": "released"}
        case Normalised():
            raise TypeError("normalised audio is uploaded, not posted")
