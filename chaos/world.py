"""The service and what stands around it: processes, network, disk, Telegram, recognisers."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from chaos import corpus
from chaos.doubles import OpenAi, SpeechKit, Telegram
from chaos.journal import Journal
from chaos.plan import LEASE, Plan
from tests.acceptance.proxy import Proxy
from tests.acceptance.recogniser_servers import KEY, serving
from tests.acceptance.service import (
    OWNER,
    USER_PASSWORD,
    WORKER_PASSWORD,
    Service,
    User,
    free_port,
    wait_until,
)
from tests.acceptance.telegram_server import TOKEN
from worker.guard import kill_group

HERE = Path(__file__).parent
MAX_ATTEMPTS = 6
SETTINGS = {
    "TELEGRAM_ENABLED": "true",
    "TELEGRAM_TOKEN": TOKEN,
    "MAX_UPLOAD_MB": str(corpus.UPLOAD_MB),
    "MAX_DURATION_HOURS": "0.5",
    "MAX_ATTEMPTS": str(MAX_ATTEMPTS),
    "BACKOFF_SECONDS": "0.3",
    "BACKOFF_MAX_SECONDS": "3",
    "POLL_SECONDS": "0.3",
    "CHECK_SECONDS": "0.5",
    "OPENAI_API_KEY": KEY,
    "OPENAI_MAX_SECONDS": "12",
    "SPEECHKIT_API_KEY": KEY,
    "ENGINE_THREADS": "1",
    "CHAOS_LEASE": str(LEASE),
}
MOVING = ("uploaded", "normalized", "submitted", "transcribed")


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    command: tuple[str, ...]
    data: str


class World:
    """Everything of a run that runs."""

    def __init__(self, folder: Path, journal: Journal, schedule: Plan) -> None:
        self.folder = folder
        self.first = schedule.recogniser
        self.journal = journal
        self.logs = folder / "logs"
        self.logs.mkdir(parents=True)
        self.data, self.second = folder / "data", folder / "second"
        self.opened = ExitStack()
        self.disk = self._mount(160 + round(20 * schedule.minutes))
        for machine in (self.data, self.second):
            machine.mkdir(exist_ok=True)
            (folder / "models").mkdir(exist_ok=True)
            (machine / "models").symlink_to(folder / "models")
        self.clocks = folder / "clocks.json"
        self.clocks.write_text("{}")
        clock = lambda: journal.now  # noqa: E731 - no name of its own is worth a line
        self.telegram = Telegram(clock)
        self.telegram.start()
        self.opened.callback(self.telegram.close)
        self.openai: OpenAi = self.opened.enter_context(serving(OpenAi(clock)))
        self.speechkit: SpeechKit = self.opened.enter_context(serving(SpeechKit(clock)))
        self.service = Service(
            folder, **SETTINGS, **self._addresses(), RECOGNISER=schedule.recogniser,
            RECOGNISER_FALLBACK=schedule.fallback,
        )  # fmt: skip
        self.service.data = self.data
        self.service.env["DATA_DIR"] = str(self.data)
        port = self.service.ports["POCKETBASE"]
        self.lines: dict[str, Proxy] = {
            name: self.opened.enter_context(Proxy(port, remember=False))
            for name in ("workers", "second", "senders")
        }
        self.supervisors: dict[str, subprocess.Popen[bytes]] = {}
        self._keeping = threading.Event()
        self.users: list[User] = []
        self._tell_secrets()

    def _addresses(self) -> dict[str, str]:
        return {
            "TELEGRAM_API_URL": self.telegram.url,
            "OPENAI_URL": f"{self.openai.url}/v1",
            "SPEECHKIT_URL": self.speechkit.url,
            "SPEECHKIT_OPERATIONS_URL": self.speechkit.url,
            "CHAOS_CLOCKS": str(self.clocks),
        }

    def _tell_secrets(self) -> None:
        for kind, value in (("bot_token", TOKEN), ("key", KEY), ("password", WORKER_PASSWORD),
                            ("password", OWNER[1]), ("password", USER_PASSWORD)):  # fmt: skip
            self.journal.secret(kind, value)

    # The disk

    def _mount(self, megabytes: int) -> bool:
        """A small disk of its own for the data folder, seen by this run's processes alone."""
        self.data.mkdir(parents=True)
        if os.environ.get("CHAOS_MOUNTS") != "1":
            return False
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"size={megabytes}m,mode=0700".encode()
        if libc.mount(b"chaos", bytes(self.data), b"tmpfs", 0, options) != 0:
            return False
        self.opened.callback(self._keep_data)
        return True

    def _keep_data(self) -> None:
        """What lay on the small disk is evidence, too: it goes where it can stay."""
        kept = self.folder / "data.kept"
        with suppress(OSError, shutil.Error):
            shutil.copytree(self.data, kept, symlinks=True, ignore=shutil.ignore_patterns("filler"))
        ctypes.CDLL(None).umount2(bytes(self.data), 2)
        with suppress(OSError):
            self.data.rmdir()
            kept.rename(self.data)

    @property
    def filler(self) -> Path:
        return self.data / "filler"

    # The processes

    def start(self) -> None:
        """Both machines, each under the real supervisor."""
        self._supervise("up", "Procfile.main", self.lines["workers"].url, self.data, {})
        wait_until(self.service.healthy, 60, "pocketbase's health")
        elsewhere = {f"{name}_HTTP": f"127.0.0.1:{free_port()}"
                     for name in ("POCKETBASE", "MEDIA", "METRICS")}  # fmt: skip
        line = self.lines["second"].url
        self._supervise("second", "Procfile.second", line, self.second, elsewhere)
        threading.Thread(target=self._keep_up, daemon=True).start()

    def _supervise(
        self, name: str, procfile: str, url: str, data: Path, more: dict[str, str]
    ) -> None:
        with (self.logs / f"{name}.log").open("ab") as log:
            self.supervisors[name] = subprocess.Popen(
                [sys.executable, "-m", "chaos.up"],
                env={**self.service.env, "POCKETBASE_URL": url, "DATA_DIR": str(data),
                     "CHAOS_PROCFILE": str(HERE / procfile), **more},
                cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self._how = getattr(self, "_how", {}) | {name: (procfile, url, data, more)}

    def _keep_up(self) -> None:
        """What systemd would do with a supervisor that ended."""
        while not self._keeping.wait(0.5):
            for name, process in list(self.supervisors.items()):
                if process.poll() is not None and not self._keeping.is_set():
                    with (self.logs / f"{name}.log").open("ab") as log:
                        log.write(f"chaos | {name} ended ({process.returncode})\n".encode())
                    time.sleep(1.0)
                    self._supervise(name, *self._how[name])

    def processes(self) -> list[Process]:
        """The live ones that work on one of this run's data folders."""
        marks = {f"DATA_DIR={each}".encode(): str(each) for each in (self.data, self.second)}
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            with suppress(OSError, IndexError):
                environment = (entry / "environ").read_bytes().split(b"\0")
                data = next((marks[each] for each in environment if each in marks), None)
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if data and state != "Z":
                    command = (entry / "cmdline").read_bytes().decode().split("\0")
                    found.append(Process(int(entry.name), int(parent), tuple(command[:-1]), data))
        return found

    def find(self, target: str, dice: float = 0.0) -> int | None:
        """The process that a fault is meant for, if it lives."""
        alive = self.processes()
        data, name = str(self.data), target
        if target.startswith("second/"):
            data, name = str(self.second), target.removeprefix("second/")
        if target == "engine_child":
            return self._below(alive, self.find("engine"), dice)
        if target == "decoder":
            return self._below(alive, self.find("pipeline" if dice < 0.7 else "media"), dice)
        if name in {"up", "second"}:
            return self.supervisors[name].pid
        known = {each.pid: each for each in alive}
        for each in alive:
            if each.data == data and _is(each, name):
                parent = known.get(each.parent)
                if parent is None or not _is(parent, name):
                    return each.pid
        return None

    @staticmethod
    def _below(alive: list[Process], pid: int | None, dice: float) -> int | None:
        below = sorted(each.pid for each in alive if each.parent == pid)
        return below[int(dice * len(below))] if pid and below else None

    def signal(self, target: str, number: int, dice: float = 0.0) -> int | None:
        """Send it a signal; its id, or None where there is none."""
        pid = self.find(target, dice)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return pid

    def stop(self) -> None:
        """In order, and no further than that."""
        self._keeping.set()
        for name in ("second", "up"):
            if process := self.supervisors.get(name):
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
        for process in self.supervisors.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(40)

    def close(self) -> None:
        """Leave nothing that runs and nothing that is mounted, whatever happened before."""
        for line in self.lines.values():
            line.heal()
        for each in self.processes():
            with suppress(OSError):
                os.kill(each.pid, signal.SIGCONT)
        with suppress(Exception):
            self.stop()
        deadline = time.monotonic() + 5
        while (left := [p for p in self.processes() if p.pid != os.getpid()]) and (
            time.monotonic() < deadline
        ):
            for each in left:
                kill_group(each.pid, signal.SIGKILL)
                with suppress(OSError):
                    os.kill(each.pid, signal.SIGKILL)
            time.sleep(0.05)
        for user in self.users:
            user.http.close()
        self.service.close()
        self.opened.close()
        shutil.rmtree(self.folder / "models", ignore_errors=True)  # no evidence, and large

    # What can be seen

    def rows(self, sql: str, *params: Any) -> list[dict[str, Any]]:
        return self.service.rows(sql, *params)

    def unsettled(self) -> dict[str, list[str]]:
        """What still moves."""
        with suppress(sqlite3.Error):
            jobs = self.rows("SELECT id FROM jobs WHERE state IN (?, ?, ?, ?)", *MOVING)
            answers = self.rows("SELECT id FROM answers WHERE state = 'pending'")
            return {
                "jobs": [row["id"] for row in jobs],
                "answers": [row["id"] for row in answers],
                "updates": [str(each["update_id"]) for each in list(self.telegram.updates)],
            }
        return {"jobs": ["?"], "answers": [], "updates": []}

    def settled(self) -> bool:
        return not any(self.unsettled().values())

    def metrics(self) -> str:
        url = f"http://127.0.0.1:{self.service.ports['METRICS']}/metrics"
        return httpx.get(url, timeout=10, trust_env=False).text

    def set_clock(self, name: str, seconds: float) -> None:
        """From its next start on."""
        clocks = json.loads(self.clocks.read_text())
        clocks[name] = seconds
        draft = self.clocks.with_suffix(".new")
        draft.write_text(json.dumps(clocks))
        draft.rename(self.clocks)


def _is(process: Process, name: str) -> bool:
    if name == "pb":
        # One that is on its way out has no command any more.
        return "".join(process.command[:1]).endswith("pocketbase") and "serve" in process.command
    return process.command[-2:] == ("chaos.worker", name)


def eventually(call: Callable[[], Any], limit: float, what: str) -> Any:
    """The call's result, whatever stands in its way for a while."""

    def tried() -> Any:
        with suppress(httpx.HTTPError, AssertionError):
            return (call(),)
        return None

    return wait_until(tried, limit, what)[0]
