"""What is wrong with the settings, in words for the owner: by its key, and never with a value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dotenv.parser import parse_stream
from pydantic import ValidationError

from worker.errors import Problem


def refused(error: ValidationError) -> Iterator[Problem]:
    """What pydantic does not take."""
    for detail in error.errors(include_input=False, include_context=False, include_url=False):
        key = str(detail["loc"][0]).upper()
        if detail["type"] == "missing":
            yield Problem(key, "must be set")
        elif detail["type"] == "bool_parsing":
            yield Problem(key, "must be true or false")
        elif detail["type"] == "extra_forbidden":
            yield Problem(key, "no such setting")
        else:
            message = detail["msg"].removeprefix("Value error, ")
            yield Problem(key, message.replace("Input should be", "must be"))


def in_file(path: Path, keys: Sequence[str]) -> Iterator[Problem]:
    """What pydantic passes over in silence: lines it cannot read, and none of the `keys`."""
    if not path.exists():
        return
    try:
        with path.open(encoding="utf-8") as file:
            bindings = list(parse_stream(file))
    except OSError as error:
        yield Problem(str(path), f"cannot be read: {(error.strerror or '').lower()}")
        return
    except UnicodeDecodeError:
        yield Problem(str(path), "must be text in UTF-8")
        return
    for binding in bindings:
        if binding.error:
            text = binding.original.string
            line = binding.original.line + len(text) - len(text.lstrip("\r\n"))
            yield Problem(str(path), f"line {line}: must be KEY=value")
        elif binding.key and binding.key.upper() not in keys:
            yield _unknown(binding.key, keys, cutoff=0.75)


def misspelt(names: Iterable[str], keys: Sequence[str]) -> Iterator[Problem]:
    """Variables of the environment that can only be meant for us.

    Others' names must not trip this: short keys are everybody's (`LOGLEVEL`), and so is a shared
    beginning (`TELEGRAM_API_HASH`, `POCKETBASE_TOKEN`).
    """
    long = [key for key in keys if len(key) >= 10]
    for name in names:
        if name.upper() not in keys and difflib.get_close_matches(name.upper(), long, 1, 0.9):
            yield _unknown(name, keys, cutoff=0.9)


def _unknown(name: str, keys: Sequence[str], cutoff: float) -> Problem:
    close = difflib.get_close_matches(name.upper(), keys, 1, cutoff)
    hint = f": did you mean {close[0]}?" if close else ""
    return Problem(name, f"no such setting{hint}")
