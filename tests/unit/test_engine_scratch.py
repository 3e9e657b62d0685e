"""Decoded recordings on disk: kept while they may come back, and not for ever."""

from __future__ import annotations

from pathlib import Path

from worker.engine.scratch import Scratch, second


def _use(scratch: Scratch, name: str) -> None:
    with scratch.hold(name) as path:
        path.write_text(name)


def _there(folder: Path) -> set[str]:
    return {path.stem for path in folder.iterdir()}


def test_the_longest_unused_goes_first(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "s", kept=2)
    for name in ("a", "b", "a", "c"):
        _use(scratch, name)
    assert _there(tmp_path / "s") == {"a", "c"}


def test_what_is_in_use_stays(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "s", kept=1)
    with scratch.hold("long") as path:
        path.write_text("long")
        for name in ("a", "b"):
            _use(scratch, name)
        assert path.exists()
    assert _there(tmp_path / "s") == {"long"}


def test_two_users_of_one_recording(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "s", kept=0)
    with scratch.hold("a") as path:
        path.write_text("a")
        _use(scratch, "a")
        assert path.exists()
    assert _there(tmp_path / "s") == set()


def test_what_was_dropped_takes_nobodys_place(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "s", kept=2)
    for name in ("a", "b"):
        _use(scratch, name)
    scratch.drop("b")
    _use(scratch, "c")
    assert _there(tmp_path / "s") == {"a", "c"}


def test_a_draft_stays_as_long_as_the_rest_of_its_recording(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "s", kept=1)
    with scratch.hold("long"):
        draft = scratch.draft("long")
        draft.write_text("half")
        assert scratch.draft("long") != draft
        _use(scratch, "a")
    assert draft.exists()
    _use(scratch, "b")
    assert not draft.exists()


def test_both_channels_go_together(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "s")
    with scratch.hold("pair") as path:
        path.write_text("left")
        second(path).write_text("right")
    assert second(path).exists()
    scratch.drop("pair")
    assert list((tmp_path / "s").iterdir()) == []
