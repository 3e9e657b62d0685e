"""The processors that a control group leaves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worker import cores
from worker.settings import Settings


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The `cpu.max` of a group two levels down, on a machine of eight."""
    folder = tmp_path / "system.slice" / "transcriber.service"
    folder.mkdir(parents=True)
    own = tmp_path / "own"
    own.write_text("1:name=systemd:/elsewhere\n0::/system.slice/transcriber.service\n")
    monkeypatch.setattr(cores, "GROUPS", tmp_path)
    monkeypatch.setattr(cores, "OWN", own)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    return folder / "cpu.max"


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("10000 100000", 1),
        ("1600000 100000", 8), ("0 100000", 1), ("100000 0", 8), ("", 8), ("odd", 8),
    ],
)  # fmt: skip
def test_a_quota_counts_rounded_up(group: Path, written: str, found: int):
    group.write_text(written)
    assert cores.cores() == found


def test_so_does_one_of_a_group_above(group: Path):
    group.write_text("max 100000")
    (group.parent.parent / "cpu.max").write_text("300000 100000")
    assert cores.cores() == 3
    (group.parent / "cpu.max").write_text("100000 100000")
    assert cores.cores() == 1


def test_without_a_group_all_count(group: Path):
    assert cores.cores() == 8
    cores.OWN.unlink()
    assert cores.cores() == 8


def test_a_groups_own_root_is_looked_at_in_a_container(group: Path):
    cores.OWN.write_text("0::/\n")
    (cores.GROUPS / "cpu.max").write_text("300000 100000")
    assert cores.cores() == 3


def test_the_engines_share_them(group: Path):
    group.write_text("400000 100000")

    def threads(**given: int) -> int:
        return Settings(_env_file=None, telegram_enabled=False, **given).threads

    assert threads() == 4
    assert threads(engine_processes=2) == 2
    assert threads(engine_processes=9) == 1
    assert threads(engine_threads=7) == 7
