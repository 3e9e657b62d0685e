"""Every error of the product, as one tree.

    TranscriberError
    ├── ConfigurationError          the settings, or what they point at, are wrong: exit code 78
    ├── AlreadyRunning              another live process works under this name
    ├── NoWork                      the queue's answer to this very poll: nothing to claim
    ├── LeaseLost                   the job was given to somebody else meanwhile
    ├── Cancelled                   the process is stopping: work broken off, nothing judged
    ├── PocketBaseError
    │   ├── PocketBaseUnavailable   not reachable, or answers 5xx: wait and go on
    │   └── PocketBaseRefused       it answered, and the answer is no
    ├── MediaError
    │   ├── UnreadableMedia         nothing that can be decoded: final
    │   ├── NoAudioTrack            readable, with nothing to hear in it: final
    │   ├── TooLong                 longer than MAX_DURATION_HOURS: final
    │   └── DecoderDied             the decoder crashed or ran into its limits: tried again
    ├── RecogniserError
    │   ├── RecogniserUnavailable   not reachable, or out of quota: tried again
    │   ├── RecogniserRefused       it judged this recording for good: final
    │   └── EngineDied              its native part crashed or ran over its time: tried again
    ├── ProofreadingFailed          no correction of a piece of text: the raw one stands
    └── ModelError
        ├── ModelMissing            there is no such model where the settings point
        └── ModelCorrupt            a file of the model is not the published one

A message reads "context: cause", in lower case. Never branch on a message: branch on the type.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

EXIT_CONFIGURATION = 78
"""Exit code of a process whose configuration is wrong (EX_CONFIG of sysexits.h)."""

NO_ROOM = 507
"""PocketBase's answer where its disk is full."""
_SHORT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})

E = TypeVar("E", bound=BaseException)


class TranscriberError(Exception):
    """Base of every error that the product raises itself."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong with the configuration: the setting's key and what to do about it."""

    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.key}: {self.message}"


class ConfigurationError(TranscriberError):
    """The service cannot start as it is configured. Carries every problem found, not the first."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("configuration: " + "; ".join(map(str, problems)))


class AlreadyRunning(TranscriberError):
    """Another live process holds this worker name, so its claims must not be given back."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"start {name}: another live process has this name")


class NoWork(TranscriberError):
    """The queue answered this poll: nothing in this state can be claimed now. Not a failure."""

    def __init__(self, state: str) -> None:
        self.state = state
        super().__init__(f"claim {state}: no work")


class LeaseLost(TranscriberError):
    """The lease under which a result was to be written is no longer this process's."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"job {job_id}: lease lost")


class Cancelled(TranscriberError):
    """The process is stopping: the work was broken off, and says nothing about the recording."""

    def __init__(self) -> None:
        super().__init__("work: broken off, the process is stopping")


class PocketBaseError(TranscriberError):
    """PocketBase could not do what was asked."""


class PocketBaseUnavailable(PocketBaseError):
    """PocketBase is not reachable, or answered with a fault of its own (5xx)."""

    def __init__(self, operation: str, status: int | None = None) -> None:
        self.operation = operation
        self.status = status
        reason = "not reachable" if status is None else f"answered {status}"
        super().__init__(f"{operation}: pocketbase {reason}")


class PocketBaseRefused(PocketBaseError):
    """PocketBase answered with a refusal (4xx)."""

    def __init__(self, operation: str, status: int, error_code: str = "") -> None:
        self.operation = operation
        self.status = status
        self.error_code = error_code
        code = f" {error_code}" if error_code else ""
        super().__init__(f"{operation}: pocketbase refused with {status}{code}")


class MediaError(TranscriberError):
    """The media could not be turned into audio."""


class UnreadableMedia(MediaError):
    """The file is not media that can be decoded."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"read media: {reason}")


class NoAudioTrack(MediaError):
    """The file is media, and has no audio in it."""

    def __init__(self, reason: str = "no audio track") -> None:
        self.reason = reason
        super().__init__(f"read media: {reason}")


class TooLong(MediaError):
    """The recording lasts longer than the owner admits."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        super().__init__(f"read media: longer than {limit_seconds / 3600:g} h")


class DecoderDied(MediaError):
    """The decoder's process crashed, or ran into its limit of memory or time."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"decode media: {reason}")


class RecogniserError(TranscriberError):
    """A recogniser did not give a text."""


class RecogniserUnavailable(RecogniserError):
    """The recogniser is not reachable or has no quota left: the job waits and is tried again."""

    def __init__(
        self, recogniser: str, reason: str, *, pause: float = 0.0, blameless: bool = False
    ) -> None:
        """`pause`: seconds that it asked for. `blameless`: whatever recording came would fare so
        (no quota, a wrong key, nobody there), and this one's attempts must not run out over it."""
        self.recogniser = recogniser
        self.reason = reason
        self.pause = pause
        self.blameless = blameless
        super().__init__(f"recogniser {recogniser}: {reason}")


class RecogniserRefused(RecogniserError):
    """The recogniser judged this recording for good."""

    def __init__(self, recogniser: str, reason: str) -> None:
        self.recogniser = recogniser
        self.reason = reason
        super().__init__(f"recogniser {recogniser}: {reason}")


class EngineDied(RecogniserError):
    """A process of the local recogniser was killed, crashed, or ran over its time."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"engine: {reason}")


class ProofreadingFailed(TranscriberError):
    """There is no correction that could be used. Nothing of the text stands in it."""

    def __init__(
        self, reason: str, kind: Literal["piece", "passing", "slow", "lasting"], after: float = 0.0
    ) -> None:
        """`kind`: whether it says something of this piece alone; or of the endpoint, for a moment,
        by making us wait, or for as long as nobody mends it. `after`: seconds that it asked for."""
        self.reason = reason
        self.kind = kind
        self.after = after
        super().__init__(f"proofread: {reason}")


class ModelError(TranscriberError):
    """The recognition model cannot be used."""


class ModelMissing(ModelError):
    """No model lies where the settings point."""

    def __init__(self, model: str, reason: str) -> None:
        self.model = model
        self.reason = reason
        super().__init__(f"model {model}: {reason}")


class ModelCorrupt(ModelError):
    """A file of the model differs from the published one."""

    def __init__(self, model: str, file: str, expected: str, found: str) -> None:
        self.model = model
        self.file = file
        self.expected = expected
        self.found = found
        super().__init__(f"model {model}: {file} has sha256 {found}, expected {expected}")


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error and then what it was raised `from`, outermost first."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__


def find(error: BaseException, kind: type[E]) -> E | None:
    """The first error of this kind in the chain of causes, however many explanations were added."""
    return next((each for each in causes(error) if isinstance(each, kind)), None)


def is_shortage(error: BaseException) -> bool:
    """Whether a machine of ours is out of disk, files or memory: whatever recording came would fare
    so, and none is to blame. What a decoder runs into by limits of its own is `DecoderDied`."""
    return any(
        (isinstance(each, OSError) and each.errno in _SHORT)
        or (isinstance(each, PocketBaseUnavailable) and each.status == NO_ROOM)
        for each in causes(error)
    )


def describe(error: BaseException) -> str:
    """The whole chain on one line: "context: cause: deeper cause".

    A layer that only repeats what lies below it is left out. An error of the operating system is
    told without its file, whose name may be a stored one; one that says nothing, by its type.
    """
    parts: list[str] = []
    for each in causes(error):
        text = str(each)
        if isinstance(each, OSError) and each.filename is not None:
            text = each.strerror or ""
        text = text or type(each).__name__
        if not parts or parts[-1] != text:
            parts.append(text)
    return ": ".join(parts)
