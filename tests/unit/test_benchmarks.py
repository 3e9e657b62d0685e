"""What the benchmarks count and ask is right: word errors, recordings, servers, processor time."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import options, processor, spoken
from benchmarks.office import Arrival, day
from benchmarks.recognition import errors
from benchmarks.servers import Server, listeners
from benchmarks.spoken import Spoken
from benchmarks.ways import Way
from tests.acceptance.service import wait_until
from worker.engine import RATE, audio

WORDS = st.lists(st.sampled_from("abc"), max_size=5)


def slow(said: list[str], heard: list[str]) -> int:
    """The definition itself."""
    if not said or not heard:
        return len(said) + len(heard)
    return min(
        slow(said[1:], heard) + 1,
        slow(said, heard[1:]) + 1,
        slow(said[1:], heard[1:]) + (said[0] != heard[0]),
    )


@given(WORDS, st.lists(st.sampled_from("abcd"), max_size=5))
def test_word_errors_are_the_fewest_edits(said: list[str], heard: list[str]) -> None:
    assert errors(said, heard) == slow(said, heard)


@pytest.mark.parametrize("suffix", [".wav", *spoken.CODECS])
def test_a_recording_is_as_long_as_said_and_says_its_text(tmp_path: Path, suffix: str) -> None:
    hum = (np.sin(np.arange(3 * RATE) / 5) * 9000).astype(np.int16)
    made = spoken.make(tmp_path / f"x{suffix}", [(hum, "hum"), (hum, "hum")], "en", 10, 1)
    for _ in audio.decode(made.path, tmp_path / "samples"):
        pass
    assert 8 < made.seconds <= 14
    assert abs((tmp_path / "samples").stat().st_size / 2 / RATE - made.seconds) < 0.2
    count = made.text.split().count("hum")
    assert count * (3 + spoken.PAUSES[0]) <= made.seconds <= count * (3 + spoken.PAUSES[1])


class Handler(BaseHTTPRequestHandler):
    """Notes what it is asked, and answers with a text."""

    asked: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.path, body))
        answer = b"said\n" if self.path.startswith("/asr") else b'{"text": "said"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    Handler.asked.clear()
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def message(tmp_path: Path) -> Spoken:
    (tmp_path / "message.ogg").write_bytes(b"sound")
    return Spoken(tmp_path / "message.ogg", "ru", "said", 1)


def test_a_server_in_openai_form_is_asked(port: int, message: Spoken) -> None:
    assert Server(f"http://127.0.0.1:{port}/v1#some/model").text(message) == "said"
    [(path, body)] = Handler.asked
    assert path == "/v1/audio/transcriptions"
    for part in (b'name="model"\r\n\r\nsome/model', b'name="language"\r\n\r\nru', b"sound"):
        assert part in body


def test_a_server_in_asr_form_is_asked(port: int, message: Spoken) -> None:
    assert Server(f"http://127.0.0.1:{port}/asr?vad_filter=true").text(message).strip() == "said"
    [(path, body)] = Handler.asked
    assert path == "/asr?vad_filter=true&language=ru&output=txt"
    assert b'name="audio_file"' in body
    assert b"sound" in body


def test_the_process_of_a_port_is_found(port: int) -> None:
    [pid] = listeners(port)
    assert Path(f"/proc/{pid}").samefile("/proc/self")


def test_processor_time_is_that_of_a_family() -> None:
    burn = "import sys, time\nwhile time.process_time() < 0.3: pass\nsys.stdin.read()"
    nest = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    with subprocess.Popen([sys.executable, "-c", nest], stdin=subprocess.PIPE) as parent:
        # Of the child alone, which lives on: nobody has counted it to its parent yet.
        spent = wait_until(lambda: max(0.0, processor.spent([parent.pid]) - 0.25), 30)
        parent.communicate(b"")
    assert spent < 3


def test_who_waits_for_whom() -> None:
    """One at a time in order of arrival, or all as they come."""
    gate = threading.Barrier(2, timeout=10)

    def together(recording: Spoken) -> str:
        gate.wait()
        return recording.text

    both = [
        Arrival(0.0, "call", Spoken(Path("a"), "en", "one", 90)),
        Arrival(0.1, "message", Spoken(Path("b"), "en", "two", 5)),
    ]
    ended = day(Way("at once", together, at_once=True), both)
    assert ended.wrong.rate == 0
    assert len(ended.waits) == 1
    assert ended.waits[0] <= ended.total - 0.1 + 0.01

    order: list[str] = []
    day(Way("in turn", lambda recording: order.append(recording.text) or ""), both)
    assert order == ["one", "two"]


def test_a_server_wants_a_name_and_an_address() -> None:
    assert options.parse(["talk", "--server", "a=http://x/v1#m=n"]).servers == (
        ("a", "http://x/v1#m=n"),
    )
    with pytest.raises(SystemExit, match="NAME=URL"):
        options.parse(["--server", "speaches"])
