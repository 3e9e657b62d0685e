"""SpeechKit's answer about a result, a stream of JSON objects, as a transcript.

Finals come one by one, each perhaps with a refinement later, which takes its place. Which of the
finals is meant the server says in more than one way, and not always in the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from worker.jobs import Transcript
from worker.printable import printable
from worker.recognisers import languages

EVENTS: Final = frozenset({
    "partial", "final", "finalRefinement", "eouUpdate", "statusCode", "classifierUpdate",
    "speakerAnalysis", "conversationAnalysis", "summarization",
})  # fmt: skip
"""What a message of a result tells, one of these each."""


@dataclass
class _Final:
    channel: str
    ordinal: int
    """Which one of its channel it is."""
    index: int | None
    """What the server calls it."""
    alternative: dict[str, Any]
    refined: bool = False


def understood(stream: str, engine: str) -> Transcript:
    """A result: JSON objects one after the other, finals and what refines them.

    Raises:
        ValueError, TypeError and others of `remote.MALFORMED`: it is broken off, or something else.
    """
    finals: list[_Final] = []
    told = False
    for each in _objects(stream):
        if "error" in each:
            raise ValueError("an error in the stream")
        result = each["result"]
        told = told or not EVENTS.isdisjoint(result.keys())
        if "final" in result:
            _add(finals, result)
        elif "finalRefinement" in result:
            _refine(finals, result)
    if not told:  # nobody spoke where the server says so, not where it says nothing
        raise ValueError("no result in it")
    segments = [segment for final in finals if (segment := _segment(final.alternative))]
    segments.sort(key=lambda segment: (segment["start"], segment["end"]))
    text = " ".join(str(segment["text"]) for segment in segments)
    return Transcript(
        text=text, segments=segments, language=_language(finals) if text else "", engine=engine
    )


def _objects(stream: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder()
    at = 0
    while True:
        while at < len(stream) and stream[at].isspace():
            at += 1
        if at == len(stream):
            return
        found, at = decoder.raw_decode(stream, at)
        if not isinstance(found, dict):
            raise TypeError("not an object")
        yield found


def _channel(result: dict[str, Any], inner: dict[str, Any]) -> str:
    return str(inner.get("channelTag") or result.get("channelTag") or "0")


def _add(finals: list[_Final], result: dict[str, Any]) -> None:
    channel = _channel(result, result["final"])
    index = (result.get("audioCursors") or {}).get("finalIndex")
    finals.append(
        _Final(
            channel,
            sum(final.channel == channel for final in finals),
            None if index is None else int(index),
            _first(result["final"]),
        )
    )


def _refine(finals: list[_Final], result: dict[str, Any]) -> None:
    refinement = result["finalRefinement"]
    text = refinement["normalizedText"]
    channel, index = _channel(result, text), int(refinement.get("finalIndex") or 0)
    own = [final for final in finals if final.channel == channel]
    fresh = [final for final in reversed(own) if not final.refined]
    alternative = _first(text)
    there = [final for final in own if _meet(final.alternative, alternative)]
    # The server's own number first, then the place in time, then the order of coming. Whatever it
    # counts by, a refinement is never a text beside the final that it refines.
    found = (
        [final for final in fresh if final.index == index]
        or [final for final in there if final.index == index]
        or there
        or [final for final in fresh if final.ordinal == index]
        or fresh
    )
    if not found:
        finals.append(_Final(channel, len(own), index, alternative, refined=True))
        return
    refined = max(
        found,
        key=lambda final: (
            _overlap(final.alternative, alternative),
            not final.refined,
            final.ordinal == index,
        ),
    )
    # What the refinement does not say anew stays.
    kept = {key: value for key, value in alternative.items() if value or key == "text"}
    refined.alternative = refined.alternative | kept
    refined.refined = True


def _meet(one: dict[str, Any], two: dict[str, Any]) -> bool:
    first, second = _times(one), _times(two)
    return first["start"] < second["end"] and second["start"] < first["end"]


def _overlap(one: dict[str, Any], two: dict[str, Any]) -> float:
    """What share of the time that the two take they have in common."""
    first, second = _times(one), _times(two)
    common = min(first["end"], second["end"]) - max(first["start"], second["start"])
    whole = max(first["end"], second["end"]) - min(first["start"], second["start"])
    return max(common, 0.0) / whole if whole else 0.0


def _first(update: dict[str, Any]) -> dict[str, Any]:
    alternatives = update.get("alternatives") or [{}]
    first: dict[str, Any] = alternatives[0]
    return first


def _segment(alternative: dict[str, Any]) -> dict[str, Any] | None:
    text = printable(str(alternative.get("text") or "")).strip()
    if not text:
        return None
    segment: dict[str, Any] = {**_times(alternative), "text": text}
    if words := alternative.get("words"):
        segment["words"] = [
            {**_times(word), "word": printable(str(word["text"]))} for word in words
        ]
    return segment


def _times(what: dict[str, Any]) -> dict[str, float]:
    # An int64 is a string in JSON, and a zero may be left out.
    start, end = (max(int(what.get(key) or 0), 0) for key in ("startTimeMs", "endTimeMs"))
    return {"start": start / 1000, "end": max(start, end) / 1000}


def _language(finals: list[_Final]) -> str:
    """The language that most of the text is in, where the server estimates any."""
    weights: dict[str, float] = {}
    for final in finals:
        size = len(str(final.alternative.get("text") or ""))
        for guess in final.alternative.get("languages") or []:
            code = languages.code(guess.get("languageCode"))
            weights[code] = weights.get(code, 0.0) + size * float(guess.get("probability") or 0)
    return max(weights, key=weights.__getitem__) if weights else ""
