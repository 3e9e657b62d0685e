"""Logging: one line, the same fields everywhere (`job_id`, `step`, `attempt`, `reason`).

No line may hold a recording's name or text, a message, or a secret. Whoever logs an error
passes it through `worker.errors.describe`; `register_secret` is the last net under that.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from loguru import logger

if TYPE_CHECKING:
    from loguru import Record

_secrets: set[str] = set()


def register_secret(value: str) -> None:
    """Never print this value again, whatever a library puts into a line."""
    if value:
        _secrets.add(value)


def redact(text: str) -> str:
    """The text with every registered secret blotted out."""
    for secret in _secrets:
        text = text.replace(secret, "***")
    return text


def set_up(process: str, level: str) -> None:
    """Log to standard error, in the name of this process."""
    logger.remove()
    logger.configure(extra={"process": process}, patcher=_patch)
    logger.add(
        sys.stderr, level=level, format=_format, backtrace=False, diagnose=False, colorize=False
    )
    # Libraries speak through logging; their requests' URLs are nobody's business.
    logging.basicConfig(handlers=[_Bridge()], level=logging.WARNING, force=True)


def _patch(record: Record) -> None:
    record["message"] = redact(record["message"]).replace("\n", " ")


def _format(record: Record) -> str:
    fields = {k: v for k, v in record["extra"].items() if k not in {"process", "fields"}}
    text = " ".join(f"{name}={redact(str(value))}" for name, value in fields.items())
    record["extra"]["fields"] = f" {text}".replace("\n", " ") if text else ""
    return "{time:YYYY-MM-DD HH:mm:ss.SSS} {level: <7} {extra[process]} {message}{extra[fields]}\n"


class _Bridge(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        logger.opt(depth=6).log(record.levelname, record.getMessage())
