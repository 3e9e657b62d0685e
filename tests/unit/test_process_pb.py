"""The process `pb`: PocketBase in our process's place, told what its hooks need and no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from worker import secrets, settings
from worker.errors import ConfigurationError
from worker.processes import pb

RUN = "from worker import settings; from worker.processes import pb; pb.run(settings.load())"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> settings.Settings:
    monkeypatch.chdir(tmp_path)
    for key in settings.KEYS:
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("TELEGRAM_ENABLED", "true")
    monkeypatch.setenv("TELEGRAM_TOKEN", "123:secret")
    monkeypatch.setenv("LOCALE", "en")
    return settings.load()


def test_the_hooks_are_told_what_they_need_and_not_the_token(config):
    told = pb.environment(config)
    assert "123:secret" not in told.values()
    assert told["PATH"] == os.environ["PATH"]
    expected = {
        "OWNER_EMAIL": "owner@example.com",
        "OWNER_PASSWORD": secrets.owner_password(config)[0],
        "WORKER_PASSWORD": secrets.worker_password(config),
        "MEDIA_URL": "http://127.0.0.1:9465",
        "MEDIA_SECRET": secrets.media_secret(config),
        "MAX_UPLOAD_MB": "2048",
        "MAX_DURATION_HOURS": "12.0",
        "LOCALE": "en",
    }
    assert {name: told[name] for name in expected} == expected


def test_everything_it_is_pointed_at_is_there_and_nothing_is_served_as_files(config):
    program, serve, *options = pb.arguments(config)
    given = dict(option.removeprefix("--").split("=", 1) for option in options)
    assert os.access(program, os.X_OK)
    assert serve == "serve"
    assert given["http"] == "127.0.0.1:8090"
    assert given["automigrate"] == given["hooksWatch"] == "false"
    assert int(given["hooksPool"]) >= 2 * 24, "a slow upload holds two engines of JavaScript"
    for name in ("dir", "hooksDir", "migrationsDir", "publicDir"):
        assert Path(given[name]).is_dir(), name
    assert list(Path(given["publicDir"]).iterdir()) == []
    assert list(Path(given["hooksDir"]).glob("*.pb.js"))


def test_it_becomes_pocketbase_and_a_signal_reaches_it(config, tmp_path, monkeypatch):
    program = tmp_path / "pocketbase"
    program.write_text("#!/bin/sh\necho $$ $0\n")
    program.chmod(0o755)
    monkeypatch.setenv("TELEGRAM_TOKEN", "123:secret")
    fake = f"import sys; sys.executable = {str(tmp_path / 'python')!r}; {RUN}"
    process = subprocess.Popen([sys.executable, "-c", fake], stdout=subprocess.PIPE, text=True)
    shown, _ = process.communicate(timeout=10)
    assert shown.split() == [str(process.pid), str(program)]


def test_without_a_program_it_is_a_configuration_error(config, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="no pocketbase"):
        pb.binary()
