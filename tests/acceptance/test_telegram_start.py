"""Whether the Telegram input comes up, and what the service does when it does not."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.service import Service, User, free_port, sample, tone, wait_until
from tests.acceptance.telegram_server import TOKEN, Fault, TelegramServer
from tests.acceptance.telegram_service import Bot

CONFIGURATION = 78


@pytest.fixture
def telegram() -> Iterator[TelegramServer]:
    server = TelegramServer().start()
    try:
        yield server
    finally:
        server.close()


class Start:
    """One life of the process `telegram` beside the shelf's PocketBase."""

    def __init__(self, shelf: Service, **settings: str) -> None:
        self.shelf = shelf
        self._settings = settings
        self._before = len(shelf.printed("telegram"))

    def __enter__(self) -> Start:
        self.shelf.start("telegram", **self._settings)
        return self

    def __exit__(self, *_: object) -> None:
        if "telegram" in self.shelf.processes:
            self.shelf.stop("telegram")

    def printed(self) -> str:
        return self.shelf.printed("telegram")[self._before :]

    def lines(self, level: str) -> list[str]:
        return [line for line in self.printed().splitlines() if f" {level} " in line]

    def code(self) -> int:
        """The exit code of a process that ends by itself."""
        return self.shelf.processes["telegram"].wait(30)

    def up(self) -> float:
        return self.shelf.metrics()['transcriber_input_up{input="telegram"}']


def on(telegram: TelegramServer, token: str = TOKEN) -> dict[str, str]:
    return {
        "TELEGRAM_ENABLED": "true",
        "TELEGRAM_TOKEN": token,
        "TELEGRAM_API_URL": telegram.url,
        "POLL_SECONDS": "0.2",
    }


def accepts_over_http(shelf: Service, user: User, folder: Path) -> None:
    job = user.upload(tone(folder))
    assert user.status(job)["status"] == "uploaded"
    assert shelf.metrics()['transcriber_input_up{input="http"}'] == 1


@pytest.mark.scenario("intake", "Вход выключен")
def test_an_input_that_is_off_is_one_line_and_the_rest_works(whole: Service):
    whole.start("telegram")
    assert whole.processes.pop("telegram").wait(20) == 0
    [line] = whole.printed("telegram").splitlines()
    assert "INFO" in line
    assert "telegram input is off by setting" in line
    assert whole.metrics()['transcriber_input_up{input="telegram"}'] == 0
    user = whole.user()
    done = user.wait(user.upload(sample("hello_en.ogg")))
    assert done["status"] == "done"
    assert done["transcription_text"]


@pytest.mark.scenario("intake", "Вход выключен, а ключ доступа задан")
@pytest.mark.parametrize("token", [TOKEN, "no token at all / ?"])
def test_an_input_that_is_off_calls_nobody_whatever_the_token(
    shelf: Service, user: User, tmp_path: Path, telegram: TelegramServer, token: str
):
    settings = on(telegram, token) | {"TELEGRAM_ENABLED": "false"}
    with Start(shelf, **settings) as start:
        assert start.code() == 0
        assert len(start.printed().splitlines()) == 1
        assert len(start.lines("INFO")) == 1
    accepts_over_http(shelf, user, tmp_path)
    assert telegram.calls == []


