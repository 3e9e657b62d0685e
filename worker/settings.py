"""The settings: environment first, then `.env`. `docs/settings.md` lists them for the owner."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from worker import settings_problems
from worker.cores import cores
from worker.errors import ConfigurationError, Problem
from worker.logs import register_secret

ENV_FILE = Path(".env")
LONGEST_FOLDER = 440
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def split(address: str) -> tuple[str, int]:
    """Host and port of a valid `Address`; an IPv6 host comes without its brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _address(value: str) -> str:
    host, separator, port = value.rpartition(":")
    bare = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if not separator or not host or bare or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError("must be HOST:PORT")
    return value


def _http(value: str) -> str:
    scheme, separator, rest = value.partition("://")
    if value and not (scheme in {"http", "https"} and separator and rest.strip("/")):
        raise ValueError("must begin with http:// or https:// and name a host")
    if "@" in rest.partition("/")[0]:
        # Messages show addresses; and such a password would go out in place of the key.
        raise ValueError("must have no user and password in front of the host")
    if "?" in value or "#" in value:
        # What is added to it would stand in the query, and a key there in every server's log.
        raise ValueError("must have nothing behind the path: no ? and no #")
    return value.rstrip("/")


def _folder(value: Path) -> Path:
    folder = value.expanduser()
    # SQLite takes what stands behind a `?` for options, and no path beyond its limit of 512 bytes.
    if "?" in str(folder.absolute()):
        raise ValueError("must have no ? in its path: the database would lie elsewhere")
    if len(os.fsencode(folder.absolute())) > LONGEST_FOLDER:
        raise ValueError(f"its path must not be longer than {LONGEST_FOLDER} bytes")
    return folder


def _email(value: str) -> str:
    name, _, domain = value.rpartition("@")
    if not name or "." not in domain.strip(".") or value.split() != [value] or "@" in name:
        raise ValueError("must be an e-mail address")
    return value


def _password(value: SecretStr) -> SecretStr:
    # PocketBase refuses anything else, and bcrypt reads no further.
    length = len(value.get_secret_value())
    if length and (length < 8 or len(value.get_secret_value().encode()) > 71):
        raise ValueError("must have at least 8 characters and at most 71 bytes")
    return value


def _key(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError("must be printable ASCII without spaces")
    return value


Address = Annotated[str, AfterValidator(_address)]
"""A listen address, "HOST:PORT"."""
Folder = Annotated[Path, AfterValidator(_folder)]
Url = Annotated[str, AfterValidator(_http)]
"""An address to call, without a trailing slash."""
Password = Annotated[SecretStr, AfterValidator(_password)]
Key = Annotated[SecretStr, AfterValidator(_key)]
"""What goes into a header to be let in."""
Name = Literal["local", "openai", "speechkit"]
"""The recognisers."""
Upper = BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value)
Lower = BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)


