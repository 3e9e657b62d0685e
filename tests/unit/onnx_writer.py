"""A tiny speech model in ONNX, written byte by byte: what is loud is "а", what is quiet is a space.

It has the inputs, outputs and files of GigaAM's CTC models, so that all of onnx-asr's real code
runs on it: finding the files, the features, the session, the decoding and the times.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

FLOAT, INT64 = 1, 7
LOUD = -14.0
"""The mean of the log-mel features that lies between a loud tone's and silence's."""


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    data = value.encode() if isinstance(value, str) else value
    return _number(number << 3 | 2) + _number(len(data)) + data


def _node(kind: str, inputs: list[str], output: str, **attributes: int) -> bytes:
    body = b"".join(_field(1, name) for name in inputs) + _field(2, output) + _field(4, kind)
    for name, value in attributes.items():
        body += _field(5, _field(1, name) + _field(3, value) + _field(20, 2))  # an INT
    return _field(1, body)


def _tensor(name: str, values: Sequence[float], kind: int) -> bytes:
    form = "<f" if kind == FLOAT else "<q"
    raw = b"".join(struct.pack(form, value) for value in values)
    return _field(5, _field(1, len(values)) + _field(2, kind) + _field(8, name) + _field(9, raw))


def _value(field: int, name: str, kind: int, dims: list[str | int]) -> bytes:
    shape = b"".join(
        _field(1, _field(1, dim) if isinstance(dim, int) else _field(2, dim)) for dim in dims
    )
    tensor = _field(1, kind) + _field(2, shape)
    return _field(field, _field(1, name) + _field(2, _field(1, tensor)))


def model() -> bytes:
    """features (batch, 64, frames) to log_probs (batch, frames, 3): а, space, blank."""
    graph = (
        _node("ReduceMean", ["features", "axes"], "mean", keepdims=0)
        + _node("Unsqueeze", ["mean", "last"], "column")
        + _node("Sub", ["column", "middle"], "level")
        + _node("Mul", ["level", "weights"], "log_probs")
        + _field(2, "tiny")
        + _tensor("axes", [1], INT64)
        + _tensor("last", [2], INT64)
        + _tensor("middle", [LOUD], FLOAT)
        + _tensor("weights", [1.0, -1.0, 0.0], FLOAT)
        + _value(11, "features", FLOAT, ["batch", 64, "frames"])
        + _value(11, "feature_lengths", INT64, ["batch"])
        + _value(12, "log_probs", FLOAT, ["batch", "frames", 3])
    )
    opset = _field(1, "") + _field(2, 18)
    return _field(1, 8) + _field(7, graph) + _field(8, opset)


def write(folder: Path) -> Path:
    """The folder of a model such as an owner would put in place."""
    folder.mkdir(parents=True)
    (folder / "v3_ctc.onnx").write_bytes(model())
    (folder / "v3_vocab.txt").write_text("а 0\n\u2581 1\n<blk> 2\n", encoding="utf-8")
    (folder / "config.json").write_text(
        json.dumps({"model_type": "gigaam-v3-ctc", "version": "v3", "subsampling_factor": 1})
    )
    return folder


def speakers(middle: Sequence[float]) -> bytes:
    """feats (batch, frames, 80) to embs (batch, 80), the form of WeSpeaker's exports.

    A voice is how much each band moves, seen from `middle`: what lies between the voices that are
    to be told apart. (The bands' means are taken out before.)
    """
    graph = (
        _node("Mul", ["feats", "feats"], "squares")
        + _node("ReduceMean", ["squares", "axes"], "mean", keepdims=0)
        + _node("Sqrt", ["mean"], "moves")
        + _node("Sub", ["moves", "middle"], "embs")
        + _field(2, "speakers")
        + _tensor("axes", [1], INT64)
        + _tensor("middle", middle, FLOAT)
        + _value(11, "feats", FLOAT, ["batch", "frames", 80])
        + _value(12, "embs", FLOAT, ["batch", 80])
    )
    return _field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, 18))