def up(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """The whole service by its one command, until it ends by itself."""
    service = Service(folder, **settings)
    env = {key: value for key, value in service.env.items() if value != "unset"}
    return subprocess.run(
        [sys.executable, "-c", "import sys; from worker.cli import main; sys.exit(main(['up']))"],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.scenario("intake", "Вход включён, а ключа доступа нет")
@pytest.mark.parametrize("token", ["", "  "])
def test_an_input_without_a_token_ends_the_start_and_names_the_key(tmp_path: Path, token: str):
    ended = up(tmp_path, TELEGRAM_ENABLED="true", TELEGRAM_TOKEN=token)
    assert ended.returncode == CONFIGURATION
    assert "TELEGRAM_TOKEN" in ended.stdout + ended.stderr
    assert not (tmp_path / "data" / "pocketbase").exists()


@pytest.mark.scenario("intake", "Признака включения в настройках нет")
def test_a_missing_flag_ends_the_start_and_is_named(tmp_path: Path, telegram: TelegramServer):
    settings = on(telegram) | {"TELEGRAM_ENABLED": "unset"}
    ended = up(tmp_path, **settings)
    assert ended.returncode == CONFIGURATION
    assert "TELEGRAM_ENABLED" in ended.stdout + ended.stderr
    assert TOKEN not in ended.stdout + ended.stderr
    assert telegram.calls == []


@pytest.mark.scenario("intake", "Вход включён и ключ годен")
def test_with_a_good_token_both_inputs_work(bot: Bot, tmp_path: Path):
    assert bot.input_up("telegram") == 1
    assert bot.input_up("http") == 1
    user = bot.service.user()
    assert user.status(user.upload(tone(tmp_path)))["status"] == "uploaded"
    chat = bot.chat()
    assert bot.taken(chat, bot.telegram.voice(chat, bot.sound))["state"] == "uploaded"
    assert bot.service.printed("telegram").count("telegram input is up") == 1


@pytest.mark.scenario("intake", "Telegram не отвечает")
@pytest.mark.parametrize("how", ["silent", "nobody there", "broken", "a page"])
def test_without_telegram_the_service_is_up_and_goes_on_trying(
    shelf: Service, user: User, tmp_path: Path, telegram: TelegramServer, how: str
):
    settings = on(telegram)
    if how == "silent":
        telegram.fault("getMe", Fault(silent=True))
    elif how == "broken":
        telegram.fault("getMe", Fault(502, page=b"<html>Bad Gateway</html>"))
    elif how == "a page":  # somebody in between answers, and Telegram has said nothing
        telegram.fault("getMe", Fault(404, page=b"<html>sign in to the hotel's network</html>"))
    else:
        settings["TELEGRAM_API_URL"] = f"http://127.0.0.1:{free_port()}"
    started = time.monotonic()
    with Start(shelf, **settings) as start:
        wait_until(lambda: start.lines("WARNING"), 15, "the warning")
        assert time.monotonic() - started < 15
        accepts_over_http(shelf, user, tmp_path)
        assert start.up() == 0
        if how != "nobody there":
            telegram.lift()
            wait_until(lambda: start.up() == 1, 15, "the input")
            assert len([line for line in start.lines("INFO") if "input is up" in line]) == 1
        [warning] = start.lines("WARNING")
        assert "telegram input is not up" in warning
        assert "reason=" in warning
        assert TOKEN not in start.printed()
        assert shelf.processes["telegram"].poll() is None


@pytest.mark.scenario("intake", "Telegram ответил, что такого бота нет")
def test_a_token_that_telegram_does_not_know_ends_the_whole_service(
    tmp_path: Path, telegram: TelegramServer
):
    telegram.known = False
    ended = up(tmp_path, **on(telegram))
    printed = ended.stdout + ended.stderr
    assert ended.returncode == CONFIGURATION
    assert "telegram knows no bot with this token" in printed
    assert "TELEGRAM_TOKEN" in printed
    assert TOKEN not in printed


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("not-a-token", "telegram knows no bot with this token"),  # answered with 404
        ("12:ab/../../x", "is not a bot's token"),  # no address can hold it
    ],
)
def test_a_malformed_token_ends_the_start_without_being_shown(
    shelf: Service, telegram: TelegramServer, token: str, words: str
):
    with Start(shelf, **on(telegram, token)) as start:
        assert start.code() == CONFIGURATION
        [line] = start.lines("ERROR")
    assert words in line
    assert token not in start.printed()


def test_a_token_copied_with_white_space_around_it_is_taken(
    shelf: Service, telegram: TelegramServer
):
    with Start(shelf, **on(telegram, f" {TOKEN} ")) as start:
        wait_until(lambda: start.up() == 1)
        assert TOKEN not in start.printed()


def test_a_token_revoked_later_is_said_once_and_the_service_goes_on(
    shelf: Service, user: User, tmp_path: Path, telegram: TelegramServer
):
    with Start(shelf, **on(telegram)) as start:
        wait_until(lambda: telegram.called("getUpdates"))
        telegram.known = False
        telegram.message(1, text="wakes the poll")
        wait_until(lambda: start.lines("ERROR"), what="the error")
        [line] = start.lines("ERROR")
        assert "telegram knows no bot with this token" in line
        accepts_over_http(shelf, user, tmp_path)
        assert shelf.processes["telegram"].poll() is None
    assert shelf.exits["telegram"] == 0


def test_the_input_is_down_at_once_when_its_process_is_dead(
    shelf: Service, telegram: TelegramServer
):
    with Start(shelf, **on(telegram)) as start:
        wait_until(lambda: start.up() == 1)
        shelf.kill("telegram")
        assert start.up() == 0
    assert shelf.metrics()['transcriber_input_up{input="http"}'] == 1
