"""A real service for the tests: real processes, temporary data, free ports, no leftovers."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import wave
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx

from worker.pocketbase.client import Client
from worker.pocketbase.queue import Queue

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLES = REPOSITORY / "samples"
OWNER = ("owner@example.com", "owner-password")
WORKER_PASSWORD = "worker-password"
USER_PASSWORD = "user-password"

T = TypeVar("T")

ALL = ("pb", "media", "pipeline", "engine")


PORTS = range(12000, 32768)
"""Below those that Linux gives to connections: one of these could take a service's port while it is
down, or before it first listens."""


def free_port() -> int:
    """A port that nobody listens on. By chance, as others look for one at the same time."""
    while True:
        port = secrets.choice(PORTS)  # hypothesis seeds `random`
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(condition: Callable[[], T], limit: float = 20.0, what: str = "") -> T:
    """The condition's first true value; fails after `limit` seconds."""
    deadline = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit:g} s: {what or condition}")
        time.sleep(0.02)


class User:
    """A sender with an account and a session."""

    def __init__(self, url: str, email: str, token: str, record: Mapping[str, Any]) -> None:
        self.email = email
        self.id = str(record["id"])
        self.http = httpx.Client(
            base_url=url, headers={"Authorization": token}, timeout=60, trust_env=False
        )

    def post(self, *files: tuple[str, bytes | Any], **fields: str) -> httpx.Response:
        """`POST /api/audio` with each (name, content) in the field `audio`."""
        return self.http.post("/api/audio", files=[("audio", file) for file in files], data=fields)

    def upload(self, path: Path, **fields: str) -> str:
        """Upload a file; its job id."""
        with path.open("rb") as body:
            answer = self.post((path.name, body), **fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["job_id"])

    def status(self, job_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/api/status/{job_id}")
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    def wait(self, job_id: str, limit: float = 60.0) -> dict[str, Any]:
        """The status once the recording is done or halted."""

        def ended() -> dict[str, Any] | None:
            status = self.status(job_id)
            return status if status["status"] == "done" or "halted" in status else None

        found = wait_until(ended, limit, f"the end of {job_id}")
        assert found is not None
        return found


class Service:
    """Processes of the service on a data folder of their own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.ports = {name: free_port() for name in ("POCKETBASE", "MEDIA", "METRICS")}
        self.url = f"http://127.0.0.1:{self.ports['POCKETBASE']}"
        self.env = {
            **{key: value for key, value in os.environ.items() if not _ours(key)},
            "TELEGRAM_ENABLED": "false",
            "DATA_DIR": str(self.data),
            "OWNER_EMAIL": OWNER[0],
            "OWNER_PASSWORD": OWNER[1],
            "WORKER_PASSWORD": WORKER_PASSWORD,
            **{f"{name}_HTTP": f"127.0.0.1:{port}" for name, port in self.ports.items()},
            "PYTHONPATH": str(REPOSITORY),
            **settings,
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.exits: dict[str, int] = {}
        self._clients: list[Any] = []
        self._users = 0

    # Processes

    def start(self, *names: str, **settings: str) -> None:
        """Start processes; `pb` and `media` are waited for."""
        for name in names:
            assert name not in self.processes
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "worker", name],
                    env={**self.env, **settings},
                    cwd=self.folder,  # no `.env` of a developer's
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        if "pb" in names:
            wait_until(self.healthy, 30, "pocketbase's health")
        if "media" in names:
            wait_until(lambda: _listens(self.ports["MEDIA"]), 30, "the metadata source")
            wait_until(lambda: _listens(self.ports["METRICS"]), 30, "the metrics page")

    def stop(self, name: str, number: int = signal.SIGTERM, limit: float = 20.0) -> int:
        """Send the process a signal and wait for its end; its exit code."""
        process = self.processes.pop(name)
        process.send_signal(number)
        try:
            code = process.wait(limit)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # nothing of it may outlive the test
        self.exits[name] = code
        return code

    def kill(self, name: str) -> None:
        """SIGKILL one process, as the kernel would, and nothing beside it."""
        process = self.processes.pop(name)
        process.kill()
        process.wait(10)

    def close(self) -> None:
        for client in self._clients:
            client.close()
        for name in sorted(self.processes, key=lambda each: each == "pb"):
            with suppress(subprocess.TimeoutExpired):
                self.stop(name)
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def healthy(self) -> bool:
        try:
            return (
                httpx.get(f"{self.url}/api/health", timeout=2, trust_env=False).status_code == 200
            )
        except httpx.TransportError:
            return False

    # Who calls

    def session(self, collection: str, identity: str, password: str) -> tuple[str, dict[str, Any]]:
        answer = httpx.post(
            f"{self.url}/api/collections/{collection}/auth-with-password",
            json={"identity": identity, "password": password},
            timeout=30,
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["token"], answer.json()["record"]

    @property
    def owner(self) -> httpx.Client:
        """The panel's owner: a superuser's session."""
        token, _ = self.session("_superusers", *OWNER)
        return self._keep(
            httpx.Client(
                base_url=self.url, headers={"Authorization": token}, timeout=60, trust_env=False
            )
        )

    def user(self) -> User:
        """A new sender."""
        self._users += 1
        email = f"user{self._users}-{os.urandom(3).hex()}@example.com"
        with self.owner as owner:
            answer = owner.post(
                "/api/collections/users/records",
                json={
                    "email": email,
                    "password": USER_PASSWORD,
                    "passwordConfirm": USER_PASSWORD,
                    "verified": True,
                },
            )
            assert answer.status_code == 200, answer.text
        token, record = self.session("users", email, USER_PASSWORD)
        user = User(self.url, email, token, record)
        self._keep(user.http)
        return user

    def client(self) -> Client:
        """A worker's session."""
        return self._keep(Client(self.url, lambda: WORKER_PASSWORD))

    def queue(self, worker: str = "test") -> Queue:
        return Queue(self.client(), worker)

    def operation(self, job_id: str, client: Client | None = None) -> str:
        """An operation for the engines, as submitting makes it, whatever its job is at."""
        before = self.job(job_id)
        change = "UPDATE jobs SET state = ?, lease_token = ? WHERE id = ?"
        self.execute(change, "normalized", "operation", job_id)
        body = {"recording": job_id, "lease_token": "operation"}
        made = (client or self.client()).request("POST", "/api/operations", json=body)
        self.execute(change, before["state"], before["lease_token"], job_id)
        return str(made["operation"])

    def _keep(self, client: T) -> T:
        self._clients.append(client)
        return client

    # What can be seen

    def rows(self, sql: str, *params: Any) -> list[dict[str, Any]]:
        """Read the database itself."""
        with self.database() as database:
            return [dict(row) for row in database.execute(sql, params)]

    def execute(self, sql: str, *params: Any) -> None:
        """Write the database itself: to set a scene, never to reach a result."""
        with self.database() as database:
            database.execute(sql, params)
            database.commit()

    @contextmanager
    def database(self, name: str = "data.db") -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.data / "pocketbase" / name, timeout=20)
        connection.row_factory = sqlite3.Row
        try:
            yield connection
        finally:
            connection.close()

    def job(self, job_id: str) -> dict[str, Any]:
        [row] = self.rows("SELECT * FROM jobs WHERE id = ?", job_id)
        return row

    def stored_files(self) -> list[Path]:
        """Every stored recording, without PocketBase's notes beside it."""
        storage = self.data / "pocketbase" / "storage"
        return sorted(
            path
            for path in storage.rglob("*")
            if path.is_file() and not path.name.endswith(".attrs")
        )

    def printed(self, *names: str) -> str:
        """What the processes printed so far."""
        logs = [self.folder / f"{name}.log" for name in names] or sorted(self.folder.glob("*.log"))
        return "".join(log.read_text(errors="replace") for log in logs if log.exists())

    def logged(self) -> list[dict[str, Any]]:
        """PocketBase's log table, once what was logged until now has been written (every 3 s)."""
        marker = f"/api/marker/{os.urandom(6).hex()}"
        httpx.get(f"{self.url}{marker}", timeout=5, trust_env=False)

        def lines() -> list[dict[str, Any]] | None:
            with self.database("auxiliary.db") as database:
                found = database.execute(
                    "SELECT level, message, data FROM _logs ORDER BY rowid"
                ).fetchall()
            all_lines = [dict(row) for row in found]
            return all_lines if any(marker in line["data"] for line in all_lines) else None

        found = wait_until(lines, 20, "pocketbase's log")
        assert found is not None
        return found

    def metrics(self) -> dict[str, float]:
        """The metrics page, as {"name{label=...}": value}."""
        text = httpx.get(
            f"http://127.0.0.1:{self.ports['METRICS']}/metrics", timeout=10, trust_env=False
        ).text
        return {
            series: float(value)
            for series, value in re.findall(r"^([a-z_]+(?:\{.*?\})?) (\S+)$", text, re.MULTILINE)
        }


def _ours(key: str) -> bool:
    return key.startswith(
        ("TELEGRAM_", "OWNER_", "WORKER_", "POCKETBASE_", "DATA_", "METRICS_", "MEDIA_", "MAX_",
         "BACKOFF_", "POLL_", "CHECK_", "RECOGNISER", "ENGINE_", "LOCALE", "LOG_LEVEL",
         "OPENAI_", "SPEECHKIT_",
         "TRANSCRIBER_", "PROOFREAD_", "PROMETHEUS_", "CHANNELS", "SPEAKERS_")
    )  # fmt: skip


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def tone(folder: Path, name: str = "tone.wav", seconds: float = 1.0) -> Path:
    """A short sound that every part of the service can read and nobody speaks in."""
    path = folder / name
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(
            b"".join(
                int(8000 * ((n % 36) / 18 - 1)).to_bytes(2, "little", signed=True)
                for n in range(int(16000 * seconds))
            )
        )
    return path


def sample(name: str) -> Path:
    """One of the repo's own speech samples."""
    path = SAMPLES / name
    assert path.exists(), path
    return path


def have(program: str) -> bool:
    return shutil.which(program) is not None
