"""`up`: everything is checked before anything starts; one to a data folder."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.service import free_port
from worker import settings
from worker.cli import main, server, up
from worker.engine import model
from worker.errors import ConfigurationError, ModelCorrupt

from .loopback import Loopback, serve

DRIVER = """
import sys
from pathlib import Path
from worker.cli import main, up
from worker.engine import model
up.PROCFILE = Path("Procfile")
model.install = lambda settings: None
sys.exit(main(["up"]))
"""
PROCFILE = f"""
pb: {sys.executable} -m http.server PORT --bind 127.0.0.1 --directory web
slow: sh -c 'trap "sleep 0.5; exit 0" TERM; echo $$ > slow; while :; do sleep 0.02; done'
telegram: sh -c "echo telegram input is off"
"""


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """Free addresses, and a model that is there; the server plays a program that is in the way."""
    monkeypatch.chdir(tmp_path)
    for key in settings.KEYS:
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("TELEGRAM_ENABLED", "false")
    monkeypatch.setattr(model, "install", lambda settings: None)
    with serve() as first, serve() as second, serve() as third:
        monkeypatch.setenv("POCKETBASE_HTTP", first.address)
        monkeypatch.setenv("MEDIA_HTTP", second.address)
        monkeypatch.setenv("METRICS_HTTP", third.address)
    with serve() as stranger:
        yield stranger


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts `up` in a process of its own; ended with the test, whatever became of it."""
    started: list[subprocess.Popen[bytes]] = []
    yield lambda: started.append(_start(tmp_path)) or started[-1]
    for process in started:
        process.kill()
        process.wait()


def _start(tmp_path: Path) -> subprocess.Popen[bytes]:
    port = os.environ["POCKETBASE_HTTP"].rpartition(":")[2]
    (tmp_path / "web" / "api").mkdir(parents=True, exist_ok=True)
    (tmp_path / "web" / "api" / "health").write_text("{}")
    (tmp_path / "Procfile").write_text(PROCFILE.replace("PORT", port))
    with (tmp_path / "output").open("wb") as output:
        return subprocess.Popen([sys.executable, "-c", DRIVER], stdout=output, stderr=output)


def until_shown(tmp_path: Path, text: str) -> str:
    deadline = time.monotonic() + 15
    while text not in (shown := (tmp_path / "output").read_text()):
        assert time.monotonic() < deadline, shown
        time.sleep(0.01)
    return shown


def test_the_first_start_tells_all_and_the_second_no_password(tmp_path, start):
    url = f"http://{os.environ['POCKETBASE_HTTP']}"
    process = start()
    shown = until_shown(tmp_path, "send ")
    assert f"transcriber is up: {url}\n" in shown
    assert f"{url}/_/  (owner@example.com)" in shown
    assert "user add you@example.com" in shown
    assert re.search(r"send \S*samples/hello_en\.ogg\n", shown)
    password = re.search(r"its password: +(\S+)  \(shown this once", shown).group(1)
    assert (tmp_path / "data/secrets/owner_password").read_text().strip() == password
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0

    (tmp_path / "data" / "pocketbase").mkdir()  # as PocketBase itself would have
    process = start()
    shown = until_shown(tmp_path, "its password:")
    assert password not in shown
    assert "in data/secrets/owner_password" in shown
    assert "user add" not in shown
    process.terminate()
    assert process.wait(10) == 0


def test_only_one_to_a_data_folder_and_the_next_waits_for_a_killed_ones_processes(
    tmp_path, start, capsys
):
    process = start()
    until_shown(tmp_path, "its password:")
    started = time.monotonic()
    assert main(["up"]) == 78
    assert time.monotonic() - started < 5  # nobody waits for a live one to end
    message = f"DATA_DIR: another `transcriber up` works in it (process {process.pid})"
    assert message in capsys.readouterr().err
    process.kill()
    process.wait()
    slow = int((tmp_path / "slow").read_text())
    os.kill(slow, 0)
    os.close(server.lock(server.lenient()))
    with pytest.raises(ProcessLookupError):
        os.kill(slow, 0)
    assert up.occupied(server.lenient(), "pocketbase_http") is None


