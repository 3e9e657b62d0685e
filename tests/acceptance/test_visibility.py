"""Who sees what through PocketBase's own API: one's own recordings and texts, and nothing else."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.service import USER_PASSWORD, WORKER_PASSWORD, Service, User, tone, wait_until
from tests.acceptance.test_status import claim, normalise, transcribe
from worker.jobs import Advanced, Milestone, Transcript

TOPIC = "transcriber/wake"
HIDDEN = ("jobs", "operations", "segments", "chats", "workers", "_superusers")
SPOKEN = Transcript("сказанное", [{"start": 0, "end": 1, "text": "сказанное"}], "ru", "test")


@dataclass
class World:
    """A sender with a transcribed recording, a neighbour, and a recording of nobody's."""

    service: Service
    sender: User
    neighbour: User
    guest: httpx.Client
    worker: httpx.Client
    job_id: str
    nobodys: str
    transcript: str


@pytest.fixture(scope="module")
def world(shelf: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    sender, neighbour = shelf.user(), shelf.user()
    job_id, nobodys = (sender.upload(tone(folder), title="mine") for _ in range(2))
    for each in (job_id, nobodys):
        transcribe(shelf.queue(), each, folder, SPOKEN)
    shelf.execute("UPDATE recordings SET owner = '', source = 'telegram' WHERE id = ?", nobodys)
    shelf.owner.post(
        "/api/collections/chats/records", json={"chat_id": "77", "note": "x", "admitted": True}
    )
    operation = shelf.operation(job_id)
    shelf.execute("INSERT INTO segments (operation, unit, segments) VALUES (?, 0, '[]')", operation)
    token, _ = shelf.session("workers", "workers@transcriber.local", WORKER_PASSWORD)
    [transcript] = shelf.rows("SELECT id FROM transcripts WHERE recording = ?", job_id)
    with (
        httpx.Client(base_url=shelf.url, trust_env=False) as guest,
        httpx.Client(
            base_url=shelf.url, headers={"Authorization": token}, trust_env=False
        ) as worker,
    ):
        yield World(shelf, sender, neighbour, guest, worker, job_id, nobodys, transcript["id"])


def records(client: httpx.Client, collection: str) -> list[dict[str, Any]]:
    """What a listing gives: nothing where it is refused."""
    answer = client.get(f"/api/collections/{collection}/records", params={"perPage": 500})
    assert answer.status_code in {200, 401, 403}, answer.text
    return answer.json()["items"] if answer.status_code == 200 else []


def test_a_sender_sees_its_own(world: World):
    [recording] = records(world.sender.http, "recordings")
    assert (recording["id"], recording["title"]) == (world.job_id, "mine")
    [transcript] = records(world.sender.http, "transcripts")
    assert (transcript["id"], transcript["text"]) == (world.transcript, "сказанное")
    assert world.sender.http.get(f"/api/collections/recordings/records/{world.job_id}").is_success


def test_nobody_sees_anybody_elses(world: World):
    for client in (world.neighbour.http, world.guest, world.worker):
        for collection, record in (
            ("recordings", world.job_id),
            ("recordings", world.nobodys),
            ("transcripts", world.transcript),
        ):
            assert records(client, collection) == []
            answer = client.get(f"/api/collections/{collection}/records/{record}")
            assert answer.status_code == 404
    # A recording without an owner is not the one's whose id is empty, and not its maker's.
    answer = world.sender.http.get(f"/api/collections/recordings/records/{world.nobodys}")
    assert answer.status_code == 404


@pytest.mark.parametrize("collection", HIDDEN)
def test_the_services_own_tables_are_hidden(world: World, collection: str):
    table = world.service.rows(f"SELECT id FROM {collection}")
    assert table, "there is something to hide"
    for client in (world.sender.http, world.neighbour.http, world.guest):
        assert records(client, collection) == []
        answer = client.get(f"/api/collections/{collection}/records/{table[0]['id']}")
        assert answer.status_code in {403, 404}
    if collection != "chats":  # the one that workers may read
        assert records(world.worker, collection) == []
    else:
        assert [chat["chat_id"] for chat in records(world.worker, collection)] == ["77"]


def test_users_do_not_see_each_other(world: World):
    assert records(world.guest, "users") == []
    assert records(world.worker, "users") == []
    assert [user["id"] for user in records(world.sender.http, "users")] == [world.sender.id]
    answer = world.sender.http.get(f"/api/collections/users/records/{world.neighbour.id}")
    assert answer.status_code == 404


def test_hidden_columns_cannot_be_guessed_through_filters(world: World):
    """A filter over a relation, or over another collection, would answer by its count."""
    for question in (
        "jobs_via_recording.state = 'transcribed'",
        "jobs_via_recording.error_text ~ 'a'",
        "owner.email ~ '@'",
        "@collection.jobs.state != ''",
        "@collection.chats.chat_id != ''",
    ):
        answer = world.neighbour.http.get(
            "/api/collections/recordings/records", params={"filter": question}
        )
        assert answer.status_code in {400, 403} or answer.json()["items"] == [], question
        answer = world.sender.http.get(
            "/api/collections/recordings/records", params={"filter": question}
        )
        if "owner" not in question:
            assert answer.status_code in {400, 403}, question
    expanded = world.sender.http.get(
        f"/api/collections/recordings/records/{world.job_id}",
        params={"expand": "jobs_via_recording,operations_via_recording"},
    )
    assert "jobs" not in json.dumps(expanded.json().get("expand", {}))


@pytest.mark.parametrize("collection", ["recordings", "transcripts", *HIDDEN, "users"])
def test_nobody_writes(world: World, collection: str):
    rows = world.service.rows(f"SELECT id FROM {collection} ORDER BY id")
    [mine] = [
        {"recordings": world.job_id, "transcripts": world.transcript}.get(collection, rows[0]["id"])
    ]
    path = f"/api/collections/{collection}/records"
    body = {
        "title": "x", "text": "x", "state": "dead", "note": "x", "recording": world.job_id,
        "owner": world.sender.id, "email": "x@example.com", "password": "x" * 10,
        "passwordConfirm": "x" * 10, "chat_id": "78", "kind": "proofread",
    }  # fmt: skip
    for client in (world.sender.http, world.neighbour.http, world.guest, world.worker):
        assert client.post(path, json=body).status_code in {400, 403}
        assert client.patch(f"{path}/{mine}", json=body).status_code in {400, 403, 404}
        assert client.delete(f"{path}/{mine}").status_code in {403, 404}
    assert world.service.rows(f"SELECT id FROM {collection} ORDER BY id") == rows
    [recording] = world.service.rows("SELECT title FROM recordings WHERE id = ?", world.job_id)
    assert recording["title"] == "mine"


def test_nobody_registers_himself(world: World):
    before = world.service.rows("SELECT count(*) AS n FROM users")
    account = {"email": "me@example.com", "password": "x" * 10, "passwordConfirm": "x" * 10}
    for client in (world.guest, world.sender.http, world.worker):
        for collection in ("users", "workers", "_superusers"):
            answer = client.post(f"/api/collections/{collection}/records", json=account)
            assert answer.status_code in {400, 403}
    # Nor may a sender give itself away or take more than its own.
    own = f"/api/collections/users/records/{world.sender.id}"
    world.sender.http.delete(own)
    world.sender.http.patch(own, json={"verified": False, "collectionName": "workers"})
    assert world.service.rows("SELECT count(*) AS n FROM users") == before
    assert world.service.session("users", world.sender.email, USER_PASSWORD)


def test_the_panels_routes_are_the_owners(world: World):
    for client in (world.sender.http, world.guest, world.worker):
        for method, path in (
            ("GET", "/api/settings"),
            ("PATCH", "/api/settings"),
            ("GET", "/api/logs"),
            ("GET", "/api/backups"),
            ("POST", "/api/backups"),
            ("GET", "/api/crons"),
            ("POST", "/api/crons/transcriberSweep"),
            ("GET", "/api/collections"),
            ("PATCH", "/api/collections/recordings"),
            ("POST", "/api/sql"),
        ):
            answer = client.request(method, path, json={} if method != "GET" else None)
            assert answer.status_code in {400, 401, 403, 404}, (method, path)
            assert not answer.is_success


def test_files_need_a_token_of_their_owner(world: World):
    [row] = world.service.rows(
        "SELECT audio, normalized FROM recordings WHERE id = ?", world.job_id
    )

    def token(client: httpx.Client) -> str:
        answer = client.post("/api/files/token")
        return answer.json().get("token", "") if answer.is_success else ""

    for name in row.values():
        path = f"/api/files/recordings/{world.job_id}/{name}"
        for client in (world.sender.http, world.neighbour.http, world.guest, world.worker):
            assert client.get(path).status_code == 404
        for client in (world.neighbour.http, world.guest, world.worker):
            answer = client.get(path, params={"token": token(client)})
            assert answer.status_code == 404
        answer = world.guest.get(path, params={"token": token(world.sender.http)})
        assert answer.status_code == 200
        assert answer.content
    [row] = world.service.rows("SELECT audio FROM recordings WHERE id = ?", world.nobodys)
    path = f"/api/files/recordings/{world.nobodys}/{row['audio']}"
    for client in (world.sender.http, world.guest, world.worker):
        assert client.get(path, params={"token": token(client)}).status_code == 404


# Realtime


class Ear:
    """Listens to PocketBase's realtime channel in a thread."""

    def __init__(self, url: str, token: str, topics: list[str]) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.subscribed = 0
        self._url = f"{url}/api/realtime"
        self._headers = {"Authorization": token} if token else {}
        self._topics = topics
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _listen(self) -> None:
        name = ""
        with (
            suppress(httpx.TransportError),  # how listening ends
            httpx.Client(timeout=60, trust_env=False) as client,
            client.stream("GET", self._url) as response,
        ):
            self._socket = response.extensions["network_stream"].get_extra_info("socket")
            for line in response.iter_lines():
                field, _, value = line.partition(":")
                if field == "event":
                    name = value.strip()
                elif field == "data" and name == "PB_CONNECT":
                    self._subscribe(json.loads(value)["clientId"])
                elif field == "data":
                    self.heard.append((name, json.loads(value)))

    def _subscribe(self, client_id: str) -> None:
        self.subscribed = httpx.post(
            self._url,
            json={"clientId": client_id, "subscriptions": self._topics},
            headers=self._headers,
            trust_env=False,
        ).status_code

    def topics(self) -> set[str]:
        return {name for name, _ in self.heard}


@contextmanager
def ears(service: Service, *tokens: str, topics: list[str]) -> Iterator[list[Ear]]:
    """A listener of each session, subscribed."""
    listening = [Ear(service.url, token, topics) for token in tokens]
    try:
        for ear in listening:
            wait_until(lambda ear=ear: ear.subscribed, 10, "the subscription")
        yield listening
    finally:
        for ear in listening:
            ear.close()


def test_realtime_tells_a_sender_of_its_own_text_and_nobody_else(world: World, tmp_path: Path):
    service = world.service
    topics = ["transcripts/*", "recordings/*", "jobs/*", "operations/*"]
    owner = service.owner.headers["Authorization"]
    tokens = [world.sender.http.headers["Authorization"],
              world.neighbour.http.headers["Authorization"], "",
              world.worker.headers["Authorization"], owner]  # fmt: skip
    with ears(service, *tokens, topics=topics) as (mine, neighbours, guests, workers, owners):
        job_id = world.sender.upload(tone(tmp_path))
        transcribe(service.queue(), job_id, tmp_path, SPOKEN)
        wait_until(
            lambda: any(body["record"].get("recording") == job_id for _, body in mine.heard),
            10,
            "the event of one's own transcript",
        )
        # The owner hears everything: once he has heard of the last, whoever shall hear has heard.
        wait_until(
            lambda: (
                ("transcripts/*", job_id)
                in {(name, body["record"].get("recording")) for name, body in owners.heard}
            ),
            10,
            "the event",
        )
        told = [body for name, body in mine.heard if name == "transcripts/*"]
        assert [(body["action"], body["record"]["text"]) for body in told] == [
            ("create", "сказанное")
        ]
        assert "jobs/*" not in mine.topics()
        for others in (neighbours, guests, workers):
            assert others.heard == []


def test_wake_ups_reach_workers_alone(world: World, tmp_path: Path):
    service = world.service
    tokens = [world.worker.headers["Authorization"], world.sender.http.headers["Authorization"],
              world.neighbour.http.headers["Authorization"], "",
              service.owner.headers["Authorization"]]  # fmt: skip
    with ears(service, *tokens, topics=[TOPIC]) as (worker, *others):
        job_id = world.neighbour.upload(tone(tmp_path))
        wait_until(lambda: (TOPIC, {"states": ["uploaded"]}) in worker.heard, 10, "the wake-up")
        normalise(service.queue(), job_id, tmp_path)
        job = claim(service.queue(), Milestone.NORMALIZED, job_id)
        service.queue().write(job, Advanced(Milestone.SUBMITTED, operation="x"))
        wait_until(lambda: (TOPIC, {"states": ["submitted"]}) in worker.heard, 10, "the wake-up")
        for ear in others:
            assert ear.subscribed == 204
            assert ear.heard == []
