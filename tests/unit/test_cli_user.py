"""`user add`: made as the owner, its password shown once and kept for `send`."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker import secrets, settings
from worker.cli import account, main, server
from worker.cli.account import Account

from .loopback import Loopback, serve

EMAIL = "you@example.com"
LOGIN = "POST /api/collections/_superusers/auth-with-password"
CREATE = "POST /api/collections/users/records"
REFUSED = (400, {"status": 400, "message": "Failed to authenticate.", "data": {}})


@pytest.fixture
def pocketbase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    monkeypatch.chdir(tmp_path)
    for key in settings.KEYS:
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with serve() as pocketbase:
        pocketbase.routes = {
            "GET /api/health": (200, {"code": 200}),
            LOGIN: (200, {"token": "owner-token"}),
            CREATE: (200, {"id": "x"}),
        }
        monkeypatch.setenv("POCKETBASE_HTTP", pocketbase.address)
        yield pocketbase


@pytest.fixture
def owner(pocketbase) -> str:
    return secrets.owner_password(server.lenient())[0]


def created(pocketbase: Loopback) -> dict[str, object]:
    [(body, token)] = [(body, token) for route, body, token in pocketbase.seen if route == CREATE]
    assert token == "owner-token"
    return body


def test_the_password_is_shown_and_kept_for_send(pocketbase, owner, capsys):
    assert main(["user", "add", EMAIL]) == 0
    record = created(pocketbase)
    password = record.pop("password")
    assert record == {
        "email": EMAIL,
        "passwordConfirm": password,
        "verified": True,
        "emailVisibility": False,
    }
    assert len(password) >= 16
    shown = capsys.readouterr().out
    assert shown.count(password) == 1
    assert str(account.kept_in()) in shown
    assert account.kept() == Account(f"http://{pocketbase.address}", EMAIL, password)
    logins = [body for route, body, _ in pocketbase.seen if route == LOGIN]
    assert logins == [{"identity": "owner@example.com", "password": owner}]


def test_a_given_password_is_taken_and_not_shown(pocketbase, owner, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("given-given\n"))
    assert main(["user", "add", EMAIL, "--password-stdin"]) == 0
    assert created(pocketbase)["password"] == "given-given"
    assert "given-given" not in capsys.readouterr().out


def test_no_password_on_standard_input_is_said(pocketbase, owner, capsys):
    assert main(["user", "add", EMAIL, "--password-stdin"]) == 1
    assert capsys.readouterr().err == "transcriber: no password on standard input\n"


def test_the_setting_is_the_owners_password(pocketbase, monkeypatch):
    monkeypatch.setenv("OWNER_PASSWORD", "mine-mine")
    monkeypatch.setenv("OWNER_EMAIL", "me@example.com")
    assert main(["user", "add", EMAIL]) == 0
    assert pocketbase.seen[1][1] == {"identity": "me@example.com", "password": "mine-mine"}


def test_an_owner_named_to_the_running_service_only_is_known(pocketbase, owner, monkeypatch):
    monkeypatch.setenv("OWNER_EMAIL", "me@example.com")
    lock = server.lock(server.lenient())
    monkeypatch.delenv("OWNER_EMAIL")
    monkeypatch.delenv("POCKETBASE_HTTP")
    try:
        assert main(["user", "add", EMAIL]) == 0
    finally:
        io.FileIO(lock).close()
    assert pocketbase.seen[1][1]["identity"] == "me@example.com"


def test_an_unknown_owners_password_is_asked_for(pocketbase, monkeypatch):
    stdin = io.StringIO()
    stdin.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", stdin)
    monkeypatch.setattr("getpass.getpass", lambda prompt: "typed-typed")
    assert main(["user", "add", EMAIL]) == 0
    assert pocketbase.seen[1][1]["password"] == "typed-typed"


def test_a_changed_owners_password_without_a_terminal_says_what_to_do(pocketbase, owner, capsys):
    pocketbase.routes[LOGIN] = REFUSED
    assert main(["user", "add", EMAIL]) == 1
    error = capsys.readouterr().err
    assert "set OWNER_EMAIL and OWNER_PASSWORD" in error
    assert owner not in error


def test_an_existing_user_is_said_plainly(pocketbase, owner, capsys):
    taken = {"email": {"code": "validation_not_unique", "message": "Value must be unique."}}
    pocketbase.routes[CREATE] = (400, {"message": "Failed to create record.", "data": taken})
    assert main(["user", "add", EMAIL]) == 1
    output = capsys.readouterr()
    assert f"there is a user {EMAIL} already" in output.err
    assert output.out == ""
    assert account.kept() is None


def test_pocketbases_verdict_on_each_field_is_told(pocketbase, owner, capsys):
    data = {"email": {"code": "validation_is_email", "message": "Must be a valid email address."}}
    pocketbase.routes[CREATE] = (400, {"message": "Failed to create record.", "data": data})
    assert main(["user", "add", "you"]) == 1
    assert "add you: email: Must be a valid email address." in capsys.readouterr().err


def test_an_account_kept_before_is_not_lost_by_itself(pocketbase, owner, capsys):
    before = Account("http://other.example", "me@example.com", "secret-secret")
    account.keep(before)
    assert main(["user", "add", EMAIL]) == 0
    assert account.kept() == before
    assert "goes on as me@example.com" in capsys.readouterr().out
    assert main(["user", "add", EMAIL, "--remember"]) == 0
    assert account.kept().email == EMAIL


def test_a_dead_password_of_the_same_account_is_replaced(pocketbase, owner):
    account.keep(Account(f"http://{pocketbase.address}", EMAIL, "of-the-last-install"))
    assert main(["user", "add", EMAIL]) == 0
    assert account.kept().password != "of-the-last-install"


def test_nothing_is_kept_where_that_is_not_wanted(pocketbase, owner):
    assert main(["user", "add", EMAIL, "--no-remember"]) == 0
    assert account.kept() is None


def test_a_service_that_is_down_is_one_line(pocketbase, capsys, monkeypatch):
    monkeypatch.setenv("POCKETBASE_HTTP", "127.0.0.1:9")
    assert main(["user", "add", EMAIL]) == 1
    error = capsys.readouterr().err
    assert re.fullmatch(r"transcriber: cannot reach \S+ connection refused .*\n", error)


def test_a_bad_setting_is_named_and_nothing_is_called(pocketbase, capsys, monkeypatch):
    monkeypatch.setenv("MAX_ATTEMPT", "1")
    assert main(["user", "add", EMAIL]) == 78
    assert "MAX_ATTEMPT: no such setting" in capsys.readouterr().err
    assert pocketbase.seen == []


def test_what_is_kept_can_be_read_by_other_programs(pocketbase, owner):
    main(["user", "add", EMAIL])
    assert set(json.loads(account.kept_in().read_text())) == {"url", "email", "password"}
