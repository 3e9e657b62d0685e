"""Yandex SpeechKit, version 3, asynchronous: a real operation on somebody else's machine."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

import httpx

from worker.errors import PocketBaseError, RecogniserRefused
from worker.jobs import Recording, Transcript
from worker.recognisers import languages, pieces, remote, speechkit_stream
from worker.recognisers.base import Abilities, Finished, Refused, Running, Unknown, Verdict
from worker.settings import Settings

PREFIX: Final = "speechkit:"
NOTHING: Final = "-"
"""The operation of a recording of two channels that nobody is heard in: nothing is sent."""
LONGEST: Final = 4 * 3600.0
"""Seconds of the longest recording that SpeechKit takes."""
BODY: Final = 60_000_000
"""Bytes of the largest body."""
CONTENT: Final = (BODY - 4096) // 4 * 3
"""Bytes of audio in it, which base64 makes a third larger."""
BIT_RATE: Final = 32_000
"""Of Opus, where the length leaves room for it: speech is as good as the original."""
HOURLY: Final = 500
"""Recognitions an hour."""
CHECKS: Final = 5
"""Status checks a second."""
LANGUAGES: Final = {
    "de": "de-DE", "en": "en-US", "es": "es-ES", "fi": "fi-FI", "fr": "fr-FR", "he": "he-IL",
    "it": "it-IT", "kk": "kk-KZ", "nl": "nl-NL", "pl": "pl-PL", "pt": "pt-PT", "ru": "ru-RU",
    "sv": "sv-SE", "tr": "tr-TR", "uz": "uz-UZ",
}  # fmt: skip

# Codes of an operation's error, as google.rpc has them.
INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED = 3, 9, 11, 12
FINAL: Final = frozenset({INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED})
NOT_FOUND: Final = 5


class SpeechKitRecogniser:
    """Audio is sent in the request's body; a bucket is not needed, and none is used.

    Two channels with a speaker in each are two operations, each of one channel, and one of ours.
    """

    name: ClassVar[str] = "speechkit"
    abilities: ClassVar[Abilities] = Abilities(
        word_times=True,
        vocabulary=False,
        languages=frozenset(LANGUAGES),
        longest=LONGEST,
        public_address=False,
        leaves_machine=True,
    )

    def __init__(
        self,
        settings: Settings,
        stop: threading.Event,
        recognised: Callable[[float], None] = lambda seconds: None,  # noqa: ARG005 - the caller's form
        leave: Callable[[str], None] = lambda operation: None,  # noqa: ARG005 - the caller's form
    ) -> None:
        """`recognised` counts seconds of audio; `leave` has an operation removed later."""
        self._settings = settings
        self._stop = stop
        self._recognised = recognised
        self._leave = leave
        key = "SPEECHKIT_API_KEY" if self._key else "SPEECHKIT_IAM_TOKEN"
        self._remote = remote.Remote(self.name, key, stop)
        self._hourly = remote.Pace(HOURLY, 3600)
        self._checks = remote.Pace(CHECKS, 1.1)  # calls that part evenly may arrive less so
        self._spelling = ("operation_id", "operationId")

    def close(self) -> None:
        """Close the connections."""
        self._remote.close()

    def submit(self, recording: Recording, audio: Callable[[], Path]) -> str:
        """Send the recording as Opus; the operation that SpeechKit made of it.

        Of two channels each that somebody is heard in is sent.
        """
        if recording.duration > LONGEST:
            raise RecogniserRefused(
                self.name, f"longer than the {LONGEST / 3600:g} h that it takes"
            )
        self._take_place()
        source = audio()
        voices = pieces.sandboxed(
            pieces.voices,
            source,
            duration=recording.duration,
            stop=self._stop,
            memory=pieces.memory(recording.duration),
        )
        if voices is None:
            return PREFIX + self._send(recording, source)
        if not voices:
            return PREFIX + NOTHING
        for _ in voices[1:]:
            self._take_place()
        sent: list[str] = []
        try:
            for channel, own in voices:
                sent.append(f"{channel}={self._send(recording, source, channel, own)}")
        except BaseException:
            if sent:  # half a recording is of no use, and begun again as a whole
                with suppress(PocketBaseError):
                    self._leave(PREFIX + sent[0])
            raise
        return PREFIX + ",".join(sent)

    def _take_place(self) -> None:
        if wait := self._hourly.take():
            reason = f"{HOURLY} recognitions an hour are used up"
            raise self._remote.unavailable(reason, pause=wait, blameless=True)

    def _send(
        self,
        recording: Recording,
        source: Path,
        channel: int | None = None,
        own: Sequence[pieces.Span] = (),
    ) -> str:
        """Send the recording, or what is a channel's own; the id of SpeechKit's operation."""
        file = source.with_suffix(".ogg")
        seconds = max(recording.duration, 1.0)
        bit_rate = min(BIT_RATE, int(0.95 * 8 * CONTENT / seconds))
        pieces.sandboxed(
            pieces.opus,
            source,
            file,
            bit_rate,
            channel,
            own,
            duration=recording.duration,
            stop=self._stop,
        )
        size = file.stat().st_size
        if size > CONTENT:
            raise RecogniserRefused(self.name, f"larger than the {BODY} bytes that it takes")
        model = self._model(recording)
        url = f"{self._settings.speechkit_url}/stt/v3/recognizeFileAsync"
        body = Body(file, model)
        response = self._remote.send(
            lambda http: http.post(
                url,
                content=iter(body),
                headers=self._headers
                | {"Content-Type": "application/json", "Content-Length": str(len(body))},
                timeout=remote.timeout(),
            )
        )
        self._remote.judge(response)
        operation = self._object(response).get("id")
        if not isinstance(operation, str) or not operation:
            raise self._remote.unavailable("answered without an operation")
        return operation

    def check(self, operation: str) -> Verdict:
        """Ask how the operation stands; fetch its text once it is done."""
        own = _parts(operation)
        unfinished = [
            verdict for _, identifier in own if (verdict := self._state(identifier)) is not None
        ]
        if unfinished:  # what is wrong with one of them comes before what is still under way
            return min(
                unfinished, key=lambda verdict: (Refused, Unknown, Running).index(type(verdict))
            )
        transcripts = []
        for channel, identifier in own:
            result = self._result(identifier)
            if not isinstance(result, Transcript):
                return result
            transcripts.append((channel, result))
        for _, each in transcripts:
            ends = (min(segment["end"], LONGEST) for segment in each.segments)
            self._recognised(max(ends, default=0.0))
        return Finished(_joined(transcripts, self._engine), within=False)

    def _state(self, identifier: str) -> Refused | Unknown | Running | None:
        """How one of SpeechKit's operations stands; None: it is done."""
        while wait := self._checks.take():
            self._remote.rest(wait)
        url = f"{self._settings.speechkit_operations_url}/operations/{identifier}"
        response = self._ask("GET", url)
        if response.status_code in {400, 404}:  # no id that it could ever have given out, or gone
            return Unknown()
        self._remote.judge(response)
        state = self._object(response)
        if not state.get("done"):
            return Running()
        if error := state.get("error"):
            return _ended(error)
        return None

    def cancel(self, operation: str) -> bool:
        """Have the result deleted; else it would be kept for three days. False: it is not there
        yet, and nothing stops SpeechKit from making it."""
        gone = True
        for _, identifier in _parts(operation):
            response = self._call("DELETE", "deleteRecognition", identifier)
            if response.status_code in {400, 404}:  # there is nothing to delete, or not yet
                gone &= not isinstance(self._state(identifier), Running)
            else:
                self._remote.judge(response)
        return gone

    def _result(self, identifier: str) -> Transcript | Unknown:
        response = self._call("GET", "getRecognition", identifier)
        if response.status_code == 404:
            return Unknown("the recogniser has no result of the operation any more")
        if response.status_code == 400:
            raise self._remote.unavailable("does not understand the question for a result")
        self._remote.judge(response)
        try:
            return speechkit_stream.understood(response.text, self._engine)
        except remote.MALFORMED:
            raise self._remote.unavailable("a result broken off or not understood") from None

    def _call(self, method: str, action: str, identifier: str) -> httpx.Response:
        """Call an address with the operation's id under the spelling that it takes."""
        url = f"{self._settings.speechkit_url}/stt/v3/{action}"
        for spelling in self._spelling:
            response = self._ask(method, url, {spelling: identifier})
            if response.status_code != 400:
                if spelling != self._spelling[0]:
                    self._spelling = (self._spelling[1], self._spelling[0])
                break
        return response

    def _ask(
        self, method: str, url: str, parameters: dict[str, str] | None = None
    ) -> httpx.Response:
        return self._remote.send(
            lambda http: http.request(
                method, url, params=parameters, headers=self._headers, timeout=remote.timeout()
            )
        )

    def _object(self, response: httpx.Response) -> dict[str, Any]:
        try:
            found = response.json()
        except remote.MALFORMED:
            found = None
        if not isinstance(found, dict):
            raise self._remote.unavailable("answered something that is no operation")
        return found

    @property
    def _key(self) -> str:
        return self._settings.speechkit_api_key.get_secret_value()

    @property
    def _engine(self) -> str:
        return f"{self.name}/{self._settings.speechkit_model}"

    @property
    def _headers(self) -> dict[str, str]:
        token = self._settings.speechkit_iam_token.get_secret_value()
        folder = self._settings.speechkit_folder_id
        return {
            "Authorization": f"Api-Key {self._key}" if self._key else f"Bearer {token}",
            **({"x-folder-id": folder} if folder else {}),
        }

    def _model(self, recording: Recording) -> dict[str, Any]:
        hint = LANGUAGES.get(languages.code(recording.language), "auto")
        return {
            "model": self._settings.speechkit_model,
            "audio_format": {"container_audio": {"container_audio_type": "OGG_OPUS"}},
            "text_normalization": {
                "text_normalization": "TEXT_NORMALIZATION_ENABLED",
                "profanity_filter": False,
                "literature_text": True,
            },
            "language_restriction": {"restriction_type": "WHITELIST", "language_code": [hint]},
        }


