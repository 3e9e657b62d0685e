"""Has texts corrected, piece by piece, many recordings at a time; the raw text stands in doubt."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from dataclasses import dataclass
from typing import Final

from worker.errors import Cancelled, ProofreadingFailed
from worker.jobs import Transcript
from worker.proofreading import align
from worker.proofreading.clean import clean
from worker.proofreading.endpoint import Endpoint
from worker.proofreading.judge import strays
from worker.proofreading.pieces import cut
from worker.settings import Settings

AT_ONCE: Final = 2
"""Pieces in correction at the same time. Their turns are in order, so that a short recording waits
for some pieces of a long one, and not for all of it."""
TRIES: Final = 3
PAUSE: Final = 1.0
"""Seconds after a first failed try; doubled after the second."""
LONGEST_PAUSE: Final = 30.0
"""Seconds of a pause that the server asks for, and that a text is worth waiting for."""


@dataclass(frozen=True, slots=True)
class Proofread:
    """What became of a text."""

    transcript: Transcript | None
    """None where most of it would have been the raw text again."""
    pieces: int
    kept: tuple[str, ...]
    """Why pieces were left as they were, a reason for each."""


class Proofreader:
    """Works on an event loop in a thread of its own; any thread may ask it, and waits."""

    def __init__(self, settings: Settings) -> None:
        self._engine = f"chat/{settings.proofread_model}"
        self._patience = settings.proofread_timeout_seconds
        self._endpoint = Endpoint(settings)
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._rests_until = 0.0
        self._closing = threading.Lock()
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proofreader", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Break off what is under way."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)

    def __enter__(self) -> Proofreader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def proofread(self, raw: Transcript, vocabulary: str, limit: float) -> Proofread:
        """Have the text corrected within `limit` seconds; what is not done by then stays raw.

        Raises:
            Cancelled: the process is stopping.
        """
        with self._closing:
            if self._closed:
                raise Cancelled
            future = asyncio.run_coroutine_threadsafe(
                self._proofread(raw, vocabulary, limit), self._loop
            )
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Cancelled from None

    def _run(self) -> None:
        loop = self._loop
        try:
            loop.run_forever()
            loop.run_until_complete(self._end())
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    async def _end(self) -> None:
        """Cancel what is under way; whoever waits for it learns that."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._endpoint.close()

    async def _proofread(self, raw: Transcript, vocabulary: str, limit: float) -> Proofread:
        deadline = self._loop.time() + limit
        pieces = cut(raw.text)
        pairs: list[tuple[str, str]] = []
        kept: list[str] = []
        fault = ""  # why none is asked for any more
        for piece in pieces:
            text, reason = piece.strip(), fault
            corrected = text
            if text and not fault:
                try:
                    corrected = await self._correct(text, vocabulary, deadline)
                except ProofreadingFailed as error:
                    reason = error.reason
                    fault = "" if error.kind == "piece" else reason
            if reason:
                kept.append(reason)
            # What stood between the pieces is none of the model's.
            start = len(piece) - len(piece.lstrip())
            pairs.append((piece, piece[:start] + corrected + piece[start + len(text) :]))
            if 2 * len(kept) > len(pieces):
                return Proofread(None, len(pieces), tuple(kept))
        transcript = Transcript(
            text="".join(corrected for _, corrected in pairs),
            segments=align.segments(raw.segments, pairs),
            language=raw.language,
            engine=self._engine,
            kind="proofread",
        )
        return Proofread(transcript, len(pieces), tuple(kept))

    async def _correct(self, text: str, vocabulary: str, deadline: float) -> str:
        """The piece corrected, and found to be the same piece.

        Raises:
            ProofreadingFailed: there is no correction, or it strays.
        """
        corrected = clean(await self._ask(text, vocabulary, deadline), text)
        if reason := strays(text, corrected, vocabulary):
            raise ProofreadingFailed(f"strays ({reason})", "piece")
        return corrected

    async def _ask(self, text: str, vocabulary: str, deadline: float) -> str:
        for tried in range(1, TRIES + 1):
            try:
                async with asyncio.timeout_at(deadline), self._turns:
                    return await self._ask_now(text, vocabulary)
            except TimeoutError:
                raise ProofreadingFailed("out of time", "lasting") from None
            except ProofreadingFailed as error:
                pause = max(error.after, PAUSE * 2 ** (tried - 1))
                in_time = self._loop.time() + pause < deadline and pause <= LONGEST_PAUSE
                if error.kind != "passing" or tried == TRIES or not in_time:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def _ask_now(self, text: str, vocabulary: str) -> str:
        # An endpoint that does not answer has made some recordings wait; the next ones pass.
        if self._loop.time() < self._rests_until:
            raise ProofreadingFailed("no answer to others a moment ago", "lasting")
        try:
            return await self._endpoint.correct(text, vocabulary)
        except ProofreadingFailed as error:
            if error.kind == "slow":
                self._rests_until = self._loop.time() + self._patience
            raise
