"""`transcriber send FILE...`: upload, wait, print the text."""

from __future__ import annotations

import argparse
import io
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.cli import account, server
from worker.cli.api import Patience, Session, UnreachableError, client
from worker.cli.error import CommandError
from worker.cli.progress import Bar

PATIENCE = 300.0
"""Seconds of trouble on the way to the server before waiting is given up."""
FIRST_LOOK, LONGEST_LOOK = 0.25, 2.0
"""Seconds between looks: a voice message is done in no time, a lecture is not."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A recording that the server has."""

    path: Path
    job: str


class Reading(io.FileIO):
    """A file that moves a bar as it is read."""

    def __init__(self, path: Path, bar: Bar) -> None:
        super().__init__(path)
        self._bar = bar
        self._size = path.stat().st_size

    def read(self, size: int | None = -1, /) -> bytes:
        """As ever, and the bar moves."""
        data = super().read(-1 if size is None else size) or b""
        self._bar.show(self.tell() / self._size if self._size else None, "sending")
        return data


def run(options: argparse.Namespace) -> int:
    """Upload all, then print each text in order. 1 when any of them gave none."""
    hints = ("language", "title", "vocabulary", "channels")
    fields = {name: getattr(options, name) for name in hints}
    fields = {name: value for name, value in fields.items() if value}
    who = account.choose(options.email, server.url)
    with client(who.url) as http:
        session = Session(http, "users", who.email, who.password)
        sent: list[Sent] = []
        finished: list[bool] = []
        try:
            for name in options.files:
                if one := _upload(session, Path(name), fields):
                    sent.append(one)
            for one in sent:
                finished.append(_result(session, one, headed=len(options.files) > 1))
        except KeyboardInterrupt:
            for one in sent[len(finished) :]:
                print(
                    f"\nThe work goes on. Ask with: {server.command()} status {one.job}",
                    file=sys.stderr,
                )
            raise
    return 0 if len(finished) == len(options.files) and all(finished) else 1


def _upload(session: Session, path: Path, fields: dict[str, str]) -> Sent | None:
    try:
        with Bar(path.name) as bar, Reading(path, bar) as file:
            sent = Sent(path, session.upload(path.name, file, fields))
    except OSError as error:
        _complain(path, (error.strerror or "cannot be read").lower())
        return None
    except CommandError as error:  # not sent again by itself: it may have arrived
        _complain(path, str(error))
        return None
    print(f"{path.name}: sent as {sent.job}", file=sys.stderr)
    return sent


def _result(session: Session, sent: Sent, *, headed: bool) -> bool:
    try:
        status = wait(session, sent)
    except CommandError as error:
        _complain(
            sent.path, f"{error}: the work goes on, ask with `{server.command()} status {sent.job}`"
        )
        return False
    if headed:
        print(f"== {sent.path.name} ==")
    text = status.get("transcription_text")
    if text is None:
        _complain(
            sent.path, f"could not be transcribed (stopped at {status['status']}, job {sent.job})"
        )
        return False
    if text:
        print(text, flush=True)
    else:
        _complain(sent.path, "no speech was found in it")
    return True


def wait(session: Session, sent: Sent) -> dict[str, Any]:
    """The status once there is a text, or once there will be none.

    Raises:
        UnreachableError: the server was away for `PATIENCE`.
        RefusalError: the job is not there any more.
    """
    patience = Patience(PATIENCE)
    pause = FIRST_LOOK
    with Bar(sent.path.name) as bar:
        while True:
            try:
                status = session.status(sent.job)
                patience.well()
            except UnreachableError as error:
                if patience.spent():
                    raise
                bar.show(None, f"waiting: {error}")
            else:
                if "transcription_text" in status or status.get("halted"):
                    return status
                if status["status"] == "done":  # without a text: somebody removed it
                    return status
                bar.show(status.get("progress"), status["status"])
            time.sleep(pause)
            pause = min(pause * 1.3, LONGEST_LOOK)


def _complain(path: Path, what: str) -> None:
    print(f"{path.name}: {what}", file=sys.stderr)
