"""What a sender says, and every secret, stays out of logs, metrics, addresses and stored names.

One service lives through everything that can happen to a recording; then the words are searched
for wherever they must not stand.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.acceptance.service import (
    OWNER,
    USER_PASSWORD,
    WORKER_PASSWORD,
    Service,
    User,
    tone,
    wait_until,
)
from tests.acceptance.test_intake import UNREADABLE, accepted
from tests.acceptance.test_status import claim, normalise, transcribe
from worker.jobs import Dead, Failed, Milestone, Retry, Transcript

NAME, TITLE, VOCABULARY, TEXT = (
    f"{what}-xylophone-{number}"
    for number, what in enumerate(("name", "название", "словарь", "сказанное"))
)
WORDS = (NAME, TITLE, VOCABULARY, TEXT)
PLAIN = "xylophone"
HINTS = {"title": TITLE, "vocabulary": VOCABULARY, "language": "ru"}


@dataclass
class Story:
    """A service after everything, and the secrets that were in use meanwhile."""

    service: Service
    secrets: dict[str, str] = field(default_factory=dict)
    stored_names: list[str] = field(default_factory=list)
    seen_addresses: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    intake: list[str] = field(default_factory=list)


def successes(service: Service, user: User, folder: Path) -> str:
    """A recording from its upload to its text, which its sender reads by every way there is."""
    sound = tone(folder).read_bytes()
    job_id = accepted(user.post((f"{NAME}.wav", sound), **HINTS))
    text = Transcript(TEXT, [{"start": 0.0, "end": 1.0, "text": TEXT}], "ru", "test")
    transcribe(service.queue(), job_id, folder, text)
    assert user.status(job_id)["transcription_text"] == TEXT
    listed = user.http.get("/api/collections/transcripts/records", params={"sort": "-created"})
    assert TEXT in listed.text
    for question in (f"text ~ '{TEXT}'", f"recording.title = '{TITLE}'", f"{PLAIN}.{TITLE} = 1"):
        found = user.http.get(
            "/api/collections/transcripts/records",
            params={"filter": question},
            headers={"Referer": f"https://example.com/?q={urllib.parse.quote(TEXT)}"},
        )
        assert found.status_code == (400 if question.startswith(PLAIN) else 200)
    return job_id


def failures(service: Service, user: User, folder: Path) -> None:
    """Every way in which a recording, or the handing in of one, can go wrong."""
    sound = tone(folder).read_bytes()
    queue, owner = service.queue(), service.owner
    file = (f"{NAME}.wav", sound)
    assert user.post((f"{NAME}.wav", UNREADABLE), **HINTS).status_code == 500
    assert user.post((f"{NAME}.wav", PLAIN.encode() * 99), **HINTS).status_code == 500
    assert user.post(file, file, **HINTS).status_code == 400
    assert user.post(file, **HINTS | {"title": TITLE * 100}).status_code == 400
    assert user.post(file, **HINTS | {"language": TITLE}).status_code == 400
    assert user.post((f"{NAME}.wav", sound + bytes(1 << 21)), **HINTS).status_code == 413
    assert user.http.post("/api/audio", data=HINTS).status_code == 400
    odd = (f"/secret/{NAME}.{PLAIN}", sound)
    for client, status in ((httpx.Client(base_url=service.url, trust_env=False), 401),
                           (owner, 403)):  # fmt: skip
        assert client.post("/api/audio", files={"audio": odd}, data=HINTS).status_code == status
        client.close()
    service.execute("CREATE TRIGGER no BEFORE INSERT ON recordings BEGIN "
                    "SELECT RAISE(FAIL, 'no'); END")  # fmt: skip
    assert user.post(file, **HINTS).status_code == 500
    service.execute("DROP TRIGGER no")
    service.stop("media")
    assert user.post(file, **HINTS).status_code == 500
    service.start("media")

    failed, dead, retried, edited = (accepted(user.post(file, **HINTS)) for _ in range(4))
    queue.write(claim(queue, Milestone.UPLOADED, failed), Failed("read media: no audio track"))
    queue.write(claim(queue, Milestone.UPLOADED, dead), Dead("gave up"))
    queue.write(claim(queue, Milestone.UPLOADED, retried), Retry(0, "not reachable"))
    path = f"/api/collections/recordings/records/{edited}"
    assert service.owner.patch(path, json={"title": f"{TITLE}!"}).status_code == 200
    path = f"/api/collections/jobs/records/{edited}"
    assert service.owner.patch(path, json={"state": "dead", "note": TITLE}).status_code == 400
    normalise(queue, edited, folder)
    path = f"/api/collections/recordings/records/{edited}"
    assert service.owner.delete(path).status_code == 204


def downloads(story: Story, user: User, job_id: str) -> None:
    """The sender fetches its files through tokens, PocketBase's only way to them."""
    for kind in ("audio", "normalized"):
        token = user.http.post("/api/files/token").json()["token"]
        story.secrets[f"file token for {kind}"] = token
        [row] = story.service.rows(f"SELECT {kind} AS name FROM recordings WHERE id = ?", job_id)
        path = f"/api/files/recordings/{job_id}/{row['name']}"
        for query in (f"?token={token}", f"?thumb=0&token={token}", f"?download=1&token={token}&x"):
            assert httpx.get(f"{story.service.url}{path}{query}", trust_env=False).is_success
        late = f"{story.service.url}{path}?TOKEN={token}&%74oken={token}"
        httpx.get(late, trust_env=False)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("privacy")
    service = Service(folder, MAX_UPLOAD_MB="1", LOG_LEVEL="DEBUG")
    try:
        service.start("pb", "media")
        story, user = Story(service), service.user()
        job_id = successes(service, user, folder)
        failures(service, user, folder)
        downloads(story, user, job_id)
        worker, _ = service.session("workers", "workers@transcriber.local", WORKER_PASSWORD)
        owner = service.owner.headers["Authorization"]
        secrets = service.data / "secrets"
        story.secrets |= {
            "user's password": USER_PASSWORD,
            "user's session": user.http.headers["Authorization"],
            "workers' password": WORKER_PASSWORD,
            "workers' session": worker,
            "owner's password": OWNER[1],
            "owner's session": owner,
            "media's secret": (secrets / "media_secret").read_text().strip(),
        }
        # The real steps and the real engine have their turn, too, at every level of their logs.
        real = accepted(user.post((f"{NAME}.wav", tone(folder).read_bytes()), **HINTS))
        service.start("pipeline", "engine")
        wait_until(lambda: service.job(real)["state"] in {"done", "failed"}, 60, "the real steps")
        service.metrics()
        story.stored_names = [path.name for path in service.stored_files()]
        lines = service.logged()
        story.log = [f"{line['message']} {line['data']}" for line in lines]
        story.intake = [line["data"] for line in lines if "recording accepted" in line["message"]]
        story.seen_addresses = [
            url for line in lines if (url := json.loads(line["data"] or "{}").get("url"))
        ]
        yield story
    finally:
        service.close()


