"""What models put around a text, taken off again."""

from __future__ import annotations

import re
from typing import Final

from worker.printable import printable
from worker.proofreading.judge import distance, words

_THOUGHTS: Final = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
_FENCE: Final = re.compile(r"\A(`{3,}|~{3,})[^\n`]*\n(.*?)\n?\1\Z", re.DOTALL)
_TAG: Final = re.compile(r"</?[a-zA-Z]{1,15}/?>")
_LINE_START: Final = re.compile(r"(?m)^[ \t]*(?:#{1,6}|[*+>•])[ \t]+")
_QUOTES: Final = ('""', "''", "«»", "“”", "„“", "‘’", "``")
_LAYERS: Final = 5
_REMARKS: Final = 3
"""Lines that may be taken off at either end."""


def clean(answer: str, raw: str) -> str:
    """The corrected text out of a model's answer to `raw`, on one line where `raw` is on one."""
    text = _THOUGHTS.sub("", printable(answer)).strip()
    for _ in range(_LAYERS):
        before, text = text, _stripped(text, raw)
        if text == before:
            break
    return text


def _stripped(text: str, raw: str) -> str:
    """Without the outermost of what is around it."""
    text = _unquoted(_unfenced(text), raw)
    if "<" not in raw:
        text = _TAG.sub("", text)
    text = _without_markup(text, raw).strip()
    if "\n" in raw:
        return text
    return " ".join(_without_remarks(text.splitlines(), raw))


def _unfenced(text: str) -> str:
    found = _FENCE.match(text)
    return found[2] if found else text


def _unquoted(text: str, raw: str) -> str:
    for first, last in _QUOTES:
        inside = text[1:-1]
        around = len(text) > 1 and text[0] == first and text[-1] == last
        if around and not raw.startswith(first) and first not in inside and last not in inside:
            return inside
    return text


def _without_markup(text: str, raw: str) -> str:
    text = _LINE_START.sub("", text)
    for mark in "*`":
        if mark not in raw:
            text = text.replace(mark, "")
    if "_" not in raw:  # around words only: it stands inside some terms
        text = re.sub(r"(?<![^\W_])_+|_+(?![^\W_])", "", text)
    return text


def _without_remarks(lines: list[str], raw: str) -> list[str]:
    """The lines without those at either end that have nothing to do with the raw text."""
    lines = [line.strip() for line in lines if line.strip()]
    heard = words(raw)
    if sum(len(words(line)) for line in lines) > 2 * len(heard) + 50:
        return lines  # astray, whatever is taken off

    def away(some: list[str]) -> int:
        return distance(heard, words(" ".join(some)))

    for less in (slice(1, None), slice(None, -1)):
        for _ in range(_REMARKS):
            if len(lines) > 1 and away(lines[less]) < away(lines):
                lines = lines[less]
    return lines
