"""Any server with `POST /audio/transcriptions`, the hosted one or one of your own.

It knows no operations, so the work is done while submitting, piece by piece: each piece's text is
kept in PocketBase as soon as it is there, under a token that a later holder of the job makes void.
A crash costs the piece in work; a turn that is over lets other recordings come between.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import httpx

from worker.errors import RecogniserRefused, RecogniserUnavailable
from worker.jobs import Recording
from worker.pocketbase.client import Client, held
from worker.printable import printable
from worker.recognisers import languages, pieces, remote
from worker.recognisers.base import Abilities, Unfinished, Verdict
from worker.recognisers.limits import TURN, piece_limit
from worker.recognisers.local import Rows
from worker.settings import Settings

Segments = list[dict[str, Any]]

PREFIX: Final = "openai:"
BYTES_PER_SECOND: Final = 32_200
"""What FLAC of 16 kHz mono takes at the very worst, as samples with a frame around them."""
ROOM: Final = 64 * 1024
"""Bytes of a request that are not audio, and of a file that are no sound."""
TRIES: Final = 3
"""Calls for one piece in one turn."""
SOON: Final = 5.0
"""Seconds that a server may ask for to be waited for within the turn."""
PROMPT: Final = 600
"""Characters of vocabulary: the models read some two hundred tokens."""
HEARD: Final = 3.0
"""Seconds of voice from which on a piece without a text is a missing piece."""


class OpenAiRecogniser:
    """One server, as `OPENAI_URL` names it."""

    name: ClassVar[str] = "openai"
    abilities: ClassVar[Abilities] = Abilities(
        word_times=True,
        vocabulary=True,
        languages=None,
        longest=None,
        public_address=False,
        leaves_machine=True,
    )

    def __init__(
        self,
        settings: Settings,
        client: Client,
        stop: threading.Event,
        recognised: Callable[[float], None] = lambda seconds: None,  # noqa: ARG005 - the caller's form
        turn: float = TURN,
    ) -> None:
        """`recognised` counts seconds of audio; `turn`: seconds after which others have theirs."""
        self._settings = settings
        self._rows = Rows(client)
        self._stop = stop
        self._recognised = recognised
        self._turn = turn
        self._remote = remote.Remote(self.name, "OPENAI_API_KEY", stop)
        self._verbose = settings.openai_response != "json"

    def close(self) -> None:
        """Close the connections."""
        self._remote.close()

    def submit(self, recording: Recording, audio: Callable[[], Path]) -> str | Unfinished:
        """Recognise for a turn: what is kept already stays, one piece at least is added."""
        row = self._rows.take(recording, self.name)
        if row["state"] == "queued" and any(
            end - start > self.longest + 1 for start, end, *_ in row["units"] or ()
        ):
            # The limits were lowered since it was cut: what is left could only be refused.
            self._write(recording, row, "finish", outcome="lost")
            row = self._rows.take(recording, self.name)
        if row["state"] == "queued" and not self._work(recording, row, _once(audio)):
            return Unfinished()
        return f"{PREFIX}{row['id']}"

    def check(self, operation: str) -> Verdict:
        """What was kept."""
        return self._rows.look(operation.removeprefix(PREFIX))

    def cancel(self, operation: str) -> bool:
        """Remove what was kept; who still works on it learns that by its next write."""
        self._rows.remove(operation.removeprefix(PREFIX))
        return True

    @property
    def longest(self) -> float:
        """Seconds of a piece, so that neither of the server's limits can be met."""
        room = self._settings.openai_max_mb * 2**20 - ROOM
        return min(self._settings.openai_max_seconds, room / BYTES_PER_SECOND)

    def _write(self, recording: Recording, row: dict[str, Any], action: str, **body: Any) -> None:
        with held(recording.id):
            self._rows.act(row["id"], action, lease_token=row["lease_token"], **body)

    def _work(self, recording: Recording, row: dict[str, Any], audio: Callable[[], Path]) -> bool:
        """Whether the recording is done."""
        write = partial(self._write, recording, row)
        if row["units"] is None:
            planned = pieces.sandboxed(
                pieces.plan,
                audio(),
                self.longest,
                duration=recording.duration,
                stop=self._stop,
                memory=pieces.memory(recording.duration),
            )
            write("cut", units=[piece.row for piece in planned], language="")
        else:
            planned = [pieces.Piece.of(unit) for unit in row["units"]]
        deadline, worked = time.monotonic() + self._turn, False
        for number, piece in enumerate(planned):
            if number in row["done"]:
                continue
            if worked and time.monotonic() > deadline:
                return False
            file = audio().with_name(f"piece-{number}.flac")
            pieces.sandboxed(
                pieces.flac, audio(), file, piece, duration=recording.duration, stop=self._stop
            )
            segments = self._insist(recording, file, piece, deadline)
            file.unlink()
            if piece.channel is not None:
                segments = [{**segment, "channel": piece.channel} for segment in segments]
            write("segments", unit=number, segments=segments)
            self._recognised(piece.end - piece.start)
            worked = True
        write("finish", outcome="done", engine=f"{self.name}/{self._settings.openai_model}")
        return True

    def _insist(
        self, recording: Recording, file: Path, piece: pieces.Piece, deadline: float
    ) -> Segments:
        """A piece's segments; a call that fails is made again while the turn lasts."""
        pause = 1.0
        for number in range(1, TRIES + 1):
            try:
                segments = self._ask(recording, file, piece)
                if not segments and piece.heard >= HEARD:
                    raise self._remote.unavailable(f"no text in {piece.heard:.0f} s of speech")
            except RecogniserUnavailable as error:
                pause = max(pause, error.pause)
                over = time.monotonic() + pause > deadline or pause > SOON
                if over or number == TRIES or (error.blameless and not error.pause):
                    raise
            else:
                return segments
            self._remote.rest(pause * random.uniform(1.0, 1.2))  # noqa: S311 - jitter
            pause *= 3
        raise AssertionError  # the last try returns or raises

    def _ask(self, recording: Recording, file: Path, piece: pieces.Piece) -> Segments:
        """Send a piece; what came back, as segments of the recording."""
        if self._verbose:
            try:
                return self._transcribe(recording, file, piece, "verbose_json")
            except RecogniserRefused:
                # The newer models know `json` only; whether that was it, the next call shows.
                if self._settings.openai_response != "auto":
                    raise
            segments = self._transcribe(recording, file, piece, "json")
            self._verbose = False
            return segments
        return self._transcribe(recording, file, piece, "json")

    def _transcribe(
        self, recording: Recording, file: Path, piece: pieces.Piece, form: str
    ) -> Segments:
        key = self._settings.openai_api_key.get_secret_value()
        fields: dict[str, Any] = {
            "model": self._settings.openai_model,
            "response_format": form,
            "temperature": "0",
        }
        if language := languages.code(recording.language):
            fields["language"] = language
        if prompt := bounded(recording.vocabulary):
            fields["prompt"] = prompt
        if form == "verbose_json":
            fields["timestamp_granularities[]"] = ["segment", "word"]

        def post(http: httpx.Client) -> httpx.Response:
            with file.open("rb") as body:
                return http.post(
                    f"{self._settings.openai_url}/audio/transcriptions",
                    data=fields,
                    files={"file": ("audio.flac", body, "audio/flac")},
                    headers={"Authorization": f"Bearer {key}"} if key else {},
                    timeout=remote.timeout(piece_limit(piece.end - piece.start)),
                )

        response = self._remote.send(post)
        self._remote.judge(response)
        try:
            return understood(response.json(), piece.start, piece.end)
        except remote.MALFORMED:
            raise self._remote.unavailable("answered something that is no transcription") from None