def spellings(word: str) -> set[str]:
    """The word as it is, in JSON, in an address."""
    return {word, json.dumps(word)[1:-1], urllib.parse.quote(word), urllib.parse.quote_plus(word)}


def assert_absent(text: str, *words: str) -> None:
    for word in words:
        for spelling in spellings(word):
            assert spelling not in text, f"{word!r} in {text[:2000]!r}"


def test_pocketbases_log_has_none_of_it(story: Story):
    assert len(story.log) > 30
    assert any("request failed" in line for line in story.log)
    for line in story.log:
        assert_absent(line, *WORDS, PLAIN)


def test_no_process_printed_any_of_it(story: Story):
    printed = story.service.printed()
    assert "pipeline" in printed
    assert_absent(printed, *WORDS, PLAIN)


def test_the_metrics_page_has_none_of_it(story: Story):
    page = httpx.get(
        f"http://127.0.0.1:{story.service.ports['METRICS']}/metrics", trust_env=False
    ).text
    assert "transcriber_recordings_accepted_total" in page
    assert_absent(page, *WORDS, PLAIN)
    for name in story.stored_names:
        assert name not in page


def test_no_stored_name_and_no_note_beside_a_file_has_it(story: Story):
    data = story.service.data
    storage = data / "pocketbase" / "storage"
    paths = [path for path in data.rglob("*") if "models" not in path.parts]
    assert any(path.name.endswith(".attrs") for path in paths)
    for path in paths:
        assert_absent(str(path.relative_to(data)), *WORDS, PLAIN)
        if path.is_relative_to(storage) and path.is_file():
            for spelling in (each for word in (*WORDS, PLAIN) for each in spellings(word)):
                assert spelling.encode() not in path.read_bytes()


def test_no_address_has_it(story: Story):
    assert any("/api/files/recordings/" in url for url in story.seen_addresses)
    for url in story.seen_addresses:
        assert_absent(url, *WORDS, PLAIN)


def test_what_the_owner_reads_of_a_failure_has_none_of_it(story: Story):
    rows = story.service.rows("SELECT error_text FROM jobs UNION SELECT error_text FROM operations")
    assert any(row["error_text"] for row in rows)
    for row in rows:
        assert_absent(row["error_text"], *WORDS, PLAIN)


def test_the_intakes_lines_have_no_stored_name(story: Story):
    assert len(story.intake) == 6
    failed = [line for line in story.log if line.startswith("request failed")]
    assert len(failed) >= 4
    for line in (*story.intake, *failed):
        for name in story.stored_names:
            assert name not in line
        assert ".wav" not in line


def test_no_secret_is_in_any_log(story: Story):
    assert len(story.secrets) == 9
    everything = "\n".join([*story.log, story.service.printed(), str(story.service.metrics())])
    for what, secret in story.secrets.items():
        assert len(secret) >= 8
        assert secret not in everything, what
        assert secret.removeprefix("Bearer ") not in everything, what


def test_the_words_are_where_they_belong(story: Story):
    """The search can find: the same words stand in the columns made for them."""
    [row] = story.service.rows(
        "SELECT r.title, r.vocabulary, t.text FROM recordings r JOIN transcripts t "
        "ON t.recording = r.id AND t.text <> '' LIMIT 1"
    )
    for word, column in ((TITLE, "title"), (VOCABULARY, "vocabulary"), (TEXT, "text")):
        with pytest.raises(AssertionError):
            assert_absent(row[column], word)
