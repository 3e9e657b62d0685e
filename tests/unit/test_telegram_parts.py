"""The small parts: pace, pulse, what the owner is told of the line, undelivered answers."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loguru import logger
from telegram.error import Conflict, InvalidToken, NetworkError

from worker import notify
from worker.metrics import UNDELIVERED
from worker.settings import Settings
from worker.telegram import pulse
from worker.telegram.pace import Bucket
from worker.telegram.poll import Line
from worker.telegram.times import Times
from worker.telegram.words import _WORDS, Words


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def lines():
    found: list[str] = []
    number = logger.add(lambda text: found.append(str(text)), format="{level} {message} {extra}")
    yield found
    logger.remove(number)


def test_a_burst_passes_and_then_so_many_a_second():
    clock = Clock()
    bucket = Bucket(3, 2.0, clock)
    assert [bucket.take() for _ in range(5)] == [0, 0, 0, 0.5, 1.0]
    clock.now += 10
    assert bucket.full
    assert [bucket.take() for _ in range(4)] == [0, 0, 0, 0.5]


def test_a_blip_is_no_word_and_an_absence_is_one(lines):
    clock = Clock()
    line = Line(Times(blip=15), clock)
    line.bad(NetworkError("x"))
    clock.now += 10
    line.bad(NetworkError("x"))
    line.good()
    assert lines == []
    for _ in range(5):
        line.bad(NetworkError("x"))
        clock.now += 10
    line.good()
    line.good()
    assert [text.split(" {")[0] for text in lines] == [
        "WARNING telegram lost, waiting for it",
        "INFO telegram is back",
    ]


def test_two_that_poll_in_turns_are_one_conflict(lines):
    clock = Clock()
    line = Line(Times(conflict_over=60), clock)
    for _ in range(20):
        line.bad(Conflict("terminated by other getUpdates request"))
        clock.now += 10
        line.good()
    assert len(lines) == 1
    assert lines[0].startswith("ERROR telegram input conflict")
    assert "only one may" in lines[0]
    clock.now += 60
    line.good()
    line.good()
    assert len(lines) == 2
    assert lines[1].startswith("INFO telegram input conflict is over")


def test_a_revoked_token_is_said_once_and_once_when_it_is_good_again(lines):
    line = Line(Times(), Clock())
    for _ in range(5):
        line.bad(InvalidToken("The token `12:secret` was rejected"))
    line.good()
    assert [text.split(" {")[0] for text in lines] == [
        "ERROR telegram input is down",
        "INFO telegram is back",
    ]
    assert "12:secret" not in "".join(lines)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(_env_file=None, telegram_enabled=False, data_dir=tmp_path)
    settings.folders.run.mkdir(parents=True)
    return settings


@pytest.fixture
def alive(settings: Settings):
    """Another process that holds the input's name."""
    code = (
        "import fcntl, sys; lock = open(sys.argv[1], 'w'); fcntl.flock(lock, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(settings.folders.run / "telegram.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.communicate()


def test_the_input_is_up_while_its_process_lives_and_its_polls_are_answered(settings, alive):
    assert not pulse.is_up(settings)
    beat = pulse.Pulse(settings)
    beat.beat()
    assert pulse.is_up(settings)
    file = settings.folders.run / "telegram.up"
    os.utime(file, (time.time() - 59, time.time() - 59))
    assert pulse.is_up(settings)
    os.utime(file, (time.time() - 61, time.time() - 61))
    assert not pulse.is_up(settings)
    beat.beat()
    beat.stop()
    assert not pulse.is_up(settings)


def test_the_input_is_down_when_its_process_is_dead_and_asking_takes_nobodys_name(settings, alive):
    pulse.Pulse(settings).beat()
    alive.communicate()
    assert not pulse.is_up(settings)
    with (settings.folders.run / "telegram.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_every_reason_has_its_place_in_the_metric_and_its_level(lines):
    counted: list[str] = []
    for reason in UNDELIVERED:
        notify.undelivered("job", reason, counted.append)
    assert counted == list(UNDELIVERED)
    errors = [text for text in lines if text.startswith("ERROR")]
    assert len(lines) == len(UNDELIVERED)
    assert all("no_addressee" in text or "'error'" in text for text in errors)
    assert len(errors) == 2
    constants = {
        value for name, value in vars(notify).items() if name.isupper() and isinstance(value, str)
    }
    assert constants == set(UNDELIVERED)


def test_everything_is_said_in_both_languages_with_the_same_values():
    for key, texts in _WORDS.items():
        assert set(texts) == {"ru", "en"}, key
        fields = [sorted(re.findall(r"{(\w+)}", text)) for text in texts.values()]
        assert fields[0] == fields[1], key


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.1, "1 с"), (59, "59 с"), (60, "1 мин"), (3599, "1 ч"), (5400, "1 ч 30 мин")],
)
def test_lengths_are_said_as_people_say_them(seconds, said):
    assert Words("ru").length(seconds) == said