class Body:
    """The request's JSON, its audio turned to base64 on the way: hours need no memory."""

    _STEP: Final = 3 * 2**18

    def __init__(self, file: Path, model: dict[str, Any]) -> None:
        self._file = file
        self._head = f'{{"recognition_model": {json.dumps(model)}, "content": "'.encode()
        self._tail = b'"}'

    def __len__(self) -> int:
        return len(self._head) + 4 * -(-self._file.stat().st_size // 3) + len(self._tail)

    def __iter__(self) -> Iterator[bytes]:
        yield self._head
        with self._file.open("rb") as audio:
            while block := audio.read(self._STEP):
                yield base64.b64encode(block)
        yield self._tail


def _parts(operation: str) -> list[tuple[int | None, str]]:
    """SpeechKit's operations in one of ours, with the channel that each is of."""
    found: list[tuple[int | None, str]] = []
    sent = operation.removeprefix(PREFIX)
    for part in sent.split(",") if sent != NOTHING else ():
        channel, separator, identifier = part.partition("=")
        found.append(
            (int(channel), identifier) if separator and channel.isdigit() else (None, part)
        )
    return found


def _joined(transcripts: Sequence[tuple[int | None, Transcript]], engine: str) -> Transcript:
    """One transcript of what was said in each channel, in the order of time."""
    segments = [
        segment if channel is None else {**segment, "channel": channel}
        for channel, each in transcripts
        for segment in each.segments
    ]
    segments.sort(key=lambda segment: (segment["start"], segment["end"]))
    most = max((each for _, each in transcripts), key=lambda each: len(each.text), default=None)
    return Transcript(
        text=" ".join(str(segment["text"]) for segment in segments),
        segments=segments,
        language=most.language if most else "",
        engine=engine,
    )


def _ended(error: Any) -> Refused | Unknown:
    """An operation that ended in an error: for good, or to be begun anew."""
    code = error.get("code") if isinstance(error, dict) else None
    if code in FINAL:
        return Refused(f"speechkit ended with code {code}")
    number = code if isinstance(code, int) else "unknown"
    return Unknown(f"speechkit ended the operation with code {number}")
