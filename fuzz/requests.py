"""Requests to the routes: a good one, spoilt in its method, path, query, headers, body or form."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from random import Random
from urllib.parse import quote, urlencode

from fuzz import mutate
from fuzz.scene import POCKETBASE, PUBLIC, WORKERS, Good, Scene, kinds_of

BOUNDARY = "0123456789boundary"


@dataclass
class Request:
    """What goes over the line."""

    caller: str
    good: Good
    method: str
    path: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    """The whole of it, where even its form is broken."""

    def wire(self) -> bytes:
        """Its bytes."""
        if self.raw is not None:
            return self.raw
        head = [f"{self.method} {self.path} HTTP/1.1"]
        head += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*head, "", ""]).encode("utf-8", "surrogatepass") + self.body

    def __str__(self) -> str:
        wire = re.sub(rb"Authorization: [^\r]{20,}", b"Authorization: ...", self.wire())
        return f"as {self.caller or 'nobody'}: {wire[:500]!r}"


def request(rng: Random, made: Scene) -> Request:
    """A request of any of the routes, as anybody."""
    good = rng.choice(rng.choice([WORKERS, WORKERS, PUBLIC, POCKETBASE]))
    caller = rng.choice(good.callers) if rng.random() < 0.8 else rng.choice(list(made.tokens))
    if caller == "owner" and good in POCKETBASE and "owner" not in good.callers:
        caller = ""  # the owner may do as he likes, and undo the scene
    path = re.sub(r"\{(\w+)\}", lambda found: _place(rng, found[1], made), good.path)
    query = {key: value.format(**made.names) for key, value in good.query.items()}
    if rng.random() < 0.3:
        query = _odd_query(rng, query)
    if query:
        path += "?" + urlencode(query, errors="surrogatepass")
    method = good.method
    if caller != "owner" and rng.random() < 0.1:
        method = rng.choice(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"])
    if path == "/api/realtime" and method in {"GET", "HEAD"}:
        method = good.method  # answers without end, as it should
    if rng.random() < 0.06:
        path = rng.choice(
            [
                path + "/",
                path + "/x",
                path.upper(),
                path.replace("/", "//"),
                path + "/../../status",
                path + "%00",
                path[:-1],
                path + ";x",
            ]
        )
    kind, body = _form(rng, good, made) if good.file else _json(rng, good, made)
    asked = Request(caller, good, method, path, body)
    token = made.tokens[caller]
    if rng.random() < 0.05:
        token = rng.choice([token[:-3], token + "x", "Bearer " + token, "x" * 9000, "null", "\x7f"])
    asked.headers = {"Host": "127.0.0.1", "Connection": "close"}
    if token:
        asked.headers["Authorization"] = token
    if kind:
        asked.headers["Content-Type"] = kind
    return _sent(rng, asked)


def _place(rng: Random, name: str, made: Scene) -> str:
    if rng.random() < 0.85:
        return quote(rng.choice(kinds_of(name, made.names)))
    odd = rng.choice(
        [
            "",
            " ",
            "..",
            "%2e%2e%2f",
            "%00",
            "x" * 3000,
            "' OR 1=1 --",
            "{id}",
            "*",
            "null",
            "ж",
            "%ff",
            "a" * 15,
            "-1",
            "%0d%0aX: y",
        ]
    )
    return odd if "%" in odd else quote(odd)


def _odd_query(rng: Random, query: dict[str, str]) -> dict[str, str]:
    keys = [
        "filter",
        "sort",
        "expand",
        "fields",
        "page",
        "perPage",
        "message_id",
        "token",
        "skipTotal",
        "thumb",
        "download",
        "query",
    ]
    values = [
        "",
        "x",
        "-1",
        "99999999999999999999",
        "(",
        "id = id",
        "@request.auth.id != ''",
        "'",
        "@collection.users.email ~ 'a'",
        "owner.password != ''",
        "+-@random",
        "recording.owner.*",
        "recording_via_x",
        "tokenKey",
        "\0",
        "ж" * 2000,
        "NaN",
        "((((((((((((((((",
        "7 OR 1",
    ]
    return {**query, rng.choice(keys): rng.choice(values)}


def _json(rng: Random, good: Good, made: Scene) -> tuple[str, bytes]:
    if good.body is None and rng.random() < 0.8:
        return "", b""
    value = mutate.json_value(rng, good.body or {}, rng.choice([0, 1, 1, 1, 2, 4]))
    body = mutate.dumped(value)
    for name, stands in made.names.items():
        body = body.replace(f"{{{name}}}".encode(), stands.encode())
    if rng.random() < 0.1:
        body = mutate.bytes_of(rng, body)
    kind = "application/json"
    if rng.random() < 0.08:
        kind = rng.choice(
            [
                "",
                "text/plain",
                "application/x-www-form-urlencoded",
                "multipart/form-data",
                f"multipart/form-data; boundary={BOUNDARY}",
                "application/json; charset=x",
                "application/xml",
                "*/*",
                "x" * 500,
            ]
        )
    return kind, body


def _form(rng: Random, good: Good, made: Scene) -> tuple[str, bytes]:
    """A form with a file, its parts mutated."""
    fields = [(key, value.format(**made.names).encode()) for key, value in good.form.items()]
    sound = made.tone if rng.random() < 0.6 else mutate.media(rng, [made.tone])[:5000]
    parts = [_part(key, value) for key, value in fields]
    name = rng.choice(
        ["x.wav"] * 6
        + [
            "",
            ".",
            "..",
            "../../etc/x",
            "x." + "e" * 300,
            "x.attrs",
            "\x07",
            "x.wav\0.exe",
            "ж.wav",
            'a"b.wav',
            "x.\u202evaw",
            ".wav",
        ]
    )
    parts.append(_part(good.file, sound, name))
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        at = rng.randrange(len(parts))
        kind = rng.randrange(6)
        if kind == 0 and len(parts) > 1:
            del parts[at]
        elif kind == 1:
            parts.insert(at, parts[at])
        elif kind == 2 and fields:
            odd = mutate.odd(rng)
            text = odd if isinstance(odd, str) else json.dumps(odd)
            key = rng.choice(fields)[0]
            parts[at] = _part(key, text.encode("utf-8", "surrogatepass"))
        elif kind == 3:
            parts[at] = mutate.bytes_of(rng, parts[at])
        elif kind == 4:
            parts.append(
                _part(rng.choice(["audio", "file", "", "@jsonPayload", "x" * 2000]), b"{}", "f")
            )
        else:
            parts.append(_part(rng.choice(["owner", "id", "source", "chat_id"]), b"x"))
    body = b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()
    if rng.random() < 0.1:
        body = mutate.bytes_of(rng, body)
    return f"multipart/form-data; boundary={BOUNDARY}", body


def _part(name: str, content: bytes, file: str | None = None) -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"'
    if file is not None:
        head += f'; filename="{file}"\r\nContent-Type: audio/wav'
    return head.encode() + b"\r\n\r\n" + content + b"\r\n"


def _sent(rng: Random, request: Request) -> Request:
    """How the body goes over the line."""
    way = rng.random()
    if way < 0.08:
        request.headers["Transfer-Encoding"] = "chunked"
        data = request.body
        parts = [data[at : at + 700] for at in range(0, len(data), 700)]
        request.body = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in parts)
        request.body += rng.choice([b"0\r\n\r\n", b"", b"zz\r\n", b"0\r\nX: y\r\n\r\n"])
        return request
    request.headers["Content-Length"] = str(len(request.body))
    if way < 0.12:
        request.body = request.body[: len(request.body) // 2]  # and hangs up
    elif way < 0.15:
        request.headers["Content-Length"] = rng.choice(["0", "-1", "x", str(2**63), "5000000000"])
    elif way < 0.17:
        request.headers[
            rng.choice(
                [
                    "Expect",
                    "Range",
                    "If-None-Match",
                    "X-Forwarded-For",
                    "Accept",
                    "Content-Encoding",
                    "Origin",
                ]
            )
        ] = rng.choice(["100-continue", "bytes=5-1", "*", "gzip", "' OR 1", "x" * 5000, "null"])
    elif way < 0.19:
        return replace(request, raw=mutate.bytes_of(rng, request.wire()))
    return request
