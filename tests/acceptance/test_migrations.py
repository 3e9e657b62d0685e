"""The first start, the starts after it, the way back down, and the hourly sweep."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.service import OWNER, REPOSITORY, Service, tone, wait_until
from tests.acceptance.test_status import transcribe
from worker.jobs import Transcript
from worker.processes.pb import binary

OURS = ("recordings", "jobs", "transcripts", "operations", "segments", "chats", "workers")
MIGRATIONS = sorted(path.name for path in (REPOSITORY / "pb_migrations").glob("*.js"))
HOUR = 3600


def schema(service: Service) -> list[dict[str, Any]]:
    """Every table and index, as the database has them."""
    return service.rows(
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' "
        "ORDER BY type, name"
    )


def rules(service: Service) -> list[dict[str, Any]]:
    return service.rows(
        "SELECT name, type, listRule, viewRule, createRule, updateRule, deleteRule, fields "
        "FROM _collections ORDER BY name"
    )


def migrate(service: Service, *arguments: str) -> str:
    """PocketBase's own `migrate`, on the folder of a service that does not run."""
    done = subprocess.run(
        [
            binary(),
            "migrate",
            *arguments,
            f"--dir={service.data / 'pocketbase'}",
            f"--hooksDir={REPOSITORY / 'pb' / 'pb_hooks'}",
            f"--migrationsDir={REPOSITORY / 'pb_migrations'}",
        ],
        input="y\n",
        env=service.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout + done.stderr


def go_back_before(service: Service, migration: str) -> None:
    """Take back this migration and all after it, on the folder of a service that does not run."""
    printed = migrate(service, "down", str(len(MIGRATIONS) - MIGRATIONS.index(migration)))
    assert f"Reverted {migration}" in printed


def logs_in(service: Service, collection: str, identity: str, password: str) -> bool:
    answer = httpx.post(
        f"{service.url}/api/collections/{collection}/auth-with-password",
        json={"identity": identity, "password": password},
        trust_env=False,
        timeout=20,
    )
    assert answer.status_code in {200, 400}
    return answer.status_code == 200


def test_a_first_start_makes_everything_and_a_second_changes_nothing(own: Service):
    own.start("pb")
    tables = {row["name"] for row in schema(own)}
    assert tables >= set(OURS)
    applied = [row["file"] for row in own.rows("SELECT file FROM _migrations ORDER BY file")]
    assert [name for name in applied if name in MIGRATIONS] == MIGRATIONS
    settings = own.owner.get("/api/settings").json()
    assert settings["logs"]["logIP"] is False
    assert settings["meta"]["appName"] == "transcriber"
    assert logs_in(own, "workers", "workers@transcriber.local", "worker-password")
    accounts = "SELECT id, email, password, tokenKey FROM {}"
    before = (schema(own), rules(own), own.rows("SELECT * FROM _migrations"), *(
        own.rows(accounts.format(table)) for table in ("_superusers", "workers")
    ))  # fmt: skip
    assert [len(each) for each in before[3:]] == [1, 1]

    own.stop("pb")
    own.start("pb")
    after = (schema(own), rules(own), own.rows("SELECT * FROM _migrations"), *(
        own.rows(accounts.format(table)) for table in ("_superusers", "workers")
    ))  # fmt: skip
    assert after == before


def test_no_address_is_logged(own: Service):
    own.start("pb")
    httpx.get(f"{own.url}/api/status/abcdefghijklmno", trust_env=False)
    requests = [line for line in own.logged() if "/api/status" in line["data"]]
    assert requests
    for line in requests:
        assert "127.0.0.1" not in line["data"]
        assert "userIP" not in line["data"]


def test_every_migration_goes_down_and_up_again_with_data_in(own: Service, tmp_path: Path):
    own.start("pb", "media")
    fresh = (schema(own), rules(own))
    user = own.user()
    job_id = user.upload(tone(tmp_path))
    transcribe(own.queue(), job_id, tmp_path, Transcript("text", [], "ru", "test"))
    own.operation(job_id)
    own.owner.post("/api/collections/chats/records", json={"chat_id": "7", "admitted": True})
    own.stop("pb")

    for number in range(len(MIGRATIONS), 0, -1):
        migrate(own, "down", "1")
        applied = [row["file"] for row in own.rows("SELECT file FROM _migrations ORDER BY file")]
        assert [name for name in applied if name in MIGRATIONS] == MIGRATIONS[: number - 1]
    assert not {row["name"] for row in schema(own)} & set(OURS)
    [users] = [each for each in rules(own) if each["name"] == "users"]
    assert (users["createRule"], users["deleteRule"]) == ("", "id = @request.auth.id")
    assert own.rows("SELECT id FROM users") == [{"id": user.id}]  # not ours to remove

    own.start("pb")  # a start goes all the way up again
    assert (schema(own), rules(own)) == fresh
    assert user.upload(tone(tmp_path))
    assert logs_in(own, "workers", "workers@transcriber.local", "worker-password")


def test_a_job_of_an_older_installation_learns_its_input(own: Service, tmp_path: Path):
    own.start("pb", "media")
    user = own.user()
    ids = [user.upload(tone(tmp_path)) for _ in range(2)]
    own.execute("UPDATE recordings SET source = 'telegram' WHERE id = ?", ids[1])
    own.stop("pb")
    go_back_before(own, "0016_source.js")
    assert "source" not in own.job(ids[0])
    own.start("pb")
    assert [own.job(each)["source"] for each in ids] == ["http", "telegram"]


def test_accounts_follow_the_owner_and_the_settings(own: Service):
    own.start("pb")
    owner = own.owner
    me = own.rows("SELECT id FROM _superusers")[0]["id"]
    changed = {"password": "another-password", "passwordConfirm": "another-password"}
    answer = owner.patch(f"/api/collections/_superusers/records/{me}", json=changed)
    assert answer.status_code == 200
    own.stop("pb")
    own.start("pb", WORKER_PASSWORD="a-new-worker-password")
    # What the owner changed in the panel stays changed; the workers' password is the setting's.
    assert logs_in(own, "_superusers", OWNER[0], "another-password")
    assert not logs_in(own, "_superusers", *OWNER)
    assert logs_in(own, "workers", "workers@transcriber.local", "a-new-worker-password")
    assert not logs_in(own, "workers", "workers@transcriber.local", "worker-password")
    for table in ("_superusers", "workers"):
        assert len(own.rows(f"SELECT id FROM {table}")) == 1


@pytest.mark.parametrize("command", ["up", "history-sync"])
def test_a_command_of_pocketbases_own_makes_no_accounts(own: Service, command: str):
    """Only a start does: the owner may restore and migrate by hand without a password at hand."""
    (own.data / "pocketbase").mkdir(parents=True)
    migrate(own, command)
    rows = own.rows("SELECT name FROM sqlite_master WHERE name = 'workers'")
    assert not rows or own.rows("SELECT id FROM workers") == []


def age(path: Path, hours: float) -> None:
    os.utime(path, (time.time() - hours * HOUR,) * 2)


def test_the_sweep_removes_what_no_record_knows(shelf: Service, tmp_path: Path):
    user = shelf.user()
    known = user.upload(tone(tmp_path))
    [stored] = [path for path in shelf.stored_files() if path.parent.name == known]
    root = stored.parents[1]
    old, young = root / "oldorphanfolder", root / "youngorphanfold"
    for folder, hours in ((old, 3), (young, 1)):
        folder.mkdir()
        (folder / "some.wav").write_bytes(b"left by a crash")
        age(folder, hours)
    left, fresh = stored.parent / "left.flac", stored.parent / "fresh.flac"
    for path, hours in ((left, 3), (fresh, 1), (stored, 24)):
        path.touch()
        age(path, hours)
    assert shelf.owner.post("/api/crons/transcriberSweep").status_code == 204
    wait_until(lambda: not old.exists() and not left.exists(), 10, "the sweep")
    line = [line for line in shelf.logged() if line["message"] == "leftovers removed"]
    assert '"files":2' in line[-1]["data"]
    assert (young / "some.wav").exists()
    assert stored.exists()
    assert fresh.exists()
    fresh.unlink()
    (young / "some.wav").unlink()
    young.rmdir()


def test_the_sweep_removes_operations_that_no_job_waits_for(shelf: Service, tmp_path: Path):
    user = shelf.user()
    past, waited = user.upload(tone(tmp_path)), user.upload(tone(tmp_path))
    for job, state in ((past, "done"), (waited, "submitted")):
        shelf.execute("UPDATE jobs SET state = ? WHERE id = ?", state, job)
        shelf.execute(
            "INSERT INTO operations (recording, state, updated)"
            " VALUES (?, 'done', '2026-01-01 00:00:00.000Z')",
            job,
        )
    shelf.execute(
        "INSERT INTO segments (operation, unit) SELECT id, 0 FROM operations WHERE recording = ?",
        past,
    )
    assert shelf.owner.post("/api/crons/transcriberSweep").status_code == 204

    def left() -> list[str]:
        return [
            row["recording"]
            for row in shelf.rows("SELECT recording FROM operations")
            if row["recording"] in (past, waited)
        ]

    wait_until(lambda: left() == [waited], 10, "the sweep")
    operations = {row["id"] for row in shelf.rows("SELECT id FROM operations")}
    assert {row["operation"] for row in shelf.rows("SELECT operation FROM segments")} <= operations
    shelf.execute("DELETE FROM operations WHERE recording = ?", waited)
    shelf.execute("UPDATE jobs SET state = 'failed' WHERE id = ?", waited)
