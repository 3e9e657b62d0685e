"""PocketBase without anything of ours: the same program, one collection with a file in it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.acceptance.service import OWNER, USER_PASSWORD, free_port, wait_until
from worker.processes.pb import binary


@dataclass(frozen=True, slots=True)
class Plain:
    """Where it listens, its process, and a user's session."""

    url: str
    pid: int
    token: str


@contextlib.contextmanager
def plain(folder: Path) -> Iterator[Plain]:
    """Run it in a folder of its own."""
    url = f"http://127.0.0.1:{free_port()}"
    folders = [f"--{name}={folder / name}" for name in ("dir", "hooksDir", "migrationsDir")]
    command = [binary(), *folders]
    subprocess.run([*command, "superuser", "upsert", *OWNER], check=True, capture_output=True)
    address = url.removeprefix("http://")
    with subprocess.Popen(
        [*command, "serve", f"--http={address}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_until(lambda: listens(url), 30, "bare pocketbase")
            yield Plain(url, process.pid, session(url))
        finally:
            process.terminate()


def listens(url: str) -> bool:
    """Whether it answers."""
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/api/health", timeout=2, trust_env=False).is_success
    return False


def session(url: str) -> str:
    """Make the collection and a user who may put records into it; the user's token."""
    with httpx.Client(base_url=url, timeout=30, trust_env=False) as http:

        def post(path: str, token: str = "", **body: object) -> str:
            answer = http.post(path, json=body, headers={"Authorization": token})
            assert answer.is_success, answer.text
            return str(answer.json().get("token", ""))

        def log_in(collection: str, identity: str, password: str) -> str:
            path = f"/api/collections/{collection}/auth-with-password"
            return post(path, identity=identity, password=password)

        owner = log_in("_superusers", *OWNER)
        post(
            "/api/collections",
            owner,
            name="plain",
            type="base",
            createRule='@request.auth.id != ""',
            fields=[{"type": "file", "name": "audio", "maxSize": 2**40}],
        )
        email = "user@example.com"
        post(
            "/api/collections/users/records",
            owner,
            email=email,
            password=USER_PASSWORD,
            passwordConfirm=USER_PASSWORD,
        )
        return log_in("users", email, USER_PASSWORD)
