"""`transcriber doctor`: looks at everything, and says what to do about each fault."""

from __future__ import annotations

import argparse
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

import httpx

from worker import secrets, settings
from worker.cli import outside, server
from worker.cli.api import RefusalError, Session, client
from worker.cli.error import CommandError
from worker.cli.finding import Finding, Level
from worker.cli.up import LISTENERS, occupied
from worker.engine import model, voices
from worker.errors import ConfigurationError, ModelError, Problem, describe
from worker.settings import Settings

WORKERS = "workers@transcriber.local"
TIMEOUT = 5.0
SKEW = 5.0
"""Seconds of difference between clocks that are worth a word."""
LEAST_SPACE = 2_000_000_000
DRAFT = (
    "base is good in English and a draft in Russian (about 22 % word errors on clean speech); "
    "for a better one set ENGINE_MODEL to a folder with a faster-whisper model (CTranslate2), "
    "or to its name on the Hugging Face hub, such as Systran/faster-whisper-small"
)


def run(_: argparse.Namespace) -> int:
    """Print every finding; 1 when there is a fault among them."""
    faults = 0
    for finding in examine():
        faults += finding.level is Level.FAULT
        print(f"{finding.level:<8} {finding.subject:<16} {finding.text}", flush=True)
    print(f"\n{faults} to mend" if faults else "\nAll is well.")
    return 1 if faults else 0


def examine() -> Iterator[Finding]:
    """All the checks. Nothing is started, written or generated."""
    config, problems = _settings()
    service = server.running(config) if config else None
    for problem in problems:
        # The running service was told; this terminal need not be.
        excused = service and problem == Problem("TELEGRAM_ENABLED", "must be set")
        level = Level.NOTE if excused else Level.FAULT
        yield Finding(level, problem.key, f"{problem.message} (in the environment or .env)")
    if config is None:
        return
    if not problems:
        yield Finding(Level.OK, "settings", "all known and well formed")
    yield from _folder(config)
    yield from _model(config)
    yield from _speakers(config)
    yield from outside.look(config)
    up = service is not None or _answers(config.url)
    if not up and not config.pocketbase_url:
        yield Finding(Level.NOTE, "service", "not running: start it with `transcriber up`")
        for name in LISTENERS:
            taken = occupied(config, name)
            level, text = (Level.FAULT, taken.message) if taken else (Level.OK, "free")
            yield Finding(level, name.upper(), text)
        return
    yield from _pocketbase(config, service.url if service else config.url)
    yield from _listener(config, "media_http", "the metadata source: uploads fail without it")
    yield from _metrics(config)


def _settings() -> tuple[Settings | None, tuple[Problem, ...]]:
    """The settings to look on with, however lame, and everything wrong with them."""
    try:
        return settings.load(), ()
    except ConfigurationError as error:
        problems = error.problems
    try:
        return server.lenient(), problems
    except ConfigurationError:
        return None, problems


def _folder(config: Settings) -> Iterator[Finding]:
    folder = config.folders.root
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            yield Finding(Level.OK, "DATA_DIR", f"{config.folders.root} can be written")
    except OSError as error:
        text = f"cannot write there ({error.strerror}): name another folder, or give rights to it"
        yield Finding(Level.FAULT, "DATA_DIR", text)
        return
    free = shutil.disk_usage(folder).free
    # An upload lies there up to three times while it comes in: body, copy, stored file.
    wanted = max(LEAST_SPACE, 3 * config.max_upload_mb * 1_000_000)
    text = f"{free / 1e9:.1f} GB free"
    if free < wanted:
        text += f", {wanted / 1e9:.1f} wanted: make room, or lower MAX_UPLOAD_MB"
    yield Finding(Level.WARNING if free < wanted else Level.OK, "disk space", text)


def _model(config: Settings) -> Iterator[Finding]:
    name = config.engine_model
    if name == model.SHIPPED:
        folder = config.folders.models / f"whisper-{name}"
        try:
            if folder.exists():
                model.verify(folder)
                yield Finding(Level.OK, "model", f"{name}, every file as published")
            else:
                yield Finding(Level.NOTE, "model", f"{name}: put together at the first start")
        except (ModelError, OSError) as error:
            text = f"{describe(error)}: remove {folder}, the next start builds it again"
            yield Finding(Level.FAULT, "model", text)
        yield Finding(Level.NOTE, "model", DRAFT)
        return
    try:
        if model.there(config):
            yield Finding(Level.OK, "model", model.label(config))
        else:
            yield Finding(Level.NOTE, "model", f"{name}: fetched from the hub at the next start")
    except ModelError as error:
        yield Finding(Level.FAULT, "ENGINE_MODEL", describe(error))


