"""Requests that no client library would send: announced and not sent, in drips, broken off."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.acceptance.service import Service

BOUNDARY = "a-boundary-of-our-own"
TAIL = f"\r\n--{BOUNDARY}--\r\n".encode()


def part(name: str = "talk.wav", field: str = "audio") -> bytes:
    """The lines that stand before a file in a form."""
    return (
        f"--{BOUNDARY}\r\n"
        f'Content-Disposition: form-data; name="{field}"; filename="{name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@dataclass
class Answer:
    status: int
    headers: str
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection, one request."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self, limit: float = 20.0) -> Answer:
        """The whole answer; fails when it takes longer than `limit` seconds to come."""
        self.socket.settimeout(limit)
        data = b""
        while b"\r\n\r\n" not in data:
            more = self.socket.recv(65536)
            assert more, "the connection ended without an answer"
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        headers = head.decode()
        status = int(headers.split()[1])
        announced = re.search(r"^Content-Length: (\d+)", headers, re.MULTILINE)
        if announced is None:  # in chunks, and small enough for one
            while not body.endswith(b"0\r\n\r\n"):
                body += self.socket.recv(65536)
            return Answer(status, headers, body.split(b"\r\n")[1])
        while len(body) < int(announced[1]):
            body += self.socket.recv(65536)
        return Answer(status, headers, body)


@contextmanager
def upload(service: Service, token: str = "", **headers: object) -> Iterator[Wire]:
    """The head of `POST /api/audio`; header names are written with `_` for `-`."""
    lines = [
        "POST /api/audio HTTP/1.1",
        "Host: localhost",
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}",
        *([f"Authorization: {token}"] if token else []),
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    with socket.create_connection(("127.0.0.1", service.ports["POCKETBASE"]), timeout=20) as raw:
        wire = Wire(raw)
        wire.send("\r\n".join([*lines, "", ""]).encode())
        yield wire
