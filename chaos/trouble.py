"""Carries out the plan's faults: each begins, lasts, and is over; at the end all are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from chaos.doubles import Mood
from chaos.plan import LEASE
from chaos.world import World
from tests.acceptance.telegram_wire import Fault, too_many

BACK = 45.0
"""Seconds within which a process is started again, the supervisor's longest pause included."""
PATIENCE = 4.0
"""Seconds that one who is to be killed is waited for, such as a decoder."""
Undo = Callable[[], None]
NOTHING: Undo = lambda: None  # noqa: E731 - what most of them leave to undo


class Trouble:
    """Every fault has a thread of its own, so that they overlap as the plan has them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.journal = world.journal
        self.quiet = threading.Event()
        self.met = 0
        """Faults that met what they were meant for."""
        self._threads: list[threading.Thread] = []
        self._stopped: dict[int, int] = {}
        self._lock = threading.Lock()

    def begin(self, fields: dict[str, Any]) -> None:
        thread = threading.Thread(target=self._run, args=(fields,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def lift(self) -> None:
        """All of them are over."""
        self.quiet.set()
        for thread in self._threads:
            thread.join(BACK)
        for line in self.world.lines.values():
            line.heal()
        self.world.clocks.write_text("{}")

    def _run(self, fields: dict[str, Any]) -> None:
        kind, target = fields["kind"], fields["target"]
        known = {"id": fields["id"], "kind": kind, "target": target}
        name = kind.split("_")[0] if kind.startswith(("recogniser_", "telegram_")) else kind
        begin: Callable[[dict[str, Any]], Undo | None] = getattr(self, f"_{name}")
        undo = begin(fields)
        met = undo is not None
        self.met += met
        self.journal.write("fault", **known, seconds=fields["seconds"], met=met)
        if undo is not None:
            self.quiet.wait(fields["seconds"])
            undo()
        self.journal.write("fault_over", **known)

    # Processes

    def _kill(self, fields: dict[str, Any]) -> Undo | None:
        deadline = time.monotonic() + PATIENCE
        while (pid := self.world.find(fields["target"], fields["dice"])) is None:
            if time.monotonic() > deadline or self.quiet.wait(0.1):
                return None
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return self._until_back(fields["target"], pid)

    def _restart(self, fields: dict[str, Any]) -> Undo | None:
        target = "up" if fields["target"] == "service" else fields["target"]
        return self._until_back(target, self.world.signal(target, signal.SIGTERM))

    def _until_back(self, target: str, pid: int | None) -> Undo | None:
        """Over is such a fault when somebody has started the process again."""
        if pid is None or target in {"decoder", "engine_child"}:
            return None if pid is None else NOTHING
        deadline = time.monotonic() + BACK

        def wait() -> None:
            while time.monotonic() < deadline:
                if self.world.find(target) not in {None, pid}:
                    return
                time.sleep(0.3)

        return wait

    def _stop(self, fields: dict[str, Any]) -> Undo | None:
        return self._pause(fields["target"])

    def _pause(self, target: str) -> Undo | None:
        """SIGSTOP; what sends SIGCONT, once the last of those who stopped it wants that."""
        pid = self.world.find(target)
        if pid is None:
            return None
        with self._lock:
            self._stopped[pid] = self._stopped.get(pid, 0) + 1
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

        def go_on() -> None:
            with self._lock:
                self._stopped[pid] -= 1
                if not self._stopped[pid]:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)

        return go_on

    def _starve(self, fields: dict[str, Any]) -> Undo | None:
        if fields["target"] == "hogs":
            return self._hogs()
        over = threading.Event()
        names = ("pipeline", "engine", "pb", "telegram", "second/engine")

        def slices() -> None:
            while not over.is_set():
                undone = [each for name in names if (each := self._pause(name))]
                over.wait(0.15)
                for undo in undone:
                    undo()
                over.wait(0.05)

        thread = threading.Thread(target=slices, daemon=True)
        thread.start()

        def end() -> None:
            over.set()
            thread.join(10)

        return end

    def _hogs(self) -> Undo:
        for name in ("pipeline", "engine", "telegram"):
            if pid := self.world.find(name):
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, pid, 19)
        ends = f"end = time.monotonic() + {3 * LEASE}"
        code = f"import time; {ends}\nwhile time.monotonic() < end: pass"
        hogs = [
            subprocess.Popen([sys.executable, "-S", "-c", code])
            for _ in range(2 * (os.cpu_count() or 1))
        ]

        def end() -> None:
            for hog in hogs:
                hog.kill()
                hog.wait()

        return end

    def _clock(self, fields: dict[str, Any]) -> Undo | None:
        """The process goes on with another idea of what time it is."""
        target = fields["target"]
        hours = round((fields["dice"] * 2 - 1) * 30, 3) or 1.0
        self.world.set_clock(target, hours * 3600)
        pid = self.world.signal(target, signal.SIGTERM)

        def back() -> None:
            self.world.set_clock(target, 0)
            self.world.signal(target, signal.SIGTERM)

        return back if pid else None

    # Network and disk

    def _network_cut(self, fields: dict[str, Any]) -> Undo:
        line = self.world.lines[fields["target"]]
        line.cut()
        return line.heal

    def _answers_dropped(self, fields: dict[str, Any]) -> Undo:
        line = self.world.lines[fields["target"]]
        line.drop_answers("/api/", times=1 + int(fields["dice"] * 12))
        return line.heal

    def _swallowed(self, fields: dict[str, Any]) -> Undo:
        line = self.world.lines[fields["target"]]
        line.swallow(("/api/queue", "/api/operations", "/api/")[int(fields["dice"] * 3)])
        return line.heal

    def _disk_full(self, fields: dict[str, Any]) -> Undo | None:
        """Everything that is free is taken, again and again: nothing may be let go meanwhile."""
        if not self.world.disk:
            return None
        over = threading.Event()
        filler = self.world.filler
        room = 0 if fields["dice"] < 0.6 else 300_000

        def fill() -> None:
            with filler.open("ab") as file:
                while not over.is_set():
                    there = os.fstatvfs(file.fileno())
                    free = there.f_bavail * there.f_bsize - room
                    if free > 0:
                        size = file.tell() if file.seekable() else 0
                        size = os.fstat(file.fileno()).st_size
                        with suppress(OSError):
                            os.posix_fallocate(file.fileno(), size, free)
                    time.sleep(0.02)

        thread = threading.Thread(target=fill, daemon=True)
        thread.start()

        def empty() -> None:
            over.set()
            thread.join(10)
            filler.unlink(missing_ok=True)

        return empty

    # Those outside

    def _recogniser(self, fields: dict[str, Any]) -> Undo:
        server = self.world.openai if fields["target"] == "openai" else self.world.speechkit
        kind = fields["kind"].removeprefix("recogniser_")
        if kind == "loses":
            self.world.speechkit.forget()
        mood = Mood(kind, fields["dice"])
        server.moods.append(mood)

        def better() -> None:
            server.moods.remove(mood)
            mood.over.set()

        return better

    def _telegram(self, fields: dict[str, Any]) -> Undo:
        kind, method, dice = fields["kind"], fields["target"], fields["dice"]
        fault = {
            "telegram_429": lambda: too_many(1 + int(dice * 3)),
            "telegram_5xx": lambda: Fault(502, "Bad Gateway") if dice < 0.5 else Fault(
                500, "Internal Server Error"),
            "telegram_hangs": lambda: Fault(silent=True),
            "telegram_504": lambda: Fault(
                504, "Gateway Timeout", done=True, times=1 + int(dice * 2)),
            "telegram_lost": lambda: Fault(done=True, drop=True, times=1 + int(dice * 2)),
            "telegram_409": lambda: Fault(
                409, "Conflict: terminated by other getUpdates request; make sure that only one "
                "bot instance is running"),
            "telegram_cut": lambda: Fault(drop=True),
        }[kind]()  # fmt: skip
        return self.world.telegram.order(kind, method, fault)