def test_counters_of_the_last_run_are_gone(tmp_path, start):
    stale = server.lenient().folders.metrics / "counter_1.db"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    process = start()
    until_shown(tmp_path, "its password:")
    assert not stale.exists()
    process.terminate()
    assert process.wait(10) == 0


def test_every_problem_of_the_settings_comes_first(capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("TELEGRAM_ENABLED")
    monkeypatch.setenv("MAX_ATTEMPTS", "0")
    assert main(["up"]) == 78
    error = capsys.readouterr().err
    assert "transcriber: TELEGRAM_ENABLED: must be set\n" in error
    assert "transcriber: MAX_ATTEMPTS: " in error
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("key", ["POCKETBASE_HTTP", "MEDIA_HTTP", "METRICS_HTTP"])
def test_an_occupied_port_is_named_by_its_key(surroundings, capsys, monkeypatch, key):
    monkeypatch.setenv(key, surroundings.address)
    assert main(["up"]) == 78
    error = capsys.readouterr().err
    [line] = [line for line in error.splitlines() if key in line]  # another test may have another
    assert line.startswith(f"transcriber: {key}: another program listens there")


def test_an_address_on_every_network_is_occupied_too(surroundings, monkeypatch):
    monkeypatch.setenv("METRICS_HTTP", f"0.0.0.0:{surroundings.server_port}")
    assert "another program" in up.occupied(server.lenient(), "metrics_http").message


@pytest.mark.parametrize(
    ("address", "reason"),
    [("nowhere.invalid:8090", "unknown host"), ("192.0.2.1:8090", "not an address of this")],
)
def test_an_address_that_is_not_ours(monkeypatch, address, reason):
    monkeypatch.setenv("METRICS_HTTP", address)
    assert reason in up.occupied(server.lenient(), "metrics_http").message


def test_a_port_just_given_up_is_free(monkeypatch):
    port = free_port()
    with (
        socket.create_server(("127.0.0.1", port)) as listener,
        socket.create_connection(("127.0.0.1", port)) as caller,
    ):
        served, _ = listener.accept()
        served.close()  # the server's side closes first and lingers in TIME_WAIT
        assert caller.recv(1) == b""
    monkeypatch.setenv("METRICS_HTTP", f"127.0.0.1:{port}")
    assert up.occupied(server.lenient(), "metrics_http") is None


def test_a_data_folder_that_cannot_be_written(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DATA_DIR", "file/data")
    assert main(["up"]) == 78
    assert "transcriber: DATA_DIR: cannot write there: not a directory" in capsys.readouterr().err


def test_a_model_that_is_not_the_published_one_stops_the_start(capsys, monkeypatch):
    def corrupt(_: object) -> None:
        raise ModelCorrupt("base", "model.bin", "aa", "bb")

    monkeypatch.setattr(model, "install", corrupt)
    assert main(["up"]) == 78
    assert "ENGINE_MODEL: model base: model.bin has sha256 bb" in capsys.readouterr().err


def test_a_speaker_model_that_is_not_there_stops_the_start(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(model, "install", lambda _: tmp_path)
    monkeypatch.setenv("SPEAKERS_MODEL", str(tmp_path / "none.onnx"))
    assert main(["up"]) == 78
    assert "SPEAKERS_MODEL: no such file" in capsys.readouterr().err


def test_the_lock_tells_who_runs_only_while_it_is_held(monkeypatch):
    config = server.lenient()
    assert server.running(config) is None
    descriptor = server.lock(config)
    assert server.running(config) == server.Running(os.getpid(), config.url, config.owner_email)
    with pytest.raises(ConfigurationError):
        server.lock(config)
    os.close(descriptor)
    assert server.running(config) is None
