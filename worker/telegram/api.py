"""The Bot API as this service calls it: the library's Bot, with its faults told apart.

What the library leaves together is told apart here, by what it means for a message that was being
sent: that it was refused, that it certainly did not arrive, or that nobody can know.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import urllib.parse
from http import HTTPStatus
from typing import Any, Final

import httpx
from telegram import Bot
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)
from telegram.request import HTTPXRequest

from worker.settings import LOOPBACK, Settings

# The library's times as what they are to be; without this it prints a warning at each limit.
os.environ.setdefault("PTB_TIMEDELTA", "1")

CLOUD: Final = "https://api.telegram.org"
CLOUD_LIMIT_MB: Final = 20
POLL: Final = 25
"""Seconds that Telegram may hold a poll open."""
_ANSWER: Final = 20.0
"""Seconds within which Telegram is to answer anything else."""

_NEVER_ARRIVED: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.WriteTimeout,
    httpx.WriteError,
    httpx.UnsupportedProtocol,
    httpx.ProxyError,
)
"""Faults before the request was out in whole."""


class ServerFault(NetworkError):
    """The server said itself that it failed (5xx), or it is no Bot API at all."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        super().__init__(reason)


class Request(HTTPXRequest):
    """Keeps the status of a failed call, which the library drops."""

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        """See the library."""
        status, body = await super().do_request(*args, **kwargs)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise ServerFault(status, f"answered {status}")
        if not _is_bot_api(body):
            # A wrong address, or somebody's sign-in page in between: no word from Telegram.
            raise ServerFault(status, f"answered {status} with something that is no Bot API")
        return status, body


def _is_bot_api(body: bytes) -> bool:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(answer, dict):
        return False
    return answer.get("ok") is False or (answer.get("ok") is True and "result" in answer)


class Api(Bot):
    """The library's Bot, and the two calls of which it says too little."""

    async def raw_updates(self, offset: int | None, timeout: int) -> list[dict[str, Any]]:
        """Updates as they came, so that one that cannot be understood does not take the others
        with it."""
        answer: Any = await self._post(
            "getUpdates",
            {"offset": offset, "timeout": timeout, "allowed_updates": ["message"]},
            read_timeout=timeout + 10.0,
        )
        if not isinstance(answer, list):
            raise ServerFault(HTTPStatus.OK, "answered with something that is no list of updates")
        # What has no number can neither be confirmed nor told from the next.
        return [
            raw for raw in answer if isinstance(raw, dict) and isinstance(raw.get("update_id"), int)
        ]

    async def file_path(self, file_id: str) -> str:
        """Where a file lies: below the server's address, or on its own disk in local mode."""
        answer: Any = await self._post("getFile", {"file_id": file_id})
        return str(answer.get("file_path") or "") if isinstance(answer, dict) else ""


def token_of(settings: Settings) -> str:
    """The bot's token, without what came along when it was copied."""
    return settings.telegram_token.get_secret_value().strip()


def is_cloud(settings: Settings) -> bool:
    """Whether the Bot API is Telegram's own server and not one of the owner's."""
    return settings.telegram_api_url == CLOUD


def build(settings: Settings) -> Api:
    """A Bot that has not spoken to Telegram yet."""
    # The library logs what people write when it cannot read it, and every call when it debugs.
    logging.getLogger("telegram").setLevel(logging.CRITICAL + 1)
    return Api(
        token_of(settings),
        base_url=f"{settings.telegram_api_url}/bot",
        base_file_url=f"{settings.telegram_api_url}/file/bot",
        request=_request(settings, 64, _ANSWER),
        get_updates_request=_request(settings, 1, POLL + 10.0),
    )


def _request(settings: Settings, connections: int, seconds: float) -> Request:
    return Request(
        connection_pool_size=connections,
        connect_timeout=10.0,
        read_timeout=seconds,
        write_timeout=seconds,
        media_write_timeout=60.0,
        pool_timeout=60.0,
        httpx_kwargs={"trust_env": not _is_near(settings.telegram_api_url)},
    )


def downloader(settings: Settings) -> httpx.AsyncClient:
    """For files, which the library would read into memory."""
    return httpx.AsyncClient(
        base_url=f"{settings.telegram_api_url}/file/bot{token_of(settings)}/",
        timeout=httpx.Timeout(60.0, connect=10.0),
        trust_env=not _is_near(settings.telegram_api_url),
    )


def _is_near(url: str) -> bool:
    """Whether a proxy for the outside world is none of this address's."""
    host = urllib.parse.urlsplit(url).hostname or ""
    return host in LOOPBACK or host == "::1"


def explain(error: BaseException) -> str:
    """What went wrong, in words of our own: the library's may carry addresses, and so the token."""
    match error:
        case RetryAfter():
            return f"telegram asks to wait {seconds_of(error):g} s"
        case InvalidToken():
            return "telegram knows no bot with this token"
        case Conflict():
            return _conflict(error)
        case Forbidden() | BadRequest():
            return f"telegram refused: {error.message}"
        case ChatMigrated():
            return "the chat became a supergroup"
        case ServerFault():
            return error.message
        case TimedOut() | TimeoutError():
            return "no answer in time"
        case NetworkError():
            return f"not reachable ({type(error.__cause__ or error).__name__})"
        case httpx.HTTPError():
            return f"not reachable ({type(error).__name__})"
        case TelegramError():
            return type(error).__name__
    return type(error).__name__


def _conflict(error: Conflict) -> str:
    if "webhook" in error.message:
        return "a webhook is set for this bot: remove it with deleteWebhook"
    return "another program polls this bot: only one may; stop the other one, or change the token"


def seconds_of(error: RetryAfter) -> float:
    """How long Telegram wants to be left alone."""
    wait = error.retry_after
    return wait.total_seconds() if isinstance(wait, datetime.timedelta) else float(wait)


def may_have_arrived(error: BaseException) -> bool:
    """Whether a call that failed so may have been carried out all the same.

    An answer of 5xx says that it was not, but for 504: there the one who answered gave up waiting
    for the one who acts.
    """
    if isinstance(error, ServerFault):
        return error.status == HTTPStatus.GATEWAY_TIMEOUT
    if not isinstance(error, NetworkError) or isinstance(error, BadRequest):
        return False
    return not isinstance(error.__cause__, _NEVER_ARRIVED)
