"""Random environments and `.env` files.

Either the settings load, each as given or by its default and fit to be used, or every problem is
told at once, by its key and never with a value. A process over bad ones ends with code 78.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from fuzz.run import Run
from tests.acceptance.service import REPOSITORY
from worker import settings
from worker.errors import EXIT_CONFIGURATION, ConfigurationError
from worker.settings import KEYS, Settings

MARK = "Zq7xK"
"""Stands in values that nobody may be shown."""
GIVEN = (
    "true",
    "false",
    "1",
    "0",
    "yes",
    "TRUE",
    "openai",
    "local",
    "speechkit",
    "split",
    "ru",
    "EN",
    "debug",
    "base",
    "127.0.0.1:8091",
    "localhost:9466",
    "[::1]:9000",
    "http://127.0.0.1:1/v1",
    "a@b.example",
    "12345678",
    "3",
    "0.5",
    "24",
    "reply",
    "json",
)
ODD = (
    "nan",
    "inf",
    "-inf",
    "1e309",
    "-1",
    "1_000",
    "٣",
    "0x10",
    "127.0.0.1:٣٣٣٣",
    ":1",
    "a:b:1",
    "::1:80",
    "http://",
    "ftp://x",
    "HTTP://x",
    "http:///",
    "/dev/null",
    "~",
    "~nobody/x",
    "?",
    "data?x=1",
    "",
    " ",
    "\t",
    "''",
    '"',
    "'",
    "#",
    "a#b",
    "${HOME}",
    "$(id)",
    "\\",
    "\\n",
    "null",
    "None",
    "[]",
    "{}",
    "127.0.0.1:0",
    "127.0.0.1:65536",
    "127.0.0.1:00080",
    "ж",
    "\ufeff",
    "\u202e",
    "x" * 500,
    "ж" * 300,
    "\x7f",
    "99999999999999999999999",
    "1.0000000000000000000001",
)
ALONE = frozenset(
    {
        "TELEGRAM_TOKEN",
        "RECOGNISER_FALLBACK",
        "OPENAI_URL",
        "SPEECHKIT_IAM_TOKEN",
        "PROOFREAD_MODEL",
        "MEDIA_HTTP",
        "METRICS_HTTP",
        "BACKOFF_MAX_SECONDS",
    }
)
"""Whether these are right depends on others."""
PROCESS_EVERY = 150
"""Cases between two that a whole process is started with."""


def fuzz(run: Run) -> None:
    """Load each case."""
    home = Path.cwd()
    run.folder.joinpath("settings").mkdir()
    os.chdir(run.folder / "settings")
    try:
        for number, rng in run.each():
            given, file = _environment(rng), _file(rng)
            with _surroundings(given, file):
                _case(run, number, given, file)
    finally:
        os.chdir(home)


def _value(rng: Random) -> str:
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(GIVEN)
    if kind < 0.7:
        return rng.choice(ODD)
    if kind < 0.85:
        return MARK + rng.choice(ODD)
    return MARK + "".join(
        chr(rng.choice([rng.randrange(33, 127), rng.randrange(1, 0x500)]))
        for _ in range(rng.randrange(30))
    )


def _environment(rng: Random) -> dict[str, str]:
    given = {rng.choice(KEYS): _value(rng) for _ in range(rng.choice([0, 1, 2, 5, 20]))}
    if rng.random() < 0.7:
        given["TELEGRAM_ENABLED"] = "false"
    if rng.random() < 0.1:
        given[rng.choice(KEYS) + rng.choice(["S", "_", "X"])] = _value(rng)
    return {key: value.replace("\0", "") for key, value in given.items()}


def _file(rng: Random) -> bytes | None:
    if rng.random() < 0.4:
        return None
    lines = []
    for _ in range(rng.choice([0, 1, 3, 10])):
        key, value = rng.choice(KEYS), _value(rng)
        lines.append(
            rng.choice(
                [
                    f"{key}={value}",
                    f"{key}={value}",
                    f'{key}="{value}"',
                    f"{key}='{value}'",
                    f"export {key}={value}",
                    f"{key.lower()}={value}",
                    f"{key} = {value}",
                    f"{key}: {value}",
                    f"={value}",
                    f'{key}="{value}',
                    f'{key}="{value}\\x00\\n"',
                    f"# {key}={value}",
                    f"{key}X={value}",
                ]
            )
        )
    data = rng.choice(["\n", "\r\n", "\n\n"]).join(lines).encode()
    kind = rng.random()
    if kind < 0.05:
        return b"\xff\xfe" + data
    if kind < 0.1:
        at = rng.randrange(len(data) + 1)
        return data[:at] + rng.choice([b"\0", b"\xed\xa0\x80", b"\x1a", b"\r"]) + data[at:]
    return data


@contextmanager
def _surroundings(given: Mapping[str, str], file: bytes | None) -> Iterator[None]:
    kept = dict(os.environ)
    for key in kept:
        if key.upper() in KEYS:
            del os.environ[key]
    os.environ.update(given)
    path = Path(".env")
    if file is not None:
        path.write_bytes(file)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.environ.clear()
        os.environ.update(kept)


def _case(run: Run, number: int, given: dict[str, str], file: bytes | None) -> None:
    told = f"{given!r} and {file!r}"
    try:
        loaded = settings.load()
    except ConfigurationError as error:
        run.seen["refused"] += 1
        keys = {problem.key for problem in error.problems}
        _told(run, number, error, told)
        if number % PROCESS_EVERY == 0:
            _process(run, number, keys, told)
        Path(".env").unlink(missing_ok=True)
        _all_at_once(run, number, given, keys, told)
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        run.found(number, f"{type(error).__name__} {str(error)[:200]}", told)
    else:
        run.seen["loaded"] += 1
        if problem := _unusable(loaded):
            run.found(number, f"loaded, and {problem}", told)
        if file is None:
            _as_documented(run, number, loaded, given, told)


def _told(run: Run, number: int, error: ConfigurationError, told: str) -> None:
    if not error.problems:
        run.found(number, "a refusal without a problem", told)
    for problem in error.problems:
        if MARK in problem.message or "Traceback" in problem.message:
            run.found(number, f"a problem shows a value: {problem}", told)


def _all_at_once(run: Run, number: int, given: dict[str, str], keys: set[str], told: str) -> None:
    """What is wrong by itself is named, whatever else is."""
    for key, value in given.items():
        if key not in KEYS or key in ALONE or key in keys or not value:
            continue
        with _surroundings({"TELEGRAM_ENABLED": "false", key: value}, None):
            try:
                settings.load()
            except ConfigurationError as error:
                if key in {problem.key for problem in error.problems}:
                    run.found(number, f"{key} is wrong and not named beside {sorted(keys)}", told)


def _unusable(loaded: Settings) -> str:
    """What of it would fail later, where nobody names the setting any more."""
    for name in ("pocketbase_http", "media_http", "metrics_http"):
        address = getattr(loaded, name)
        host, port = settings.split(address)
        if not address.isascii() or not host or not 0 < port < 65536 or " " in address:
            return f"{name} is no address: {address!r}"
    for name in ("url", "telegram_api_url", "openai_url", "speechkit_url", "proofread_url"):
        url = getattr(loaded, name)
        if any(ord(sign) < 33 for sign in url):
            return f"{name} is no address: {url!r}"
    folder = str(loaded.folders.root)
    if "\0" in folder:
        return f"data_dir is no folder: {folder!r}"
    if not 0 < loaded.max_duration_seconds < 1e7 or loaded.threads < 1:
        return "a number is out of its range"
    for name in ("owner_email", "engine_model", "openai_model", "speakers_model"):
        if "\0" in getattr(loaded, name):
            return f"{name} has a NUL, which no command line takes"
    return "" if loaded.recognisers else "nobody recognises"


def _as_documented(
    run: Run, number: int, loaded: Settings, given: dict[str, str], told: str
) -> None:
    for name, info in Settings.model_fields.items():
        value: Any = getattr(loaded, name)
        if not given.get(name.upper()) and name != "telegram_enabled" and value != info.default:
            run.found(number, f"{name} is {value!r} without having been given", told)
        asked = given.get(name.upper(), "")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if asked in GIVEN and is_number and float(asked) != float(value):
            run.found(number, f"{name} is {value!r} and not {asked!r}", told)


def _process(run: Run, number: int, keys: set[str], told: str) -> None:
    """A whole process says the same and ends with the code."""
    done = subprocess.run(
        [sys.executable, "-m", "worker", "media"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )
    run.seen["processes"] += 1
    printed = done.stdout + done.stderr
    if done.returncode != EXIT_CONFIGURATION:
        run.found(number, f"the process ended with {done.returncode}: {printed[-300:]}", told)
    if "Traceback" in printed or any(key not in printed for key in keys if key.isprintable()):
        run.found(number, f"the process did not name every key: {printed[-400:]}", told)
