"""`doctor`: each fault is found, and comes with what to do about it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace

import pytest

from worker import secrets, settings
from worker.cli import doctor, main, server
from worker.cli.doctor import Level

from . import onnx_writer
from .loopback import Loopback, serve

LOGIN = "POST /api/collections/workers/auth-with-password"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for key in settings.KEYS:
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("TELEGRAM_ENABLED", "false")
    monkeypatch.setenv("MAX_UPLOAD_MB", "1")
    with serve() as first, serve() as second, serve() as third:  # closed again: free
        monkeypatch.setenv("POCKETBASE_HTTP", first.address)
        monkeypatch.setenv("MEDIA_HTTP", second.address)
        monkeypatch.setenv("METRICS_HTTP", third.address)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """A service where all is well: one server that plays every part."""
    with serve() as pocketbase, serve() as media, serve() as metrics:
        pocketbase.routes = {
            "GET /api/health": (200, {"code": 200}),
            LOGIN: (200, {"token": "t"}),
        }
        metrics.routes = {"GET /metrics": (200, b"transcriber_input_up 1")}
        monkeypatch.setenv("POCKETBASE_HTTP", pocketbase.address)
        monkeypatch.setenv("MEDIA_HTTP", media.address)
        monkeypatch.setenv("METRICS_HTTP", metrics.address)
        secrets.worker_password(server.lenient())
        pocketbase.others = (media, metrics)
        yield pocketbase


def findings(level: Level) -> dict[str, str]:
    return {each.subject: each.text for each in doctor.examine() if each.level is level}


def test_a_service_that_is_down_is_no_fault(capsys):
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "not running: start it with `transcriber up`" in shown
    assert len(re.findall(r"^ok +\w+_HTTP +free$", shown, re.M)) == 3
    assert "about 22 % word errors" in shown
    assert "ENGINE_MODEL" in shown
    assert not Path("data").exists()  # looking on writes nothing


def test_a_healthy_service_has_no_faults(service, capsys):
    assert main(["doctor"]) == 0
    assert not findings(Level.FAULT)
    assert {"PocketBase", "workers", "clock", "MEDIA_HTTP", "METRICS_HTTP"} <= set(
        findings(Level.OK)
    )
    assert "All is well." in capsys.readouterr().out


def test_every_bad_setting_is_a_fault_and_the_rest_is_still_looked_at(monkeypatch, capsys):
    monkeypatch.delenv("TELEGRAM_ENABLED")
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "TELEGRAM_ENABLED must be set" in shown
    assert "disk space" in shown
    monkeypatch.setenv("MAX_ATTEMPTS", "many")
    assert set(findings(Level.FAULT)) == {"TELEGRAM_ENABLED", "MAX_ATTEMPTS"}


def test_a_terminal_need_not_know_what_the_running_service_was_told(service, monkeypatch):
    lock = server.lock(server.lenient())
    monkeypatch.delenv("TELEGRAM_ENABLED")
    try:
        assert not findings(Level.FAULT)
    finally:
        os.close(lock)


def test_an_occupied_port_is_named(monkeypatch):
    with serve() as stranger:
        monkeypatch.setenv("METRICS_HTTP", stranger.address)
        assert "another program listens there" in findings(Level.FAULT)["METRICS_HTTP"]


def test_a_running_service_without_pocketbase_is_a_fault():
    lock = server.lock(server.lenient())
    try:
        assert "look at the lines of `pb`" in findings(Level.FAULT)["PocketBase"]
    finally:
        os.close(lock)


def test_a_wrong_password_of_the_workers(service):
    service.routes[LOGIN] = (400, {"message": "Failed to authenticate.", "data": {}})
    assert "restart `pb`" in findings(Level.FAULT)["WORKER_PASSWORD"]
    (server.lenient().folders.secrets / "worker_password").unlink()
    assert "not known here" in findings(Level.FAULT)["WORKER_PASSWORD"]


def test_media_and_metrics_that_do_not_answer(service, monkeypatch):
    media, metrics = service.others
    metrics.routes = {"GET /metrics": (200, b"somebody_elses_metric 1")}
    media.shutdown()
    media.server_close()
    faults = findings(Level.FAULT)
    assert "connection refused" in faults["MEDIA_HTTP"]
    assert "not our metrics page" in faults["METRICS_HTTP"]


@pytest.mark.parametrize(("skew", "words"), [(3600, "behind"), (-3600, "ahead of")])
def test_a_clock_that_is_off_is_a_warning_only(service, monkeypatch, skew, words):
    handler = service.RequestHandlerClass
    date = formatdate(time.time() + skew, usegmt=True)
    monkeypatch.setattr(handler, "date_time_string", lambda *_: date)
    assert words in (text := findings(Level.WARNING)["clock"])
    assert "harmless for the queue" in text
    assert main(["doctor"]) == 0


@pytest.mark.parametrize(("free", "upload"), [(1_900_000_000, 1), (10_000_000_000, 4000)])
def test_little_disk_space_is_a_warning(monkeypatch, free, upload):
    monkeypatch.setenv("MAX_UPLOAD_MB", str(upload))
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert "make room" in findings(Level.WARNING)["disk space"]
    assert main(["doctor"]) == 0


def test_a_data_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "file" / "data"))
    assert "cannot write there" in findings(Level.FAULT)["DATA_DIR"]


def test_a_damaged_model(tmp_path):
    folder = server.lenient().folders.models / "whisper-base"
    folder.mkdir(parents=True)
    (folder / "model.bin").write_text("not the model")
    assert "the next start builds it again" in findings(Level.FAULT)["model"]


def test_a_model_of_the_owners_own(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINE_MODEL", str(tmp_path / "mine"))
    assert "there is no such folder" in findings(Level.FAULT)["ENGINE_MODEL"]
    (tmp_path / "mine").mkdir()
    assert "neither model.bin" in findings(Level.FAULT)["ENGINE_MODEL"]
    (tmp_path / "mine" / "model.bin").write_text("")
    assert findings(Level.OK)["model"] == "faster-whisper/mine"


def test_a_model_of_the_owners_own_for_onnx_asr(tmp_path, monkeypatch):
    folder = tmp_path / "gigaam-v3-ctc"
    monkeypatch.setenv("ENGINE_MODEL", str(folder))
    folder.mkdir()
    (folder / "v3_ctc.int8.onnx").write_text("")
    assert findings(Level.OK)["model"] == "onnx-asr/gigaam-v3-ctc"


def test_a_model_of_the_hub(monkeypatch):
    monkeypatch.setenv("ENGINE_MODEL", "gigaam-v3-ctc")
    assert "fetched from the hub" in findings(Level.NOTE)["model"]
    folder = server.lenient().folders.models / "gigaam-v3-ctc"
    folder.mkdir(parents=True)
    (folder / "v3_ctc.int8.onnx").write_text("")
    assert findings(Level.OK)["model"] == "onnx-asr/gigaam-v3-ctc"


@pytest.mark.parametrize("name", ["nonsense", "gigaam-v9-ctc", "BASE", "medium model"])
def test_a_name_that_no_hub_can_have(monkeypatch, name):
    monkeypatch.setenv("ENGINE_MODEL", name)
    told = findings(Level.FAULT)["ENGINE_MODEL"]
    assert "no such model" in told
    assert "gigaam-v3-ctc" in told
    assert "large-v3-turbo" in told


def test_a_speaker_model(tmp_path, monkeypatch):
    file = tmp_path / "voices.onnx"
    assert "speakers" not in findings(Level.OK)
    monkeypatch.setenv("SPEAKERS_MODEL", str(file))
    assert "no such file" in findings(Level.FAULT)["SPEAKERS_MODEL"]
    file.write_text("not a model")
    assert "not usable" in findings(Level.FAULT)["SPEAKERS_MODEL"]
    file.write_bytes(onnx_writer.speakers([0.0] * 80))
    assert "voices.onnx, 80 numbers" in findings(Level.OK)["speakers"]


def test_what_the_metrics_page_would_alarm_about_is_told(service, monkeypatch):
    _, metrics = service.others
    page = (
        b'transcriber_input_up{input="telegram"} 0.0\n'
        b'transcriber_jobs{state="failed"} 3.0\n'
        b'transcriber_jobs{state="dead"} 0.0\n'
    )
    metrics.routes = {"GET /metrics": (200, page)}
    assert "3 failed" in findings(Level.NOTE)["jobs"]
    assert "Telegram" not in findings(Level.WARNING)  # nobody wants it
    monkeypatch.setenv("TELEGRAM_ENABLED", "true")
    monkeypatch.setenv("TELEGRAM_TOKEN", "1:token")
    assert "down" in findings(Level.WARNING)["Telegram"]
