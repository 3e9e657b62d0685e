"""The model's address: any server with `POST {PROOFREAD_URL}/chat/completions`.

What such a server says in words may repeat the key or the text, so no word of it goes any further:
only statuses and machine codes do.
"""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from worker.errors import ProofreadingFailed
from worker.proofreading.prompt import messages
from worker.settings import LOOPBACK, Settings

CONNECT: Final = 10.0
"""Seconds for a connection."""
LARGEST: Final = 4 << 20
"""Bytes of an answer that are read: some hundred times what a piece can need."""
_CODE: Final = re.compile(r"[a-z][a-z_]{1,39}")
_SPENT: Final = {"insufficient_quota", "billing_hard_limit_reached"}
"""Codes of a quota that no pause of ours brings back."""


class Endpoint:
    """Asks for corrections. Lives on one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._url = f"{settings.proofread_url}/chat/completions"
        self._model = settings.proofread_model
        self._timeout = settings.proofread_timeout_seconds
        self._key = settings.proofread_api_key.get_secret_value().strip()
        self._plain = True  # temperature 0, unless the model says that it cannot
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=CONNECT),
            trust_env=not _is_near(self._url),  # a proxy is for the outside world
            headers={"Accept-Encoding": "identity"},
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def correct(self, text: str, vocabulary: str) -> str:
        """The model's answer to a piece, as it came.

        Raises:
            ProofreadingFailed: there is none that could be used.
        """
        body: dict[str, Any] = {"model": self._model, "messages": messages(text, vocabulary)}
        try:
            async with asyncio.timeout(self._timeout):
                if self._plain:
                    status, answer, after = await self._post({**body, "temperature": 0})
                    if status != httpx.codes.BAD_REQUEST or _error(answer)[1] != "temperature":
                        return _content(status, answer, after)
                    self._plain = False
                return _content(*await self._post(body))
        except TimeoutError:
            raise ProofreadingFailed(f"no answer within {self._timeout:g} s", "slow") from None
        except httpx.ConnectTimeout:
            raise ProofreadingFailed("no connection in time", "slow") from None
        # Not `from` the error: one about a header shows the header, one about an address its key.
        except (httpx.HTTPError, httpx.StreamError) as error:
            reason = f"not reachable ({type(error).__name__})"
            raise ProofreadingFailed(reason, "passing") from None
        except (httpx.InvalidURL, UnicodeError) as error:
            reason = f"no request could be made ({type(error).__name__})"
            raise ProofreadingFailed(reason, "lasting") from None

    async def _post(self, body: dict[str, Any]) -> tuple[int, Any, float]:
        """Status, JSON or None, and the seconds of a pause that is asked for."""
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        async with self._http.stream("POST", self._url, json=body, headers=headers) as response:
            data = bytearray()
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > LARGEST:
                    raise ProofreadingFailed("the answer has no end", "piece")
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            answer = None
        return response.status_code, answer, _pause(response.headers.get("Retry-After", ""))


def _is_near(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in LOOPBACK or host == "::1"


def _content(status: int, answer: Any, after: float) -> str:
    """The text in an answer.

    Raises:
        ProofreadingFailed: by what the status and the answer's own marks say.
    """
    if status != httpx.codes.OK:
        code, _ = _error(answer)
        reason = f"answered {status} {code}".rstrip()
        if code in _SPENT:
            raise ProofreadingFailed(reason, "lasting")
        if status in {408, 409, 425, 429} or status >= 500:
            raise ProofreadingFailed(reason, "passing", after)
        if status in {400, 413, 422} and "model" not in code:
            raise ProofreadingFailed(reason, "piece")
        raise ProofreadingFailed(reason, "lasting")
    match answer:
        case {"choices": [{"message": {**message}, **choice}, *_]}:
            end = choice.get("finish_reason")
            if isinstance(end, str) and end in {"length", "content_filter"}:
                raise ProofreadingFailed(f"answer cut off ({end})", "piece")
            content = message.get("content")
            if isinstance(content, str) and content.strip():
                return content
            raise ProofreadingFailed("an empty answer", "piece")
    raise ProofreadingFailed("answered with something else than a completion", "passing")


def _error(answer: Any) -> tuple[str, str]:
    """The machine code of a refusal, and the parameter that it is about; empty when unnamed."""
    match answer:
        case {"error": {**error}}:
            code, parameter = error.get("code") or error.get("type"), error.get("param")
            code = code if isinstance(code, str) and _CODE.fullmatch(code) else ""
            return code, parameter if isinstance(parameter, str) else ""
    return "", ""


def _pause(header: str) -> float:
    """Seconds, from a `Retry-After` in either of its forms; 0 for none."""
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        then = parsedate_to_datetime(header)
        return max(0.0, (then - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0
