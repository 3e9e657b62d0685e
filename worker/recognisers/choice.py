"""Which recogniser a recording goes to, and which one an operation belongs to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from worker.errors import RecogniserUnavailable
from worker.jobs import Recording
from worker.metrics import Metrics
from worker.pocketbase.client import Client
from worker.recognisers.absences import Absences
from worker.recognisers.base import Abilities, Described, Unfinished, Unknown, Verdict
from worker.recognisers.local import LocalRecogniser, Rows
from worker.recognisers.openai import OpenAiRecogniser
from worker.recognisers.speechkit import SpeechKitRecogniser
from worker.settings import Settings

ABILITIES: Final[dict[str, Abilities]] = {
    each.name: each.abilities for each in (LocalRecogniser, OpenAiRecogniser, SpeechKitRecogniser)
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A recogniser's name, and whether it stands in for the first choice."""

    name: str
    instead: bool = False


def patience(settings: Settings) -> int:
    """Failed attempts to submit after which the fallback is tried."""
    return settings.max_attempts // 2


def choose(settings: Settings, recording: Recording, attempts: int, absences: Absences) -> Choice:
    """The recogniser for this attempt.

    The owner's choice for a recording comes first, then `RECOGNISER`. Where that one stays
    unreachable, or does not take so long a recording, `RECOGNISER_FALLBACK` stands in; but what
    the owner chose by hand goes to nobody else, unless it thereby stays on the machine. Of two that
    are both let be, it is the one that may be asked sooner.
    """
    first = recording.recogniser or settings.recogniser
    other = settings.recogniser_fallback
    if not other or other == first:
        return Choice(first)
    if recording.recogniser and ABILITIES[other].leaves_machine:
        return Choice(first)
    if _too_long(other, recording):
        return Choice(first)
    longer = absences.left(first) - absences.left(other)
    tired = attempts > patience(settings) and longer == 0
    if _too_long(first, recording) or longer > 0 or tired:
        return Choice(other, instead=True)
    return Choice(first)


def _too_long(name: str, recording: Recording) -> bool:
    longest = ABILITIES[name].longest
    return longest is not None and recording.duration > longest


class Recognisers:
    """All that are set up, as one: recordings go by their choice, operations by their name."""

    def __init__(
        self, settings: Settings, client: Client, stop: threading.Event, metrics: Metrics
    ) -> None:
        def count(engine: str) -> Callable[[float], None]:
            return lambda seconds: metrics.recognised.labels(engine).inc(seconds)

        self._default = settings.recogniser
        self._rows = Rows(client)
        self._remote: list[OpenAiRecogniser | SpeechKitRecogniser] = []
        if "openai" in settings.recognisers:
            counter = count(f"openai/{settings.openai_model}")
            self._remote.append(OpenAiRecogniser(settings, client, stop, counter))
        if "speechkit" in settings.recognisers:
            counter = count(f"speechkit/{settings.speechkit_model}")
            self._remote.append(SpeechKitRecogniser(settings, stop, counter, self._leave))
        local = LocalRecogniser(client, settings.speakers_max, settings.speakers_threshold)
        self._known: dict[str, Described] = {each.name: each for each in (local, *self._remote)}

    def __enter__(self) -> Recognisers:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._remote:
            each.close()

    def _leave(self, operation: str) -> None:
        self._rows.leave(operation)

    def submit(self, recording: Recording, audio: Callable[[], Path]) -> str | Unfinished:
        """Submit to the recording's recogniser."""
        name = recording.recogniser or self._default
        recogniser = self._known.get(name)
        if recogniser is None:
            raise RecogniserUnavailable(name, "chosen and not set up", blameless=True)
        return recogniser.submit(recording, audio)

    def check(self, operation: str) -> Verdict:
        """Ask the recogniser that the operation belongs to."""
        recogniser = self._of(operation)
        if recogniser is None:
            return Unknown("the recogniser of the operation is not set up any more")
        return recogniser.check(operation)

    def cancel(self, operation: str) -> bool:
        """Have the recogniser remove the operation, if it is still set up."""
        recogniser = self._of(operation)
        return recogniser is not None and recogniser.cancel(operation)

    def _of(self, operation: str) -> Described | None:
        name, separator, _ = operation.partition(":")
        return self._known.get(name if separator else LocalRecogniser.name)
