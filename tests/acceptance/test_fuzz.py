"""A short run of each fuzzing target, always of the same cases; `make fuzz` makes others."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from fuzz.__main__ import ALL
from fuzz.run import Run
from worker import logs

SEED = 5
CASES = {"settings": 60, "answers": 240, "media": 60, "telegram": 36, "routes": 350}
LIVELY = {
    "settings": ("refused", "loaded"),
    "answers": ("result", "PocketBaseUnavailable", "RecogniserUnavailable", "ProofreadingFailed"),
    "media": ("probe 200", "probe 422", "normalised", "normalise refused", "request 400"),
    "telegram": ("good messages taken",),
    "routes": ("ours 200", "ours 201", "ours 400", "ours 401", "ours 403", "ours 404", "ours 409"),
}
"""What comes about in a run that reaches what it is to try."""


@pytest.mark.parametrize("target", ALL)
def test_nothing_is_found(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Settings made at random name secrets of a letter or two, which no later test's words may lose.
    monkeypatch.setattr(logs, "_secrets", set(logs._secrets))
    run = Run(target, SEED, tmp_path, cases=CASES[target])

    importlib.import_module(f"fuzz.{target}").fuzz(run)

    assert not run.findings, run.report()
    assert run.made == CASES[target]
    assert all(run.seen[outcome] for outcome in LIVELY[target]), run.report()
