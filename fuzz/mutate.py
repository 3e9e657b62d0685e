"""Making good things bad: JSON by its nodes, media by the parts that it is built of."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

# JSON


def nested(depth: int, leaf: Any = None) -> Any:
    """Lists in lists."""
    value = leaf
    for _ in range(depth):
        value = [value]
    return value


DEEP = "@deep@"
"""Stands for lists in lists, deeper than any reader goes."""
ODD: tuple[Callable[[Random], Any], ...] = (
    lambda _: None,
    lambda _: True,
    lambda _: False,
    lambda rng: rng.choice([0, 1, -1, 2**31, 2**53, 2**63, -(2**63) - 1, 10**30, 10**400]),
    lambda rng: rng.choice([0.5, -0.0, 1e308, -1e308, 5e-324, float("nan"), float("inf")]),
    lambda rng: rng.choice(["", " ", "0", "null", "\0", "a\0b", "\ud83d", "\u202e", "true", "-1"]),
    lambda rng: rng.choice(["'; --", '" OR 1=1', "../../x", "%00", "{:id}", "$app", "<b>"]),
    lambda rng: rng.choice("xж🎤\n") * rng.choice([300, 5_000, 100_000]),
    lambda _: [],
    lambda _: {},
    lambda _: [None],
    lambda _: {"": None},
    lambda _: {"a": {"b": [1, {"c": "d"}]}},
    lambda _: DEEP,
    lambda rng: nested(rng.choice([3, 30, 100])),
)


def odd(rng: Random) -> Any:
    """A value that nobody expects."""
    return rng.choice(ODD)(rng)


def json_value(rng: Random, value: Any, changes: int = 1) -> Any:
    """The value with some of its nodes replaced, removed, doubled, renamed or wrapped."""
    value = copy.deepcopy(value)
    for _ in range(changes):
        places = list(_places(value))
        if not places:
            return odd(rng)
        holder, key = rng.choice(places)
        if holder is None:
            value = odd(rng) if rng.random() < 0.3 else value
            continue
        _change(rng, holder, key)
    return value


def _places(value: Any, depth: int = 0) -> Any:
    if depth == 0:
        yield None, None
    if depth < 40:
        items: Any = ()
        if isinstance(value, dict):
            items = list(value.items())
        elif isinstance(value, list):
            items = list(enumerate(value))
        for key, inner in items:
            yield value, key
            yield from _places(inner, depth + 1)


def _change(rng: Random, holder: Any, key: Any) -> None:
    kind = rng.random()
    if kind < 0.55:
        holder[key] = odd(rng)
    elif kind < 0.75:
        del holder[key]
    elif kind < 0.85:
        holder[key] = [holder[key]] if rng.random() < 0.5 else {"x": holder[key]}
    elif isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        holder[rng.choice([str(key).upper(), f"{key} ", "", "id", "__proto__"])] = holder.pop(key)


def dumped(value: Any) -> bytes:
    """As JSON, half of a surrogate pair and NaN included."""
    text = json.dumps(value, ensure_ascii=True).encode()
    return text.replace(f'"{DEEP}"'.encode(), b"[" * 50_000 + b"]" * 50_000)


def bytes_of(rng: Random, data: bytes) -> bytes:
    """A text broken: cut, with bytes changed, or followed by more."""
    if not data:
        return rng.randbytes(rng.randrange(200))
    kind = rng.randrange(5)
    at = rng.randrange(len(data))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == 2:
        return data + data
    if kind == 3:
        return data[:at] + rng.choice([b"\0", b"\xff\xfe", b"\xed\xa0\x80", b'"', b"["]) + data[at:]
    return rng.choice([b"", b"null", b"[]", b'"x"', b"[" * 20_000, b"{", b"\0" * 100, b"1e999"])


# Media

Order = Literal["little", "big"]


@dataclass(frozen=True)
class Part:
    """A piece that a file is built of: a chunk, a box, a page, a packet."""

    start: int
    end: int
    name: bytes = b""
    size_at: int | None = None
    """Where its length stands, in so many bytes of this order."""
    width: int = 4
    order: Order = "big"


HOLDERS = frozenset(
    {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"udta", b"dinf", b"edts", b"stsd"}
)


def parts_of(data: bytes) -> list[Part]:
    """The pieces of a file whose form is known; else none."""
    if data[:4] in {b"RIFF", b"RIFX", b"FORM"}:
        order: Order = "little" if data[:4] == b"RIFF" else "big"
        return [Part(0, len(data), data[:4], 4, 4, order), *_chunks(data, 12, len(data), order)]
    if data[4:8] in {b"ftyp", b"moov", b"wide"}:
        return list(_boxes(data, 0, len(data), 0))
    if data[:4] == b"OggS":
        return _pages(data)
    if data[:4] == b"fLaC":
        return _blocks(data)
    if data[:4] == b"\x1aE\xdf\xa3":
        return list(_elements(data, 0, len(data), 0))
    if data[:3] == b"ID3":
        return [Part(0, 10, b"ID3", 6), Part(10, 20, b"frame", 14)]
    if data[:1] == b"\x47" and data[188:189] == b"\x47":
        return [Part(at, at + 188, b"ts", at + 4, 1) for at in range(0, len(data) - 187, 188)]
    return []


def _chunks(data: bytes, at: int, end: int, order: Order, depth: int = 0) -> Any:
    while at + 8 <= end:
        size = int.from_bytes(data[at + 4 : at + 8], order)
        stop = min(at + 8 + size + size % 2, end)
        yield Part(at, stop, data[at : at + 4], at + 4, 4, order)
        if data[at : at + 4] == b"LIST" and depth < 4:
            yield from _chunks(data, at + 12, stop, order, depth + 1)
        at = stop


def _boxes(data: bytes, at: int, end: int, depth: int) -> Any:
    while at + 8 <= end:
        size, name = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        stop = min(at + max(size, 8), end)
        yield Part(at, stop, name, at)
        if name in HOLDERS and depth < 10:
            yield from _boxes(data, at + (16 if name == b"stsd" else 8), stop, depth + 1)
        elif stop - at > 16:  # the count of a table
            yield Part(at, stop, name, at + 12)
        at = stop


def _pages(data: bytes) -> list[Part]:
    starts = [at for at in range(len(data)) if data.startswith(b"OggS", at)]
    return [
        Part(start, end, b"OggS", start + 26, 1)
        for start, end in zip(starts, [*starts[1:], len(data)], strict=True)
    ]


def _blocks(data: bytes) -> list[Part]:
    found, at = [], 4
    while at + 4 <= len(data):
        size = int.from_bytes(data[at + 1 : at + 4], "big")
        found.append(Part(at, min(at + 4 + size, len(data)), b"meta", at + 1, 3))
        last, at = data[at] & 0x80, at + 4 + size
        if last:
            break
    return found


MASTERS = frozenset(bytes.fromhex(each) for each in (
    "1a45dfa3", "18538067", "1549a966", "1654ae6b", "ae", "e1", "1f43b675", "a0", "1c53bb6b",
))  # fmt: skip


def _elements(data: bytes, at: int, end: int, depth: int) -> Any:
    while at < end and data[at]:
        width = 9 - data[at].bit_length()
        name, at_size = data[at : at + width], at + width
        if at_size >= end or not data[at_size]:
            return
        length = 9 - data[at_size].bit_length()
        size = int.from_bytes(data[at_size : at_size + length], "big") & ((1 << 7 * length) - 1)
        inside = at_size + length
        unknown = size == (1 << 7 * length) - 1
        stop = end if unknown else min(inside + size, end)
        yield Part(at, stop, name, at_size, length)
        if name in MASTERS and depth < 6:
            yield from _elements(data, inside, stop, depth + 1)
        at = stop


TAGS = (b"mp4a", b"samr", b"sawb", b"Qclp", b"QDM2", b"alac", b".mp3", b"ac-3", b"ulaw", b"ima4",
        b"MAC3", b"agsm", b"sowt", b"fl32", b"in24", b"fLaC", b"Opus", b"dtsc", b"sevc", b"ilbc",
        b"nmos", b"mp4v", b"lpcm")  # fmt: skip
WAV_TAGS = (0, 2, 3, 6, 7, 0x11, 0x22, 0x31, 0x42, 0x45, 0x50, 0x55, 0xFF, 0x161, 0x162, 0x163, 0xA,
            0x2001, 0x270, 0x1602, 0xF1AC, 0x704F, 0xFFFE)  # fmt: skip
CODECS = (b"A_OPUS", b"A_AAC", b"A_AC3", b"A_DTS", b"A_MPEG/L3", b"A_VORBIS", b"A_FLAC", b"A_TTA1",
          b"A_WAVPACK4", b"A_TRUEHD", b"A_QUICKTIME", b"A_MS/ACM", b"A_REAL/COOK")  # fmt: skip


def media(rng: Random, files: list[bytes]) -> bytes:
    """One of the files, changed some times, each time in one of the ways that break readers."""
    data = rng.choice(files)
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        way = rng.choice([_flip, _flip, _cut, _lengths, _lengths, _shuffle, _head, _zeros, _codec])
        data = way(rng, data, files)[:2_000_000]
    if data[:4] == b"OggS" and rng.random() < 0.8:
        data = with_sums(data)  # a reader drops pages whose sum is wrong before it looks into them
    return data


def _flip(rng: Random, data: bytes, files: list[bytes]) -> bytes:
    if not data:
        return data
    result = bytearray(data)
    # Headers are where decisions are made.
    reach = len(data) if rng.random() < 0.5 else min(len(data), 600)
    for _ in range(rng.choice([1, 2, 8, 64])):
        at = rng.randrange(reach)
        result[at] = rng.choice([result[at] ^ 1 << rng.randrange(8), 0, 0xFF, rng.randrange(256)])
    return bytes(result)


def _cut(rng: Random, data: bytes, files: list[bytes]) -> bytes:
    at = rng.randrange(len(data) + 1)
    if rng.random() < 0.7:
        return data[:at]
    return data[:at] + data[min(at + rng.randrange(1, 5000), len(data)) :]


def _lengths(rng: Random, data: bytes, files: list[bytes]) -> bytes:
    """A length says something else."""
    parts = [part for part in parts_of(data) if part.size_at is not None]
    if not parts:
        at, width, order = rng.randrange(max(len(data), 1)), rng.choice([1, 2, 4, 8]), "big"
    else:
        part = rng.choice(parts)
        at, width, order = part.size_at or 0, part.width, part.order
    old = int.from_bytes(data[at : at + width], order)
    top = (1 << 8 * width) - 1
    new = rng.choice(
        [0, 1, 7, 8, top, top >> 1, (top >> 1) + 1, old + 1, old - 1, old * 2, old // 2]
    )
    return data[:at] + (new & top).to_bytes(width, order) + data[at + width :]


def _shuffle(rng: Random, data: bytes, files: list[bytes]) -> bytes:
    """A part is removed, doubled, many times there, moved, or another file's."""
    parts = parts_of(data)
    if not parts:
        at = rng.randrange(max(len(data), 1))
        parts = [Part(at, min(at + rng.choice([1, 16, 417, 4096]), len(data)))]
    part = rng.choice(parts)
    before, inside, after = data[: part.start], data[part.start : part.end], data[part.end :]
    kind = rng.randrange(5)
    if kind == 0:
        return before + after
    if kind == 1:
        return before + inside * 2 + after
    if kind == 2:
        return before + inside * min(3000, 1_000_000 // max(len(inside), 1) + 1) + after
    if kind == 3:
        at = rng.randrange(len(after) + 1)
        return before + after[:at] + inside + after[at:]
    other = rng.choice(files)
    pieces = parts_of(other)
    if not pieces:
        return before + other[: max(len(inside), 64)] + after
    chosen = rng.choice(pieces)
    return before + other[chosen.start : chosen.end] + after


def _head(rng: Random, data: bytes, files: list[bytes]) -> bytes:
    """The head of one on the body of another."""
    other = rng.choice(files)
    at = rng.choice([4, 12, 44, 200, 1000, len(data) // 2])
    return data[:at] + other[rng.choice([0, min(at, len(other))]) :]


def _zeros(rng: Random, data: bytes, files: list[bytes]) -> bytes:
    at = rng.randrange(len(data) + 1)
    filling = rng.choice(
        [b"\0", b"\xff", b"OggS", b"\0\0\0\x08free", b"JUNK\0\0\0\0", b"\xff\xfb\x90\0"]
    )
    return data[:at] + filling * rng.choice([1, 100, 20_000]) + data[at:]


def _codec(rng: Random, data: bytes, files: list[bytes]) -> bytes:
    """The sound is said to be of another codec, or of other numbers."""
    if (at := data.find(b"fmt ")) >= 0 and rng.random() < 0.9:
        field = rng.randrange(6)
        if field == 0:
            return data[: at + 8] + struct.pack("<H", rng.choice(WAV_TAGS)) + data[at + 10 :]
        where, width = ((10, 2), (12, 4), (16, 4), (20, 2), (22, 2))[field - 1]
        number = rng.choice(
            [0, 1, 2, 3, 4, 8, 9, 12, 16, 24, 32, 64, 1000, 48000, 2**width * 8 - 1]
        )
        number &= (1 << 8 * width) - 1
        return data[: at + where] + number.to_bytes(width, "little") + data[at + where + width :]
    for table in (TAGS, CODECS):
        for tag in table:
            if (at := data.find(tag)) >= 0:
                return data[:at] + rng.choice(table) + data[at + len(tag) :]
    return data


def with_sums(data: bytes) -> bytes:
    """Ogg pages with right checksums."""
    result = bytearray()
    for part in _pages(data):
        page = bytearray(data[part.start : part.end])
        if len(page) >= 27:
            size = 27 + page[26] + sum(page[27 : 27 + page[26]])
            page[22:26] = bytes(4)
            page[22:26] = struct.pack("<I", _crc(page[:size]))
        result += page
    return bytes(result)


def _table() -> list[int]:
    table = []
    for number in range(256):
        value = number << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value & 0x80000000 else 0)) & 0xFFFFFFFF
        table.append(value)
    return table


_TABLE = _table()


def _crc(data: bytes | bytearray) -> int:
    value = 0
    for byte in data:
        value = (value << 8 & 0xFFFFFFFF) ^ _TABLE[value >> 24 ^ byte]
    return value
