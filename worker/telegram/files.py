"""A message's file, fetched to this machine's disk in a stream."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from loguru import logger
from telegram.error import BadRequest

from worker.errors import TranscriberError
from worker.settings import Settings
from worker.telegram.api import Api, downloader, explain, is_cloud
from worker.telegram.media import Attachment, extension_in


class OverTelegram(TranscriberError):
    """The Bot API server gives no file of this size."""


class OverOurs(TranscriberError):
    """The file is larger than `MAX_UPLOAD_MB`."""


class FileFault(TranscriberError):
    """The file could not be fetched; it may be later."""


class Files:
    """Fetches files into a folder of its own."""

    def __init__(self, api: Api, settings: Settings, folder: Path) -> None:
        self._api = api
        self._settings = settings
        self._folder = folder
        self._limit = settings.max_upload_mb << 20
        self._http = downloader(settings)
        self._blamed = False

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    @asynccontextmanager
    async def fetched(self, attachment: Attachment, name: str) -> AsyncIterator[Path]:
        """The file on this disk, for as long as the block runs. `name`: one of our own.

        Raises:
            OverTelegram, OverOurs: too large for the Bot API, or for this service.
            FileFault: it could not be fetched.
            TelegramError: the Bot API did not say where it is.
        """
        if attachment.size is not None and attachment.size > self._limit:
            raise OverOurs
        where = await self._where(attachment)
        extension = attachment.extension or extension_in(where) or "audio"
        path = self._folder / f"{name}.{extension}"
        try:
            if where.startswith("/"):
                self._link(Path(where), path)
            else:
                await self._download(where, path)
            yield path
        finally:
            path.unlink(missing_ok=True)

    async def _where(self, attachment: Attachment) -> str:
        try:
            where = await self._api.file_path(attachment.file_id)
        except BadRequest as error:
            if "too big" in error.message:
                self._blame()
                raise OverTelegram from error
            raise FileFault("find file: " + explain(error)) from error
        if not where:
            raise FileFault("find file: telegram names no place for it")
        return where

    def _blame(self) -> None:
        """Say once why a server of the owner's own gives no more than Telegram's does."""
        if not is_cloud(self._settings) and not self._blamed:
            self._blamed = True
            logger.warning(
                "telegram file refused as too big",
                reason="the bot api server at TELEGRAM_API_URL is not in local mode: start it "
                "with --local",
            )

    def _link(self, source: Path, path: Path) -> None:
        if is_cloud(self._settings):
            raise FileFault("find file: telegram names a place on this disk")
        try:
            readable = source.is_file() and os.access(source, os.R_OK)
        except OSError:
            readable = False
        if not readable:
            raise FileFault(
                "find file: the bot api server keeps it where this machine cannot read it"
            )
        if source.stat().st_size > self._limit:
            raise OverOurs
        path.unlink(missing_ok=True)
        path.symlink_to(source)

    async def _download(self, where: str, path: Path) -> None:
        size = 0
        try:
            async with self._http.stream("GET", where) as response:
                if response.status_code != httpx.codes.OK:
                    raise FileFault(f"fetch file: telegram answered {response.status_code}")
                with path.open("wb") as file:
                    async for chunk in response.aiter_bytes(1 << 18):
                        size += len(chunk)
                        if size > self._limit:
                            raise OverOurs
                        file.write(chunk)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise FileFault("fetch file: " + explain(error)) from error
