"""The judge of `make chaos` passes a clean run, and catches whatever is lost or spoilt."""

from __future__ import annotations

from pathlib import Path

from tests.unit.chaos_whole import whole


def test_a_clean_run_passes(tmp_path: Path) -> None:
    ledger = whole().judge(tmp_path)
    assert ledger.violations == 0, ledger.table()
