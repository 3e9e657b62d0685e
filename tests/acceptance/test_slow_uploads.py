"""Senders on slow lines hold nobody else up."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path

from tests.acceptance.service import Service
from worker.pocketbase.client import Client

UPLOADS = 20
CLAIMS = 150


def processor(service: Service) -> float:
    """Processor seconds that PocketBase has taken so far."""
    stat = Path(f"/proc/{service.processes['pb'].pid}/stat").read_text()
    user, kernel = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(kernel)) / os.sysconf("SC_CLK_TCK")


def claims(service: Service, client: Client) -> float:
    """Processor seconds that so many polls cost."""
    before = processor(service)
    for _ in range(CLAIMS):
        poll = {"state": "submitted", "lease_seconds": 60, "count": 1, "worker": "test"}
        assert client.request("POST", "/api/queue/claim", json=poll) == {"jobs": []}
    return processor(service) - before


def test_uploads_that_are_slow_to_come_make_no_other_request_dearer(bare: tuple[Service, Client]):
    """Each holds JavaScript engines while it lasts; without any left, a request loads all hooks."""
    service, client = bare
    service.execute("DELETE FROM jobs")  # what other tests left there would be claimed
    session = service.user().http.headers["Authorization"]
    claims(service, client)  # all is warm
    alone = min(claims(service, client) for _ in range(2))
    head = (
        f"POST /api/audio HTTP/1.1\r\nHost: x\r\nAuthorization: {session}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n"
        '--b\r\nContent-Disposition: form-data; name="audio"; filename="a.wav"\r\n\r\n'
    ).encode()
    with ExitStack() as stack:
        for _ in range(UPLOADS):
            line = stack.enter_context(
                socket.create_connection(("127.0.0.1", service.ports["POCKETBASE"]))
            )
            line.sendall(head)
        beside = min(claims(service, client) for _ in range(2))
    assert beside < 2 * alone + 0.02, (alone, beside)
