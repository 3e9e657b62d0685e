"""The settings: environment first, then `.env`. `docs/settings.md` lists them for the owner."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from worker.errors import ConfigurationError, Problem

ENV_FILE = ".env"


def _address(value: str) -> str:
    host, separator, port = value.rpartition(":")
    if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError("must be HOST:PORT")
    return value


Address = Annotated[str, AfterValidator(_address)]
"""A listen address, "HOST:PORT"."""


class Settings(BaseSettings):
    """What the owner can set. Construct it with `load()`, which names every problem at once."""

    model_config = SettingsConfigDict(
        env_file=ENV_FILE, env_file_encoding="utf-8", extra="forbid", hide_input_in_errors=True
    )

    # Inputs
    telegram_enabled: bool
    """Whether the Telegram input is wanted. No default: the owner says so either way."""
    telegram_token: SecretStr = SecretStr("")
    telegram_api_url: str = "https://api.telegram.org"
    max_upload_mb: Annotated[int, Field(ge=1, le=1_000_000)] = 2048
    max_duration_hours: Annotated[float, Field(gt=0, le=240)] = 12.0

    # Accounts
    owner_email: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")] = "owner@example.com"
    owner_password: SecretStr = SecretStr("")
    worker_password: SecretStr = SecretStr("")

    # Where things are
    data_dir: Path = Path("data")
    pocketbase_http: Address = "127.0.0.1:8090"
    pocketbase_url: str = ""
    """Where workers find PocketBase; empty: at `pocketbase_http`."""
    media_http: Address = "127.0.0.1:9465"
    """The metadata source. It must be an address of this machine's loopback."""
    metrics_http: Address = "127.0.0.1:9464"

    # Queue
    max_attempts: Annotated[int, Field(ge=1, le=1000)] = 10
    backoff_seconds: Annotated[float, Field(gt=0, le=3600)] = 5.0
    backoff_max_seconds: Annotated[float, Field(gt=0, le=86400)] = 900.0
    poll_seconds: Annotated[float, Field(ge=0.05, le=60)] = 1.0
    check_seconds: Annotated[float, Field(ge=0.05, le=3600)] = 5.0

    # Recognition
    recogniser: Literal["local"] = "local"
    engine_model: str = "base"
    """`base` (shipped), a folder on disk, or the name of a model on the hub."""
    engine_processes: Annotated[int, Field(ge=1, le=64)] = 1
    engine_threads: Annotated[int, Field(ge=0, le=256)] = 0
    """Threads of each engine process; 0: the machine's cores shared among the processes."""

    # What people read
    locale: Literal["ru", "en"] = "ru"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = []
        if self.telegram_enabled and not self.telegram_token.get_secret_value():
            problems.append("TELEGRAM_TOKEN: must be set when TELEGRAM_ENABLED is true")
        for key in ("owner_password", "worker_password"):
            if 0 < len(getattr(self, key).get_secret_value()) < 8:
                problems.append(f"{key.upper()}: must have at least 8 characters")
        if self.backoff_max_seconds < self.backoff_seconds:
            problems.append("BACKOFF_MAX_SECONDS: must not be below BACKOFF_SECONDS")
        if self.media_http.rpartition(":")[0] not in {"127.0.0.1", "localhost", "[::1]"}:
            problems.append("MEDIA_HTTP: must be on loopback")
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @property
    def url(self) -> str:
        """PocketBase's address for clients, without a trailing slash."""
        return (self.pocketbase_url or f"http://{self.pocketbase_http}").rstrip("/")

    @property
    def threads(self) -> int:
        """Threads of one engine process."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        return self.engine_threads or max(1, (cores or 1) // self.engine_processes)

    @property
    def max_duration_seconds(self) -> float:
        """The longest admitted recording, in seconds."""
        return self.max_duration_hours * 3600

    @cached_property
    def folders(self) -> Folders:
        """The places under `DATA_DIR`."""
        return Folders(self.data_dir.absolute())


class Folders:
    """Everything the service writes lies in these, all under `DATA_DIR`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pocketbase = root / "pocketbase"
        self.models = root / "models"
        self.secrets = root / "secrets"
        self.run = root / "run"
        """Locks and scratch files of live processes."""
        self.metrics = root / "run" / "metrics"


def load(**overrides: Any) -> Settings:
    """Read the settings.

    Raises:
        ConfigurationError: with every problem, each by its key, never with a value.
    """
    try:
        return Settings(**overrides)
    except ValidationError as error:
        raise ConfigurationError(*_problems(error)) from None


def _problems(error: ValidationError) -> list[Problem]:
    problems: list[Problem] = []
    for detail in error.errors(include_input=False, include_url=False):
        key = "_".join(str(part) for part in detail["loc"]).upper()
        if detail["type"] == "missing":
            problems.append(Problem(key, "must be set"))
        elif detail["type"] == "extra_forbidden":
            problems.append(Problem(key, "no such setting"))
        elif key:
            problems.append(Problem(key, detail["msg"].removeprefix("Value error, ").lower()))
        else:  # the model validator's own lines, each "KEY: message"
            for line in detail["msg"].removeprefix("Value error, ").splitlines():
                name, _, message = line.partition(": ")
                problems.append(Problem(name, message))
    return problems
