"""The steps: each a function from a claimed job to an outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from loguru import logger

from worker.errors import (
    Cancelled,
    MediaError,
    NoAudioTrack,
    RecogniserRefused,
    RecogniserUnavailable,
    TooLong,
    UnreadableMedia,
    describe,
)
from worker.jobs import (
    Advanced,
    Failed,
    Job,
    Milestone,
    Normalised,
    Outcome,
    Recording,
    Retry,
    SentBack,
    Step,
    Transcript,
    Waiting,
    Why,
)
from worker.media import normalise, sandbox
from worker.pipeline.backoff import backoff, with_jitter
from worker.pipeline.leases import decode_limit, give_up_after, proofread_limit
from worker.pocketbase.queue import Queue
from worker.proofreading.proofreader import Proofreader
from worker.recognisers.absences import Absences
from worker.recognisers.base import Finished, Recogniser, Refused, Running, Unfinished, Unknown
from worker.recognisers.choice import choose, patience
from worker.recognisers.limits import TURN_PAUSE
from worker.settings import Settings

_WHY: dict[type[MediaError], Why] = {
    NoAudioTrack: "no_sound",
    UnreadableMedia: "unreadable",
    TooLong: "too_long",
}
_PROOFREAD_TRIES = 2
"""Claims that proofread. If these ended without a result, the text goes out as it is."""


@dataclass(frozen=True, slots=True)
class Context:
    """What every step works with."""

    settings: Settings
    queue: Queue
    recogniser: Recogniser
    stop: threading.Event
    """Set when the process is to end: a step that can be interrupted then ends early."""
    proofreader: Proofreader | None = None
    """None where texts are not proofread."""
    absences: Absences = field(default_factory=Absences)

    @property
    def patience(self) -> int:
        """Failed attempts after which the fallback is tried."""
        return patience(self.settings)

    def pause(self, times: int) -> float:
        """Seconds to rest after the `times`-th failure in a row."""
        settings = self.settings
        return with_jitter(backoff(times, settings.backoff_seconds, settings.backoff_max_seconds))


def run_normalise(context: Context, job: Job, scratch: Path) -> Outcome:
    """Bring any audio or video to 16 kHz mono FLAC."""
    recording = context.queue.recording(job.id)
    source = scratch / "audio"
    context.queue.download(job.id, "audio", source)
    limit = context.settings.max_duration_seconds
    try:
        result = sandbox.run(
            normalise.normalise,
            source,
            scratch / "normalized.flac",
            limit,
            _apart(context.settings, recording),
            timeout=decode_limit(limit),
            stop=context.stop,
        )
    except (NoAudioTrack, UnreadableMedia, TooLong) as error:
        return Failed(describe(error), _WHY[type(error)])
    if abs(result.duration - recording.duration) > max(1.0, 0.02 * recording.duration):
        logger.info(
            "decoded length differs from the announced one",
            job_id=job.id,
            announced=round(recording.duration, 1),
            decoded=round(result.duration, 1),
        )
    return Normalised(scratch / "normalized.flac", result.duration, recording.extension)


def _apart(settings: Settings, recording: Recording) -> bool:
    """Whether a speaker is to be heard in each channel. The audio that comes of it says so: who
    recognises it reads two channels apart, and one that holds one alone."""
    return (recording.channels or settings.channels) == "split"


def run_submit(context: Context, job: Job, scratch: Path) -> Outcome:
    """Hand the audio to the recogniser."""
    recording = context.queue.recording(job.id)
    if not recording.normalized:
        return _send_back(context, job, Milestone.UPLOADED, "the normalised audio is missing")
    chosen = choose(context.settings, recording, job.attempts, context.absences)
    given = replace(recording, recogniser=chosen.name, lease_token=job.lease_token)
    try:
        operation = context.recogniser.submit(given, _fetch(context, given, scratch))
    except RecogniserRefused as error:
        return Failed(describe(error))
    except RecogniserUnavailable as error:
        context.absences.refused(chosen.name, error.pause)
        # From the fallback back to the first choice, which may have come back meanwhile.
        tired = chosen.instead and job.attempts > context.patience
        cap = (0 if tired else context.patience) if error.blameless else None
        attempts = job.attempts if cap is None else min(job.attempts, cap)
        following = choose(context.settings, recording, attempts + 1, context.absences)
        if following == chosen:
            return _rest(context, job, error, cap)
        # What one of them asked for is no reason to wait for the other.
        pause = max(context.pause(job.attempts), context.absences.left(following.name))
        return Retry(pause, describe(error), cap)
    context.absences.took(chosen.name)
    if isinstance(operation, Unfinished):
        return Waiting(TURN_PAUSE)
    return Advanced(Milestone.SUBMITTED, operation, delay=context.settings.check_seconds)


def run_check(context: Context, job: Job, scratch: Path) -> Outcome:  # noqa: ARG001 - a step's form
    """Ask the recogniser how the operation stands."""
    if not job.operation:
        return _send_back(context, job, Milestone.NORMALIZED, "no operation is named")
    try:
        verdict = context.recogniser.check(job.operation)
    except RecogniserUnavailable as error:
        # The operation is there and may be done: only time is an end to asking for it.
        if job.waited > give_up_after(context.queue.recording(job.id).duration):
            return Failed(describe(error))
        return _rest(context, job, error, context.patience)
    match verdict:
        case Finished(transcript, within):
            if not within:
                transcript = _within(transcript, context.queue.recording(job.id).duration)
            return Advanced(Milestone.TRANSCRIBED, transcript=transcript)
        case Refused(reason):
            return Failed(f"recognition: {reason}")
        case Unknown(reason):
            return _send_back(context, job, Milestone.NORMALIZED, reason)
        case Running(quiet):
            return _wait(context, job, job.waited if quiet is None else quiet)


def run_finish(context: Context, job: Job, scratch: Path) -> Outcome:  # noqa: ARG001 - a step's form
    """Close the job, its text proofread if possible. The answer goes out once that is saved."""
    raw = context.queue.transcript(job.id)
    if raw is None:
        return _send_back(context, job, Milestone.NORMALIZED, "the text is missing")
    return Advanced(Milestone.DONE, transcript=_proofread(context, job, raw))


StepFunction = Callable[[Context, Job, Path], Outcome]

STEPS: dict[Step, StepFunction] = {
    Step.NORMALISE: run_normalise,
    Step.SUBMIT: run_submit,
    Step.CHECK: run_check,
    Step.FINISH: run_finish,
}


def _fetch(context: Context, recording: Recording, scratch: Path) -> Callable[[], Path]:
    def fetch() -> Path:
        file = scratch / "normalized.flac"
        context.queue.download(recording.id, "normalized", file)
        return file

    return fetch


def _proofread(context: Context, job: Job, raw: Transcript) -> Transcript | None:
    """The text proofread, or None. What goes wrong here keeps no recording from its end."""
    if context.proofreader is None or not raw.text.strip():
        return None
    if job.attempts > _PROOFREAD_TRIES:
        _not_proofread(job, "tried before, without a result")
        return None
    recording = context.queue.recording(job.id)
    config = context.settings
    duration = min(recording.duration, config.max_duration_seconds)
    limit = proofread_limit(duration, config.proofread_timeout_seconds)
    try:
        result = context.proofreader.proofread(raw, recording.vocabulary, limit)
    except Cancelled:
        raise
    except Exception as error:  # noqa: BLE001 - a fault of ours here is no reason either
        _not_proofread(job, type(error).__name__)
        return None
    if result.kept:
        reasons = ", ".join(dict.fromkeys(result.kept))
        if result.transcript is None:
            _not_proofread(job, reasons)
        else:
            kept = f"{len(result.kept)} of {result.pieces} pieces"
            _not_proofread(job, reasons, "text proofread in part", kept=kept)
    return result.transcript


def _not_proofread(job: Job, reason: str, what: str = "text not proofread", **fields: str) -> None:
    logger.warning(
        what, job_id=job.id, step=Step.FINISH, attempt=job.attempts, reason=reason, **fields
    )


def _within(transcript: Transcript, duration: float) -> Transcript:
    """The transcript, with no time beyond the recording's end."""

    def cut(what: dict[str, Any]) -> dict[str, Any]:
        return {**what, "start": min(what["start"], duration), "end": min(what["end"], duration)}

    segments = []
    for segment in map(cut, transcript.segments):
        if words := segment.get("words"):
            segment["words"] = [cut(word) for word in words]
        segments.append(segment)
    return replace(transcript, segments=segments)


def _wait(context: Context, job: Job, quiet: float) -> Outcome:
    duration = context.queue.recording(job.id).duration
    limit = give_up_after(duration)
    if quiet > limit:
        return Failed(f"recognition: no end after {quiet:.0f} s, given up at {limit:.0f} s")
    return Waiting(context.settings.check_seconds)


def _rest(context: Context, job: Job, error: RecogniserUnavailable, cap: int | None) -> Retry:
    pause = max(context.pause(job.attempts), error.pause)
    return Retry(pause, describe(error), cap)


def _send_back(context: Context, job: Job, to: Milestone, reason: str) -> SentBack:
    return SentBack(to, context.pause(job.sent_back + 1), reason)
