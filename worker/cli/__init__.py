"""The console script `transcriber`: one module per command."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from worker.errors import EXIT_CONFIGURATION, ConfigurationError, TranscriberError, describe

EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code. Expected faults are one line each, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that knows no Cyrillic is no fault
            stream.reconfigure(errors="replace")
    options = _parser().parse_args(arguments)
    # Imported only now: `send` need not wait for what `up` is made of.
    command = importlib.import_module(f"worker.cli.{options.command}")
    try:
        code: int = command.run(options)
        sys.stdout.flush()
    except ConfigurationError as error:
        for problem in error.problems:
            print(f"transcriber: {problem}", file=sys.stderr)
        return EXIT_CONFIGURATION
    except TranscriberError as error:
        print(f"transcriber: {describe(error)}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `transcriber status ID | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="transcriber", description="Recordings in, text out.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    commands.add_parser("up", help="start the service and keep it running")
    commands.add_parser("doctor", help="check everything, and say what to do about each fault")

    user = commands.add_parser("user", help="add an account that may send recordings")
    actions = user.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", help="add an account that may send recordings")
    add.add_argument("email", metavar="EMAIL")
    add.add_argument(
        "--password-stdin", action="store_true", help="read its password instead of making one up"
    )
    add.add_argument(
        "--remember",
        action=argparse.BooleanOptionalAction,
        help="keep the account for `send` and `status` (by itself: when none is kept yet)",
    )

    account = argparse.ArgumentParser(add_help=False)
    account.add_argument("--email", help="the account to use (default: the one kept)")
    send = commands.add_parser(
        "send", parents=[account], help="send recordings, wait, and print their texts"
    )
    send.add_argument("files", metavar="FILE", nargs="+")
    send.add_argument("--language", help="what is spoken (ru, en, ...); found out when not given")
    send.add_argument("--title", help="what the recording is")
    send.add_argument("--vocabulary", help='words to expect: "Ожогин, PocketBase"')

    send.add_argument(
        "--channels",
        choices=("mix", "split"),
        help="of stereo: `split` for a speaker in each channel, `mix` for both together",
    )

    status = commands.add_parser(
        "status", parents=[account], help="say how far a recording is, and print its text"
    )
    status.add_argument("id", metavar="ID")
    return parser
