"""The settings: every problem at once, each by its key, never with a value."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from worker import logs, settings
from worker.errors import ConfigurationError
from worker.settings import Settings

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"


@pytest.fixture(autouse=True)
def empty_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for key in settings.KEYS:
        monkeypatch.delenv(key, raising=False)


@pytest.fixture
def env_file(tmp_path: Path):
    def write(text: str | bytes) -> None:
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / ".env").write_bytes(data)

    return write


def problems(**overrides: object) -> dict[str, str]:
    with pytest.raises(ConfigurationError) as caught:
        settings.load(**overrides)
    return {problem.key: problem.message for problem in caught.value.problems}


def test_telegram_enabled_has_no_default():
    assert problems() == {"TELEGRAM_ENABLED": "must be set"}


def test_every_problem_is_named_at_once(env_file, monkeypatch):
    env_file("MAX_ATTEMPTS=many\nBACKOFF_SECONDS=10\nBACKOFF_MAX_SECONDS=5\nNONSENSE=1\n")
    monkeypatch.setenv("TELEGRAM_ENABLE", "true")
    monkeypatch.setenv("MEDIA_HTTP", "0.0.0.0:9465")
    monkeypatch.setenv("OWNER_PASSWORD", "short")
    assert set(problems()) == {
        "TELEGRAM_ENABLED",
        "MAX_ATTEMPTS",
        "BACKOFF_MAX_SECONDS",
        "NONSENSE",
        "TELEGRAM_ENABLE",
        "MEDIA_HTTP",
        "OWNER_PASSWORD",
    }


def test_the_environment_wins_over_the_file(env_file, monkeypatch):
    env_file("TELEGRAM_ENABLED=false\nMAX_ATTEMPTS=3\nLOCALE=en\n")
    monkeypatch.setenv("MAX_ATTEMPTS", "4")
    loaded = settings.load()
    assert (loaded.max_attempts, loaded.locale) == (4, "en")


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_an_empty_value_counts_as_unset(env_file, bom):
    env_file(bom + b"TELEGRAM_ENABLED=false\nOWNER_PASSWORD=\nMAX_ATTEMPTS=\nTELEGRAM_TOKEN=\n")
    loaded = settings.load()
    assert loaded.owner_password.get_secret_value() == ""
    assert loaded.max_attempts == Settings.model_fields["max_attempts"].default


def test_an_empty_telegram_enabled_is_not_an_answer(env_file):
    env_file("TELEGRAM_ENABLED=\n")
    assert problems() == {"TELEGRAM_ENABLED": "must be set"}


@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        ("/srv/what?/data", "must have no ? in its path: the database would lie elsewhere"),
        ("/srv/" + "ж/" * 220, "its path must not be longer than 440 bytes"),
    ],
)
def test_a_folder_that_the_database_cannot_lie_in_is_named(monkeypatch, folder, problem):
    monkeypatch.setenv("TELEGRAM_ENABLED", "false")
    monkeypatch.setenv("DATA_DIR", folder)
    assert problems() == {"DATA_DIR": problem}


@pytest.mark.parametrize("line", ["OWNER_MAIL=a@b.example", "OWNER_MAIL=", "OWNER_MAIL"])
def test_an_unknown_key_of_the_file_is_named_with_what_was_meant(env_file, line):
    env_file(f"TELEGRAM_ENABLED=false\n{line}\n")
    assert problems() == {"OWNER_MAIL": "no such setting: did you mean OWNER_EMAIL?"}


def test_a_line_that_is_no_assignment_is_named_by_its_number(env_file):
    env_file("TELEGRAM_ENABLED=false\n\nMAX ATTEMPTS=3\n")
    assert problems() == {".env": "line 3: must be KEY=value"}


def test_a_file_that_is_not_text_is_a_problem(env_file):
    env_file(b"TELEGRAM_ENABLED=false\nOWNER_PASSWORD=\xff\xfe\n")
    assert ".env" in problems()


def test_a_file_that_cannot_be_read_hides_no_problem_of_the_environment(env_file, monkeypatch):
    env_file(b"\xff\xfeTELEGRAM_ENABLED=false\n")
    monkeypatch.setenv("MAX_ATTEMPTS", "many")
    monkeypatch.setenv("LOG_LEVEL", "LOUD")
    assert set(problems()) == {"MAX_ATTEMPTS", "LOG_LEVEL", ".env"}


def test_a_folder_in_place_of_the_file_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.setenv("TELEGRAM_ENABLED", "false")
    (tmp_path / ".env").mkdir()
    assert problems() == {".env": "cannot be read: is a directory"}


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("MAX_ATTEMPT", "MAX_ATTEMPTS"),
        ("MAX_ATEMPTS", "MAX_ATTEMPTS"),
        ("TELEGRAM_ENABLE", "TELEGRAM_ENABLED"),
        ("TELEGRAM_TOKENS", "TELEGRAM_TOKEN"),
        ("RECOGNIZER", "RECOGNISER"),
        ("MAX_UPLOAD_GB", "MAX_UPLOAD_MB"),
        ("OWNER_PASWORD", "OWNER_PASSWORD"),
        ("ENGINE_PROCESS", "ENGINE_PROCESSES"),
    ],
)
def test_a_near_miss_in_the_environment_is_named(monkeypatch, variable, meant):
    monkeypatch.setenv("TELEGRAM_ENABLED", "false")
    monkeypatch.setenv(variable, "5")
    assert problems() == {variable: f"no such setting: did you mean {meant}?"}


@pytest.mark.parametrize(
    "variable",
    [
        "PATH",
        "LOGLEVEL",
        "LOG_LEVELS",
        "DATADIR",
        "LOCALES",
        "XDG_DATA_DIRS",
        "HTTP_PROXY",
        "PROMETHEUS_MULTIPROC_DIR",
        "POCKETBASE_TOKEN",
        "TELEGRAM_CHAT",
        "TELEGRAM_CHAT_ID",
        "TELEGRAM_BOT_TOKEN",
        "TELEGRAM_API_ID",
        "TELEGRAM_API_HASH",
        "TELEGRAM_API_KEY",
        "MEDIA_URL",
        "MEDIA_SECRET",
        "OWNER",
        "EMAIL",
        "WORKERS",
        "ENGINE",
        "MODEL",
        "TRANSCRIBER_URL",
        "TRANSCRIBER_EMAIL",
        "TRANSCRIBER_PASSWORD",
    ],
)
def test_other_programs_variables_are_left_alone(monkeypatch, variable):
    monkeypatch.setenv("TELEGRAM_ENABLED", "false")
    monkeypatch.setenv(variable, "5")
    settings.load()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("TELEGRAM_ENABLED", "perhaps"),
        ("MAX_UPLOAD_MB", "0"),
        ("MAX_DURATION_HOURS", "nan"),
        ("MAX_ATTEMPTS", "1e3"),
        ("POCKETBASE_HTTP", "8090"),
        ("POCKETBASE_HTTP", "::1:8090"),
        ("METRICS_HTTP", "127.0.0.1:70000"),
        ("METRICS_HTTP", "127.0.0.1:8090"),
        ("POCKETBASE_URL", "example.com"),
        ("TELEGRAM_API_URL", "ftp://x"),
        ("OPENAI_URL", "https://x/v1?api-key=hush"),
        ("PROOFREAD_URL", "https://x/v1#hush"),
        *((key, "https://user:hush@x.example/v1") for key in settings.KEYS if key.endswith("_URL")),
        ("OPENAI_URL", "https://hush@x.example"),
        ("OWNER_EMAIL", "owner@localhost"),
        ("OWNER_EMAIL", "a b@c.example"),
        ("OWNER_PASSWORD", "я" * 40),
        ("LOCALE", "de"),
        ("RECOGNISER", "magic"),
    ],
)
def test_a_malformed_value_is_named_and_not_shown(monkeypatch, key, value):
    monkeypatch.setenv("TELEGRAM_ENABLED", "false")
    monkeypatch.setenv(key, value)
    found = problems()
    assert set(found) == {key}
    assert value not in found[key]
    assert "hush" not in found[key]


def test_an_enabled_telegram_needs_a_token():
    found = problems(telegram_enabled=True, telegram_token=" ")
    assert found == {"TELEGRAM_TOKEN": "must be set when TELEGRAM_ENABLED is true"}


def test_a_disabled_telegram_does_not_look_at_the_token():
    assert not settings.load(telegram_enabled=False, telegram_token="x").telegram_enabled


def test_a_secret_shows_nowhere(monkeypatch):
    secret = "hush-hush-12345"
    for key in ("TELEGRAM_TOKEN", "OWNER_PASSWORD", "WORKER_PASSWORD"):
        monkeypatch.setenv(key, secret)
    monkeypatch.setenv("TELEGRAM_ENABLED", "true")
    loaded = settings.load()
    assert secret not in f"{loaded!r} {loaded} {loaded.model_dump()} {loaded.model_dump_json()}"
    assert secret not in logs.redact(f"a library prints {secret}")
    monkeypatch.setenv("MAX_ATTEMPTS", secret)
    monkeypatch.setenv("LOCALE", secret)
    with pytest.raises(ConfigurationError) as caught:
        settings.load()
    assert secret not in f"{caught.value} {caught.value!r} {caught.value.problems}"
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("listens", "url"),
    [
        ("127.0.0.1:8090", "http://127.0.0.1:8090"),
        ("0.0.0.0:81", "http://127.0.0.1:81"),
        ("[::]:81", "http://[::1]:81"),
    ],
)
def test_clients_call_an_address_that_can_be_called(listens, url):
    assert settings.load(telegram_enabled=False, pocketbase_http=listens).url == url


def test_an_address_of_pocketbase_elsewhere_wins():
    loaded = settings.load(telegram_enabled=False, pocketbase_url="https://pb.example/")
    assert loaded.url == "https://pb.example"


def test_words_may_be_written_in_any_case():
    loaded = settings.load(telegram_enabled=False, log_level="debug", locale="EN")
    assert (loaded.log_level, loaded.locale) == ("DEBUG", "en")


def test_the_docs_list_every_setting_with_its_default():
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| (.*?) \|", DOCS.read_text(), re.M))
    assert tuple(rows) == settings.KEYS
    for name, field in Settings.model_fields.items():
        if field.is_required():
            shown = "none: must be set"
        else:
            value = getattr(field.default, "get_secret_value", lambda v=field.default: v)()
            shown = f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
            shown = "" if shown == "``" else shown
        assert rows[name.upper()] == shown, name
