"""Mutated requests to every route, as everybody: anonymous, two senders, a worker, the owner.

No answer of 500 but where the requirement says so, the one error form, no row that changed behind a
refusal, nothing of another sender's in an answer, nothing private in a log, and no job that nobody
can ever claim again.
"""

from __future__ import annotations

import json
import re
import socket
import time
from dataclasses import dataclass
from typing import Any

from fuzz.requests import Request
from fuzz.requests import request as spoilt
from fuzz.run import Run
from fuzz.scene import MARKS, OURS, SECRET, Scene, not_covered, scene

SECONDS = 5.0
"""For an answer; alone each takes some milliseconds, but the machine may have other work."""
STATUS = {
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "bad_request": 400,
    "too_large": 413,
    "too_many_requests": 429,
    "not_ready": 409,
    "lease_lost": 409,
    "unreadable": 422,
    "unread": 422,
    "internal": 500,
    "no_space": 507,
}
STATES = {"uploaded", "normalized", "submitted", "transcribed", "done", "failed", "dead"}
TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z)?")


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: str
    body: bytes

    @property
    def json(self) -> Any:
        """Its JSON, or None."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def fuzz(run: Run) -> None:
    """Send each case, look at the answer and at the rows."""
    if missing := not_covered():
        run.found(-1, f"no good request is known for {sorted(missing)}")
    with scene(run.folder) as made:
        made.names["b_token"] = made.senders["b"].http.post("/api/files/token").json()["token"]
        port = made.service.ports["POCKETBASE"]
        before = made.rows()
        for number, rng in run.each():
            request = spoilt(rng, made)
            answer = _send(run, number, port, request)
            after = made.rows()
            if answer is not None:
                _judge(run, number, request, answer, changed=after != before)
            if after != before:
                _sound(run, number, request, after, made)
                made.restore()
                before = made.rows()
        _afterwards(run, made)


def _send(run: Run, number: int, port: int, request: Request) -> Answer | None:
    """Send it, and read until the server ends the connection."""
    began = time.monotonic()
    data = bytearray()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as line:
            try:
                line.sendall(request.wire())
                line.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has answered before it had heard all
            while chunk := line.recv(65536):
                data += chunk
    except TimeoutError:
        run.found(number, f"no answer within {SECONDS:g} s", str(request))
        return None
    except OSError:
        pass
    run.measured("answer, s", time.monotonic() - began)
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 100"):  # "go on", said before the answer
        head, _, body = body.partition(b"\r\n\r\n")
    found = re.match(rb"HTTP/1\.\d (\d{3})", head)
    if not found:
        run.seen["hung up"] += 1  # a request without a form, or one cut off
        if request.raw is None and len(request.body) == int(
            request.headers.get("Content-Length", -1)
        ):
            run.found(number, "hung up without an answer", str(request))
        return None
    if b"chunked" in head.lower():
        body = re.sub(rb"(?:^|\r\n)[0-9a-f]+\r\n", b"", body)
    return Answer(int(found[1]), head.decode("latin-1"), body)


# Judging answers


def _judge(run: Run, number: int, request: Request, answer: Answer, *, changed: bool) -> None:
    path = request.path.partition("?")[0]
    ours = bool(OURS.match(path))
    run.seen[f"{'ours' if ours else 'pocketbase'} {answer.status}"] += 1
    told = f"{answer.status} {answer.body[:120]!r} to {request}"
    if answer.status >= 500 and not _may_fail(request, answer):
        run.found(number, f"{answer.status} for {request.method} {request.good.path}", told)
    # A method that HTTP does not know, and what HTTP's own server refuses, never reach a route.
    known = request.raw is None and request.method not in {"HEAD", "BREW"} and answer.status != 417
    form = ours and known and answer.status >= 400
    if form and "\r\nHost" not in path and not _one_form(answer):
        run.found(number, f"another error form of {request.method} {request.good.path}", told)
    if answer.status >= 400 and changed:
        run.found(number, f"rows changed behind a {answer.status}", told)
    if request.caller in {"", *MARKS}:
        _private(run, number, request, answer, told)
        if changed and not _may_write(request, answer):
            run.found(number, "rows changed by somebody who may not", told)


def _may_fail(request: Request, answer: Answer) -> bool:
    """The one 500 that the requirement asks for: an upload that cannot be read as media."""
    upload = request.good.path == "/api/audio" and request.method == "POST"
    return upload and answer.status == 500 and _one_form(answer)


def _one_form(answer: Answer) -> bool:
    body = answer.json
    if not isinstance(body, dict) or set(body) != {"error_code", "message"}:
        # Go's own word for what is no request at all.
        return answer.status in {400, 431, 501} and answer.body.startswith(
            (b"400 Bad Request", b"431 ", b"501 Not Impl", b"Unsupported transfer")
        )
    return STATUS.get(body["error_code"]) == answer.status and isinstance(body["message"], str)


def _private(run: Run, number: int, request: Request, answer: Answer, told: str) -> None:
    told_all = answer.headers.encode("latin-1") + answer.body
    for who, mark in MARKS.items():
        if who != request.caller and mark.encode() in told_all:
            run.found(number, f"tells {request.caller or 'nobody'} what is {who}'s", told)
    for word in (SECRET, "lease_token", "tokenKey", "leased_by"):
        if word.encode() in told_all and word not in str(request):
            run.found(number, f"tells {request.caller or 'nobody'} {word}", told)


def _may_write(request: Request, answer: Answer) -> bool:
    if request.raw is not None:
        return answer.status in {200, 201}
    accepted = request.good.path == "/api/audio" and answer.status == 201
    # A user may change its own account, as PocketBase has it.
    own = "/collections/users/" in request.path and answer.status in {200, 204}
    return accepted or own


def _sound(run: Run, number: int, request: Request, rows: Any, made: Scene) -> None:
    """What was written is such that the queue can go on with it."""
    jobs = made.service.rows(
        """SELECT id, state, milestone, attempts, not_before, leased_at, lease_token, leased_by,
           typeof(attempts) AS kind, typeof(not_before) AS kind2, typeof(sent_back) AS kind3,
           coalesce(not_before > strftime('%Y-%m-%d %H:%M:%fZ', 'now', '+3 days'), 1) AS far,
           coalesce(leased_at > strftime('%Y-%m-%d %H:%M:%fZ', 'now', '+1 minute'), 1) AS ahead
           FROM jobs"""
    )
    for job in jobs:
        wrong = (
            job["state"] not in STATES
            or job["milestone"] not in STATES
            or not TIME.fullmatch(str(job["not_before"]))
            or not TIME.fullmatch(str(job["leased_at"]))
            or bool(job["lease_token"]) != bool(job["leased_at"])
            or job["far"]
            or job["ahead"]
            or job["kind"] == "text"
            or job["kind3"] == "text"
        )
        if wrong:
            run.found(number, f"a job that nobody can go on with: {job}", str(request))
    for table in ("operations", "answers"):
        for row in made.service.rows(f"SELECT * FROM {table}"):
            held = row["lease_token"]
            if bool(held) != bool(row["leased_at"]) or not TIME.fullmatch(str(row["leased_at"])):
                run.found(number, f"a lease of {table} that never ends: {row}"[:500], str(request))
            if not TIME.fullmatch(str(row.get("not_before", ""))):
                run.found(number, f"a pause of {table} that never ends: {row}"[:500], str(request))
            if table == "operations" and not _units(row["units"]):
                run.found(number, f"units that are none: {row['units']}"[:300], str(request))


def _units(text: Any) -> bool:
    units = json.loads(text or "null")
    return units is None or (
        isinstance(units, list)
        and all(
            isinstance(each, list)
            and len(each) >= 2
            and all(isinstance(value, int | float) for value in each)
            for each in units
        )
    )


def _afterwards(run: Run, made: Scene) -> None:
    """PocketBase lives, the claims work, and nothing private was logged."""
    if made.service.processes["pb"].poll() is not None or not made.service.healthy():
        run.found(-1, "pocketbase is gone")
        return
    printed = made.service.printed()
    logged = made.logged()
    for secret in made.secrets():
        for where, text in (("printed", printed), ("pocketbase's log", logged)):
            if secret in text:
                at = text.index(secret)
                run.found(-1, f"{where} has {secret[:12]}...", text[max(0, at - 200) : at + 50])
    if "panic" in printed or "goroutine " in printed:
        run.found(-1, "pocketbase panicked", printed[printed.index("panic") :][:500])
    left = made.service.data / "pocketbase" / "storage"
    known = {row["id"] for row in made.service.rows("SELECT id FROM recordings")}
    stray = [each for each in left.glob("*/*") if each.name not in known and any(each.iterdir())]
    run.seen["folders of recordings taken back by the scene"] += len(stray)
