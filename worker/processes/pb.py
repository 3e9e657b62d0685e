"""The process `pb`: PocketBase itself, given its folders and what its hooks need to know."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final, NoReturn

from worker import secrets
from worker.errors import ConfigurationError, Problem
from worker.settings import Settings

REPOSITORY = Path(__file__).resolve().parents[2]
ENGINES: Final = 50
"""JavaScript engines kept ready, 0.4 MB each. A request holds two until it is answered, an upload
for as long as it takes to arrive; beyond them each layer of each request loads all hooks anew: with
eight slow uploads, which held three, a claim took 2.6 ms of processor instead of 0.7."""


def run(settings: Settings) -> NoReturn:
    """Become PocketBase: the process list shows it, and signals reach it without a middleman.

    Raises:
        ConfigurationError: there is no PocketBase to run, or `DATA_DIR` cannot be written.
    """
    command = arguments(settings)
    os.execve(command[0], command, environment(settings))  # noqa: S606 - no shell is the point


def arguments(settings: Settings) -> list[str]:
    """The command line. Creates the folders that it names."""
    folders = settings.folders
    # PocketBase would serve files from a `pb_public` beside the data; it has none to serve here.
    public = folders.run / "public"
    try:
        folders.pocketbase.mkdir(mode=0o700, parents=True, exist_ok=True)
        public.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or "unusable").lower()
        raise ConfigurationError(Problem("DATA_DIR", f"cannot write there: {reason}")) from error
    return [
        binary(),
        "serve",
        f"--http={settings.pocketbase_http}",
        f"--dir={folders.pocketbase}",
        f"--hooksDir={REPOSITORY / 'pb' / 'pb_hooks'}",
        f"--migrationsDir={REPOSITORY / 'pb_migrations'}",
        f"--publicDir={public}",
        "--automigrate=false",
        "--hooksWatch=false",
        f"--hooksPool={ENGINES}",
    ]


def environment(settings: Settings) -> dict[str, str]:
    """This process's environment with what the hooks read, and without what they must not."""
    withheld = {"TELEGRAM_TOKEN", "OPENAI_API_KEY", "SPEECHKIT_API_KEY", "SPEECHKIT_IAM_TOKEN"}
    withheld |= {"PROOFREAD_API_KEY"}
    inherited = {name: value for name, value in os.environ.items() if name not in withheld}
    return inherited | {
        "OWNER_EMAIL": settings.owner_email,
        "OWNER_PASSWORD": secrets.owner_password(settings)[0],
        "WORKER_PASSWORD": secrets.worker_password(settings),
        "MEDIA_URL": f"http://{settings.media_http}",
        "MEDIA_SECRET": secrets.media_secret(settings),
        "MAX_UPLOAD_MB": str(settings.max_upload_mb),
        "MAX_DURATION_HOURS": str(settings.max_duration_hours),
        "LOCALE": settings.locale,
    }


def binary() -> str:
    """The absolute path of PocketBase's program: the environment's own, else one on PATH."""
    beside = Path(sys.executable).parent / "pocketbase"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("pocketbase")
    if found is None:
        raise ConfigurationError(Problem("PATH", "no pocketbase on it: run `make run` to set up"))
    return found
