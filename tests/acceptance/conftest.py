"""Services for the tests. Sharing one among tests that do not kill it keeps the suite short."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.bench import Bench, Lines
from tests.acceptance.proxy import Proxy
from tests.acceptance.service import ALL, WORKER_PASSWORD, Service, User, tone
from tests.acceptance.telegram_server import TOKEN
from tests.acceptance.telegram_service import Bot
from worker.pocketbase.client import Client
from worker.pocketbase.queue import Queue


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """PocketBase and the metadata source, and nobody who works: recordings stay as handed in."""
    service = Service(tmp_path_factory.mktemp("shelf"))
    try:
        service.start("pb", "media")
        yield service
    finally:
        service.close()


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The whole service, working."""
    service = Service(tmp_path_factory.mktemp("whole"), CHECK_SECONDS="1")
    try:
        service.start(*ALL)
        yield service
    finally:
        service.close()


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Client]]:
    """PocketBase alone, and a worker's session with it."""
    service = Service(tmp_path_factory.mktemp("bare"))
    try:
        service.start("pb")
        yield service, service.client()
    finally:
        service.close()


@pytest.fixture
def bench(bare: tuple[Service, Client], tmp_path: Path) -> Iterator[Bench]:
    """An empty queue and runners of the test's own."""
    bench = Bench(*bare, tmp_path)
    try:
        yield bench
    finally:
        bench.stop.set()


@pytest.fixture
def proxy(bench: Bench) -> Iterator[Proxy]:
    """Between workers of the test's own and PocketBase."""
    with Proxy(bench.service.ports["POCKETBASE"]) as proxy:
        yield proxy


@pytest.fixture
def far(proxy: Proxy) -> Iterator[Queue]:
    """The queue as seen through the proxy."""
    with Client(proxy.url, lambda: WORKER_PASSWORD) as client:
        yield Queue(client, "far@test")


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Captures what is logged in this process."""
    lines = Lines()
    try:
        yield lines
    finally:
        lines.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Service]:
    """A service of the test's own, to be started, killed and looked into at will."""
    service = Service(tmp_path, POLL_SECONDS="0.2", CHECK_SECONDS="0.5", BACKOFF_SECONDS="0.2")
    try:
        yield service
    finally:
        service.close()


@pytest.fixture
def user(shelf: Service) -> User:
    """A sender of the shelf's, without recordings yet."""
    return shelf.user()


@pytest.fixture
def job_id(user: User, tmp_path: Path) -> str:
    """A recording of the sender's on the shelf, just handed in."""
    return user.upload(tone(tmp_path))


@pytest.fixture
def owner(shelf: Service) -> httpx.Client:
    """The shelf's owner."""
    return shelf.owner


@pytest.fixture(scope="session")
def bot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bot]:
    """A service with its Telegram input up, and nobody who works on recordings."""
    bot = Bot(tmp_path_factory.mktemp("bot"))
    try:
        bot.start()
        yield bot
    finally:
        bot.close()


@pytest.fixture
def own_bot(tmp_path: Path) -> Iterator[Bot]:
    """A service with a Telegram input of the test's own, to be started and killed at will."""
    bot = Bot(tmp_path)
    try:
        yield bot
    finally:
        bot.close()


@pytest.fixture(scope="session", autouse=True)
def the_token_is_nowhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """At the end of everything: no file that a service of the tests wrote holds the bot's token."""
    yield
    for path in tmp_path_factory.getbasetemp().rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 64 << 20:
            assert TOKEN.encode() not in path.read_bytes(), f"the token is in {path}"