def _speakers(config: Settings) -> Iterator[Finding]:
    try:
        if file := voices.find(config):
            width = voices.Voices(file, config.threads).width
            yield Finding(Level.OK, "speakers", f"{file.name}, {width} numbers for a voice")
    except ConfigurationError as error:
        for problem in error.problems:
            yield Finding(Level.FAULT, problem.key, problem.message)
    except ModelError as error:
        yield Finding(Level.FAULT, "SPEAKERS_MODEL", describe(error))


def _pocketbase(config: Settings, url: str) -> Iterator[Finding]:
    with client(url, timeout=TIMEOUT) as http:
        try:
            answer = http.get("/api/health")
            answer.raise_for_status()
        except httpx.HTTPError as error:
            where = "POCKETBASE_URL" if config.pocketbase_url else "POCKETBASE_HTTP"
            text = f"no good answer from {url} ({error}): look at the lines of `pb`, and at {where}"
            yield Finding(Level.FAULT, "PocketBase", text)
            return
        yield Finding(Level.OK, "PocketBase", f"healthy at {url}")
        yield from _clock(answer.headers.get("Date", ""))
        yield from _workers(config, http)


def _workers(config: Settings, http: httpx.Client) -> Iterator[Finding]:
    password = secrets.known(config, secrets.WORKER_PASSWORD)
    if not password:
        text = "not known here: set it to what PocketBase was started with, or run this beside it"
        yield Finding(Level.FAULT, "WORKER_PASSWORD", text)
        return
    try:
        Session(http, "workers", WORKERS, password)
    except RefusalError:
        text = "PocketBase does not accept it: restart `pb` so that it takes over this one"
        yield Finding(Level.FAULT, "WORKER_PASSWORD", text)
    except CommandError as error:
        yield Finding(Level.FAULT, "PocketBase", f"{error}: look at the lines of `pb`")
    else:
        yield Finding(Level.OK, "workers", "can log in")


def _clock(date: str) -> Iterator[Finding]:
    try:
        skew = time.time() - parsedate_to_datetime(date).timestamp()
    except ValueError:
        return
    if abs(skew) > SKEW:
        ahead = "ahead of" if skew > 0 else "behind"
        text = (
            f"{abs(skew):.0f} s {ahead} PocketBase's: harmless for the queue, which goes by its "
            "clock alone, but log lines of the two do not line up: synchronise them (NTP)"
        )
        yield Finding(Level.WARNING, "clock", text)
    else:
        yield Finding(Level.OK, "clock", "agrees with PocketBase's")


def _listener(config: Settings, name: str, what: str) -> Iterator[Finding]:
    try:
        socket.create_connection(settings.split(getattr(config, name)), TIMEOUT).close()
    except OSError as error:
        reason = (error.strerror or "no answer").lower()
        text = f"{reason}. {what}; look at the lines of `media`"
        yield Finding(Level.FAULT, name.upper(), text)
    else:
        yield Finding(Level.OK, name.upper(), "in use by the service")


def _metrics(config: Settings) -> Iterator[Finding]:
    base = f"http://{config.metrics_http}"
    url = f"{base}/metrics"
    try:
        with client(base, timeout=TIMEOUT) as http:
            page = http.get("/metrics")
        if page.is_success and "transcriber_" in page.text:
            yield Finding(Level.OK, "METRICS_HTTP", f"the metrics page is at {url}")
            yield from _alarms(config, page.text)
            return
        reason = f"{url} is not our metrics page (it answered {page.status_code})"
    except httpx.HTTPError as error:
        reason = f"no metrics page at {url} ({error})"
    yield Finding(Level.FAULT, "METRICS_HTTP", f"{reason}: look at the lines of `media`")


def _alarms(config: Settings, page: str) -> Iterator[Finding]:
    """What the page says that an owner should look at."""
    series = dict(re.findall(r"^(transcriber_\S+) (\S+)$", page, re.MULTILINE))
    if (
        config.telegram_enabled
        and float(series.get('transcriber_input_up{input="telegram"}', 1)) < 1
    ):
        text = "down: look at the lines of `telegram`; until it is up, messages wait at Telegram"
        yield Finding(Level.WARNING, "Telegram", text)
    for state in ("failed", "dead"):
        count = float(series.get(f'transcriber_jobs{{state="{state}"}}', 0))
        if count:
            text = (
                f"{count:.0f} {state}: `error_text` in the panel's collection `jobs` says why; "
                "set `state` to a milestone to try again"
            )
            yield Finding(Level.NOTE, "jobs", text)


def _answers(url: str) -> bool:
    try:
        with client(url, timeout=TIMEOUT) as http:
            return http.get("/api/health").is_success
    except (CommandError, httpx.HTTPError):
        return False
