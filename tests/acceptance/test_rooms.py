"""The hooks' rooms (pb/pb_hooks/lib/index.js): loaded when a request needs them, by any engine."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx

from tests.acceptance.service import REPOSITORY, WORKER_PASSWORD, Service
from tests.acceptance.test_errors import RUSSIAN


def test_a_room_that_could_not_be_loaded_is_tried_again(tmp_path: Path):
    """No engine keeps what failed: not the room, nor one that needs it, nor half of either."""
    copy = tmp_path / "copy"
    for name in ("pb", "pb_migrations", "worker"):
        shutil.copytree(REPOSITORY / name, copy / name)
    room = copy / "pb" / "pb_hooks" / "lib" / "transcripts.js"
    service = Service(tmp_path, PYTHONPATH=str(copy))
    try:
        service.start("pb")
        user = service.user()
        token, _ = service.session("workers", "workers@transcriber.local", WORKER_PASSWORD)

        def asked() -> list[tuple[int, str]]:
            """By a room of its own, and by one that needs it."""
            text = user.http.get("/api/transcript/abcdefghijklmno/raw")
            claim = {"state": "uploaded", "worker": "w", "count": 1, "lease_seconds": 60}
            jobs = httpx.post(
                f"{service.url}/api/queue/claim", json=claim, headers={"Authorization": token},
                timeout=30, trust_env=False,
            )  # fmt: skip
            return [(each.status_code, each.text) for each in (text, jobs)]

        away = room.rename(room.with_suffix(".away"))
        refused = asked()
        away.rename(room)
        assert [status for status, _ in refused] == [500, 500]
        assert all(RUSSIAN["internal"] in text for _, text in refused)
        assert "transcripts" not in "".join(text for _, text in refused)
        lines = [line["data"] for line in service.logged() if line["message"] == "request failed"]
        assert len(lines) == 2
        assert all("Invalid module" in line for line in lines)
        assert [status for status, _ in asked()] == [404, 200]
    finally:
        service.close()
