"""What fuzzing found of the proofreading endpoint: no answer is more than a piece that failed.

A bare error kept the recording from `done`, attempt after attempt.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.unit.loopback import serve
from worker.errors import ProofreadingFailed
from worker.proofreading.endpoint import Endpoint, _pause
from worker.settings import load

ODD: tuple[Any, ...] = (None, True, 7, "x", [], [None], {}, {"a": [1]})


def answered(answer: Any, folder: Path, status: int = 200) -> str:
    async def ask(url: str) -> str:
        endpoint = Endpoint(
            load(telegram_enabled=False, data_dir=folder, proofread_url=url, proofread_model="m")
        )
        try:
            return await endpoint.correct("text", "")
        finally:
            await endpoint.close()

    with serve() as server:
        server.routes["POST /chat/completions"] = (status, answer)
        return asyncio.run(ask(f"http://{server.address}"))


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_an_odd_reason_to_end_is_no_error_of_ours(odd: Any, tmp_path: Path) -> None:
    choice = {"message": {"content": "Text."}, "finish_reason": odd}

    assert answered({"choices": [choice]}, tmp_path) == "Text."


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_any_other_form_is_a_piece_that_failed(odd: Any, tmp_path: Path) -> None:
    for answer, status in (
        (odd, 200),
        (b"", 200),
        ({"choices": odd}, 200),
        ({"choices": [odd]}, 200),
        ({"choices": [{"message": odd}]}, 200),
        ({"error": odd}, 400),
        ({"error": {"code": odd, "type": odd, "param": odd}}, 429),
    ):
        with pytest.raises(ProofreadingFailed):
            answered(answer, tmp_path, status)


@pytest.mark.parametrize("asked", ["nan", "-1", "soon", "Mon, 01 Jan 99999999999 00:00:00 GMT", ""])
def test_a_pause_that_cannot_be_is_none(asked: str) -> None:
    assert _pause(asked) == 0.0
