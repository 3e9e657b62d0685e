"""`python -m chaos --seed N --minutes M`: set up, make trouble, calm down, have it checked.

Exit code 0: the checker found nothing. 1: it did; the folder of the run is kept. 2: the rig failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from types import FrameType

from chaos import corpus, plan
from chaos.ending import Ending, tidy
from chaos.journal import Journal
from chaos.owner import Owner
from chaos.plan import Plan
from chaos.reference import Reference, RigError
from chaos.senders import Senders
from chaos.trouble import Trouble
from chaos.world import MAX_ATTEMPTS, World

SEED = 20261130
MINUTES = 2.0
SETTING_UP = 300.0
"""Seconds that the undisturbed run may take on a slow machine."""
DRAIN = 60.0
"""Seconds that may pass at the end until the next of what still moves has come to rest."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of the whole run, about")
    parser.add_argument("--folder", type=Path, help="for the evidence; must not be there yet")
    parser.add_argument("--plan", type=Path, help="replay the plan.jsonl of another run")
    parser.add_argument("--keep", action="store_true", help="keep the folder whatever is found")
    return parser.parse_args()


def own_mounts() -> None:
    """Begin again where mounts are nobody else's, if that is possible here."""
    if os.environ.get("CHAOS_MOUNTS") or not shutil.which("unshare"):
        return
    for option in ("-m", "-Urm"):
        tried = ["unshare", option, "sh", "-c", "mount -t tmpfs chaos /mnt && umount /mnt"]
        if subprocess.run(tried, check=False, capture_output=True).returncode == 0:
            os.environ["CHAOS_MOUNTS"] = "1"
            command = [sys.executable, "-m", "chaos", *sys.argv[1:]]
            os.execvp("unshare", ["unshare", option, *command])


class Run:
    """One run in its folder."""

    def __init__(self, folder: Path, schedule: Plan, *, given: bool) -> None:
        self.folder = folder
        self.given = given
        """Whether somebody chose the plan, who may have cut it down."""
        self.plan = schedule
        plan.save(schedule, folder / "plan.jsonl")
        self.journal = Journal(folder / "journal.jsonl")
        self.world = World(folder, self.journal, schedule)
        self.begun = time.monotonic()

    def say(self, text: str) -> None:
        print(f"chaos {time.monotonic() - self.begun:6.1f} s  {text}", flush=True)

    def go(self) -> None:
        """Everything until the evidence is written."""
        world, journal = self.world, self.journal
        journal.write(
            "settings", seed=self.plan.seed, minutes=self.plan.minutes, max_attempts=MAX_ATTEMPTS,
            lease_seconds=plan.LEASE, grace_seconds=0, disk=world.disk,
            recogniser=self.plan.recogniser, fallback=self.plan.fallback,
            telegram=True, acknowledge="reaction", given=self.given, certain=True,
            started_at=time.time() - journal.now,
        )  # fmt: skip
        if not world.disk:
            self.say("NO PRIVATE MOUNTS HERE: the disk is never full in this run")
        items = corpus.make(self.plan.seed)
        corpus.write(self.folder / "corpus", items)
        senders = Senders(world, items)
        reference = Reference(world, items, senders)
        reference.hand_in()
        world.start()
        reference.read_off(SETTING_UP)
        self.say(f"undisturbed: {len(reference.jobs)} recordings, as they should be")
        owner = Owner(world, senders, set(reference.jobs))
        try:
            owner.log_in()
            senders.on_taken = owner.set_recogniser
            trouble = self._trouble(senders, owner)
            ending = Ending(world, owner, senders, reference)
            journal.write("quiet")
            senders.finish(40, "http", "broken")
            settled = ending.drain(DRAIN)
            if settled:
                owner.see_to()
                settled = ending.drain(DRAIN)
            senders.finish(10, "cli")
            rest = "settled" if settled else "NOT SETTLED"
            self.say(f"{rest}; {trouble.met} faults met their target")
            ending.write()
        finally:
            owner.close()
            senders.close()

    def _trouble(self, senders: Senders, owner: Owner) -> Trouble:
        trouble = Trouble(self.world)
        doing = {
            "send": senders.send,
            "message": senders.message,
            "ask_again": senders.ask_again,
            "fault": trouble.begin,
        }
        owning = threading.Thread(target=self._owner, args=(owner, start := time.monotonic()))
        owning.start()
        try:
            for entry in self.plan.entries:
                if entry.what in doing:
                    time.sleep(max(0.0, start + entry.at - time.monotonic()))
                    doing[entry.what](entry.fields)
            time.sleep(max(0.0, start + self.plan.seconds - time.monotonic()))
        finally:
            self._over = True
            trouble.lift()
            owning.join(60)
        self.say(f"quiet after {self.plan.seconds:.0f} s of trouble")
        return trouble

    _over = False

    def _owner(self, owner: Owner, start: float) -> None:
        for entry in self.plan.entries:
            if entry.what == "owner":
                while time.monotonic() < start + entry.at:
                    if self._over:
                        return
                    time.sleep(0.05)
                owner.act(entry.fields)

    def close(self) -> None:
        self.world.close()
        self.journal.close()


def _told_to_stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the handler's form
    raise KeyboardInterrupt


def _perform(folder: Path, schedule: Plan, *, given: bool) -> int:
    run = Run(folder, schedule, given=given)
    try:
        run.go()
    except RigError as error:
        print(f"chaos: {error}", file=sys.stderr)
        return 2
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        run.close()
    checked = subprocess.run([sys.executable, "-m", "chaos.checker", str(folder)], check=False)
    run.say("done")
    return checked.returncode


def main() -> int:
    given = arguments()
    try:
        schedule = plan.load(given.plan) if given.plan else plan.make(given.seed, given.minutes)
    except plan.Unusable as error:
        print(f"chaos: {given.plan}: {error}", file=sys.stderr)
        return 2
    if given.folder and given.folder.exists():
        print(f"chaos: {given.folder}: is there already; name a new one", file=sys.stderr)
        return 2
    own_mounts()
    folder = (given.folder or Path(tempfile.mkdtemp(prefix="chaos-")) / "run").absolute()
    folder.mkdir(parents=True)
    print(f"chaos: seed {schedule.seed}, {schedule.minutes:g} minutes, in {folder}", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, _told_to_stop)
    signal.alarm(round(schedule.minutes * 90 + 600))  # whatever hangs, the run ends
    try:
        code = _perform(folder, schedule, given=bool(given.plan))
    except KeyboardInterrupt:
        print("chaos: stopped", file=sys.stderr)
        code = 130
    except Exception:  # noqa: BLE001 - whatever went wrong, the folder is named below
        traceback.print_exc()
        code = 2
    if code == 0 and not given.keep:
        tidy(folder if given.folder else folder.parent)
    else:
        which = f"--seed {schedule.seed} --minutes {schedule.minutes:g}"
        which = f"--plan {folder / 'plan.jsonl'}" if given.plan else which
        again = f"{sys.executable} -m chaos {which}"
        print(f"chaos: the evidence is in {folder}; again: {again}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