class Settings(BaseSettings):
    """What the owner can set. Construct it with `load()`, which names every problem at once.

    A check that looks at two settings stands at the later one and skips when the earlier one is
    itself wrong, so that no problem hides another.
    """

    model_config = SettingsConfigDict(
        env_file=ENV_FILE,
        env_ignore_empty=True,
        dotenv_filtering="only_existing",  # `load` names the others, empty ones too
        extra="forbid",
        hide_input_in_errors=True,
        validate_default=True,
    )

    # Inputs
    telegram_enabled: bool
    """Whether the Telegram input is wanted. No default: the owner says so either way."""
    telegram_token: SecretStr = SecretStr("")
    telegram_api_url: Url = "https://api.telegram.org"
    telegram_acknowledge: Annotated[Literal["reaction", "reply", "none"], Lower] = "reaction"
    telegram_text_file_from: Annotated[int, Field(ge=1)] = 12_000
    """Characters of a text from which on it is sent as a file."""
    telegram_give_up_hours: Annotated[float, Field(gt=0, le=720)] = 24.0
    """How long an answer is tried while Telegram cannot be reached."""
    max_upload_mb: Annotated[int, Field(ge=1, le=1_000_000)] = 2048
    max_duration_hours: Annotated[float, Field(gt=0, le=240)] = 12.0

    # Accounts
    owner_email: Annotated[str, AfterValidator(_email)] = "owner@example.com"
    owner_password: Password = SecretStr("")
    worker_password: Password = SecretStr("")

    # Where things are
    data_dir: Folder = Path("data")
    pocketbase_http: Address = "127.0.0.1:8090"
    pocketbase_url: Url = ""
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
    recogniser: Name = "local"
    recogniser_fallback: Literal["", "local", "openai", "speechkit"] = ""
    """Used when the first stays unreachable, or does not take so long a recording."""
    recogniser_parallel: Annotated[int, Field(ge=1, le=64)] = 4
    """Recordings that are handed to remote recognisers at the same time."""
    openai_url: Url = ""
    """The address that `/audio/transcriptions` stands under."""
    openai_api_key: Key = SecretStr("")
    openai_model: Annotated[str, Field(min_length=1)] = "whisper-1"
    openai_max_mb: Annotated[float, Field(ge=1, le=4096)] = 25.0
    """The largest file that the server takes, in MiB."""
    openai_max_seconds: Annotated[float, Field(ge=5, le=7200)] = 1400.0
    openai_response: Annotated[Literal["verbose_json", "json", "auto"], Lower] = "auto"
    speechkit_api_key: Key = SecretStr("")
    speechkit_iam_token: Key = SecretStr("")
    speechkit_folder_id: str = ""
    speechkit_model: Annotated[str, Field(min_length=1)] = "general"
    speechkit_url: Url = "https://stt.api.cloud.yandex.net"
    speechkit_operations_url: Url = "https://operation.api.cloud.yandex.net"
    engine_model: str = "base"
    """`base` (shipped), a folder on disk, or the name of a model on the hub."""
    engine_processes: Annotated[int, Field(ge=1, le=64)] = 1
    engine_threads: Annotated[int, Field(ge=0, le=256)] = 0
    """Threads of each engine process; 0: the machine's cores shared among the processes."""
    channels: Annotated[Literal["mix", "split"], Lower] = "mix"
    """What is done with stereo where the sender does not say; `split`: one speaker in each."""
    speakers_model: str = ""
    """A speaker model's ONNX file; empty: segments do not say who spoke."""
    speakers_max: Annotated[int, Field(ge=1, le=50)] = 10
    speakers_threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Mean cosine from which on two groups of segments are one speaker's. Depends on the model."""

    # Proofreading
    proofread_url: Url = ""
    """The address that `/chat/completions` stands under; empty: texts are not proofread."""
    proofread_api_key: Key = SecretStr("")
    proofread_model: Annotated[str, Field(max_length=150)] = ""
    proofread_timeout_seconds: Annotated[float, Field(gt=0, le=3600)] = 120.0
    """How long the correction of one piece of a text may take."""

    # What people read
    locale: Annotated[Literal["ru", "en"], Lower] = "ru"
    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], Upper] = "INFO"

    @field_validator("telegram_token")
    @classmethod
    def _token_where_wanted(cls, value: SecretStr, info: ValidationInfo) -> SecretStr:
        if info.data.get("telegram_enabled") and not value.get_secret_value().strip():
            raise ValueError("must be set when TELEGRAM_ENABLED is true")
        return value

    @field_validator("recogniser_fallback")
    @classmethod
    def _another(cls, value: str, info: ValidationInfo) -> str:
        if value and value == info.data.get("recogniser"):
            raise ValueError("must be another one than RECOGNISER")
        return value

    @field_validator("openai_url")
    @classmethod
    def _url_where_chosen(cls, value: str, info: ValidationInfo) -> str:
        if not value and _chosen("openai", info):
            raise ValueError("must be set when the recogniser openai is chosen")
        return value

    @field_validator("speechkit_iam_token")
    @classmethod
    def _key_where_chosen(cls, value: SecretStr, info: ValidationInfo) -> SecretStr:
        key = info.data.get("speechkit_api_key")
        given = value.get_secret_value() or (key is None or key.get_secret_value())
        if not given and _chosen("speechkit", info):
            raise ValueError(
                "it or SPEECHKIT_API_KEY must be set when the recogniser speechkit is chosen"
            )
        return value

    @field_validator("proofread_model")
    @classmethod
    def _model_where_wanted(cls, value: str, info: ValidationInfo) -> str:
        if info.data.get("proofread_url") and not value.strip():
            raise ValueError("must be set when PROOFREAD_URL is")
        return value.strip()

    @field_validator("media_http")
    @classmethod
    def _private(cls, value: str) -> str:
        if value.rpartition(":")[0] not in LOOPBACK:
            raise ValueError("must be on this machine's loopback, 127.0.0.1")
        return value

    @field_validator("media_http", "metrics_http")
    @classmethod
    def _ports_differ(cls, value: str, info: ValidationInfo) -> str:
        for earlier in ("pocketbase_http", "media_http"):
            other = info.data.get(earlier)
            if earlier != info.field_name and other and split(other)[1] == split(value)[1]:
                raise ValueError(f"must have another port than {earlier.upper()}")
        return value

    @field_validator("backoff_max_seconds")
    @classmethod
    def _pauses_grow(cls, value: float, info: ValidationInfo) -> float:
        if value < info.data.get("backoff_seconds", value):
            raise ValueError("must not be below BACKOFF_SECONDS")
        return value

    @property
    def url(self) -> str:
        """PocketBase's address for clients, without a trailing slash."""
        host, port = self.pocketbase_http.rsplit(":", 1)
        reachable = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104 - compared with, not listened on
        return self.pocketbase_url or f"http://{reachable}:{port}"

    @property
    def threads(self) -> int:
        """Threads of one engine process."""
        return self.engine_threads or max(1, cores() // self.engine_processes)

    @property
    def recognisers(self) -> tuple[Name, ...]:
        """Those that can be used as things are set."""
        ready: dict[Name, object] = {
            "local": True,
            "openai": self.openai_url,
            "speechkit": self.speechkit_api_key.get_secret_value()
            or self.speechkit_iam_token.get_secret_value(),
        }
        return tuple(name for name, there in ready.items() if there)

    @property
    def max_duration_seconds(self) -> float:
        """The longest admitted recording, in seconds."""
        return self.max_duration_hours * 3600

    @cached_property
    def folders(self) -> Folders:
        """The places under `DATA_DIR`."""
        return Folders(self.data_dir.absolute())


def _chosen(name: str, info: ValidationInfo) -> bool:
    return name in {info.data.get("recogniser"), info.data.get("recogniser_fallback")}


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


KEYS = tuple(name.upper() for name in Settings.model_fields)
"""The name of every setting, as the owner writes it."""


def load(**overrides: Any) -> Settings:
    """Read the settings. From here on the log never prints a secret one.

    Raises:
        ConfigurationError: with every problem, each by its key, never with a value.
    """
    problems = [
        *settings_problems.in_file(ENV_FILE, KEYS),
        *settings_problems.misspelt(os.environ, KEYS),
    ]
    settings = None
    try:
        settings = Settings(**overrides)
    except ValidationError as error:
        problems = [*settings_problems.refused(error), *problems]
    except (OSError, UnicodeDecodeError):
        problems = [
            *_beside_the_file(overrides),
            *(problems or [Problem(str(ENV_FILE), "cannot be read")]),
        ]
    if settings is None or problems:
        raise ConfigurationError(*problems)
    for value in dict(settings).values():
        if isinstance(value, SecretStr):
            register_secret(value.get_secret_value())
    return settings


def _beside_the_file(overrides: dict[str, Any]) -> Iterator[Problem]:
    """What is wrong whatever stands in a file that cannot be read."""
    try:
        Settings(**{"_env_file": None, **overrides})
    except ValidationError as error:
        yield from (
            each for each in settings_problems.refused(error) if "must be set" not in each.message
        )
