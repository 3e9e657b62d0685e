"""Generated secrets: private, the same for everybody, never in the log."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from worker import logs, secrets, settings
from worker.errors import ConfigurationError


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for key in settings.KEYS:
        monkeypatch.delenv(key, raising=False)
    return lambda **given: settings.load(
        telegram_enabled=False, data_dir=tmp_path / "deep" / "data", **given
    )


def test_the_owners_password_is_fresh_once(config):
    password, fresh = secrets.owner_password(config())
    assert fresh
    assert len(password) >= 24
    assert secrets.owner_password(config()) == (password, False)


def test_a_setting_wins_over_the_kept_one(config):
    kept = secrets.worker_password(config())
    given = config(worker_password="given-given", owner_password="mine-mine")
    assert secrets.worker_password(given) == "given-given"
    assert secrets.owner_password(given) == ("mine-mine", False)
    assert secrets.worker_password(config()) == kept


def test_they_differ_and_nobody_else_can_read_them(config):
    values = {
        secrets.owner_password(config())[0],
        secrets.worker_password(config()),
        secrets.media_secret(config()),
    }
    assert len(values) == 3
    folder = config().folders.secrets
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert len(list(folder.iterdir())) == 3  # no drafts left behind


def test_processes_that_start_at_once_agree(config):
    together = Barrier(8)

    def ask(_: int) -> tuple[str, bool]:
        settings = config()
        together.wait()
        return secrets.owner_password(settings)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert len({password for password, _ in answers}) == 1
    assert [fresh for _, fresh in answers].count(True) == 1


def test_the_log_does_not_print_them(config):
    value = secrets.media_secret(config())
    assert value not in logs.redact(f"GET /?{value}")
    (config().folders.secrets / "media_secret").write_text("another-one")
    assert secrets.known(config(), secrets.MEDIA_SECRET) not in logs.redact("GET /?another-one")
    given = config(worker_password="given-given")
    assert secrets.worker_password(given) not in logs.redact("GET /?given-given")


def test_a_folder_that_cannot_be_written_is_the_data_folders_fault(config):
    (config().folders.root).parent.write_text("a file where a folder should be")
    with pytest.raises(ConfigurationError) as caught:
        secrets.media_secret(config())
    assert [problem.key for problem in caught.value.problems] == ["DATA_DIR"]


def test_an_empty_file_is_told_and_not_used(config):
    secrets.media_secret(config())
    (config().folders.secrets / "media_secret").write_text("")
    with pytest.raises(ConfigurationError, match="media_secret in it is empty"):
        secrets.media_secret(config())


def test_looking_on_generates_nothing(config):
    assert secrets.known(config(), secrets.OWNER_PASSWORD) == ""
    assert not config().folders.root.exists()
    password, _ = secrets.owner_password(config())
    assert secrets.known(config(), secrets.OWNER_PASSWORD) == password
    given = config(owner_password="mine-mine")
    assert secrets.known(given, secrets.OWNER_PASSWORD) == "mine-mine"
