"""`transcriber status ID`: how far a recording is, and its text."""

from __future__ import annotations

import argparse

from worker.cli import account, server
from worker.cli.api import Session, client


def run(options: argparse.Namespace) -> int:
    """Print it."""
    who = account.choose(options.email, server.url)
    with client(who.url) as http:
        status = Session(http, "users", who.email, who.password).status(options.id)
    print(f"status: {status['status']}{' (stopped for good)' if status.get('halted') else ''}")
    print(f"sent: {status['created_at']}")
    if "progress" in status:
        print(f"progress: {status['progress']:.0%}")
    if "transcription_text" in status:
        print(f"\n{status['transcription_text'] or '(no speech was found in it)'}")
    return 0