def bounded(vocabulary: str) -> str:
    """The vocabulary, cut between two of its terms where it is too long for a prompt."""
    text = " ".join(vocabulary.split())
    if len(text) <= PROMPT:
        return text
    head = text[: PROMPT + 1]
    at = max(head.rfind(","), head.rfind(";"))
    return head[: at if at > 0 else max(head.rfind(" "), 0) or PROMPT].rstrip(" ,;")


def understood(answer: Any, start: float, end: float) -> Segments:
    """An answer about the piece from `start` to `end`, as segments of the recording.

    Raises:
        ValueError, TypeError and others of `remote.MALFORMED`: it is no transcription.
    """
    if not isinstance(answer, dict) or not ({"text", "segments"} & answer.keys()):
        raise ValueError("neither a text nor segments")
    text = answer.get("text") or ""
    given = answer.get("segments") or []
    if not isinstance(text, str):
        raise TypeError("a text that is none")
    text = printable(text)
    found: Segments = []
    for each in given:
        if said := printable(str(each.get("text") or "")).strip():
            first = _time(each.get("start"), start, end, start)
            found.append(
                {"start": first, "end": _time(each.get("end"), start, end, end), "text": said}
            )
    if len(_letters(text)) > len(_letters("".join(each["text"] for each in found))):
        # What the segments leave out would be lost.
        found = [{"start": round(start, 3), "end": round(end, 3), "text": text.strip()}]
    found.sort(key=lambda segment: segment["start"])
    for segment in found:
        segment["end"] = max(segment["end"], segment["start"])
    _add_words(found, answer.get("words") or [word for s in given for word in s.get("words") or []],
               start, end)  # fmt: skip
    if language := languages.code(answer.get("language")):
        for segment in found:
            segment["language"] = language
    return found


def _add_words(segments: Segments, words: list[dict[str, Any]], start: float, end: float) -> None:
    at = 0
    for word in words:
        first, last = word.get("start"), word.get("end")
        if not segments or not isinstance(first, int | float) or not isinstance(last, int | float):
            return
        middle = start + (first + last) / 2
        while at + 1 < len(segments) and segments[at + 1]["start"] <= middle:
            at += 1
        segments[at].setdefault("words", []).append(
            {
                "start": _time(first, start, end, start),
                "end": _time(last, start, end, end),
                "word": printable(str(word.get("word") or word.get("text") or "")).strip(),
            }
        )


def _time(value: Any, start: float, end: float, otherwise: float) -> float:
    """A time of the piece as one of the recording, within the piece."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return round(otherwise, 3)
    return round(min(max(start + value, start), end), 3)


def _letters(text: str) -> str:
    return "".join(text.split())


def _once(audio: Callable[[], Path]) -> Callable[[], Path]:
    fetched: list[Path] = []

    def fetch() -> Path:
        if not fetched:
            fetched.append(audio())
        return fetched[0]

    return fetch
