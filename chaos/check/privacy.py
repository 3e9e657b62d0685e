"""I8: nothing private where others read.

- "The sender's file name, the text, the message and every secret stay out of logs, metrics, error
  texts, URLs and stored file names" (design 1, invariant 4; intake, "Имя файла, данное
  отправителем, не попадает в журнал"; docs/operations.md: "None holds a name, a text or a
  secret").
- Looked through are what every process printed, PocketBase's own log table, the metrics page,
  every error text, the reasons of the outbox, and the names of stored and scratch files.
- Looked for are the secrets and e-mail addresses, what senders called their files and recordings,
  what the owner wrote, every word of five letters or more of every text that recordings give, and
  any three words of one text in a row. Left out are the words that logs are made of (`ORDINARY`),
  since recordings are of people who say "message" too; and the owner's address, which the start
  prints (docs/telegram.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from urllib.parse import unquote

from chaos.check.ledger import Ledger
from chaos.check.run import Run, looked_at

LETTERS = 5
PUBLIC = ("chat",)
"""Kinds of noted values that are no secret: the bot tells a chat's number to anybody in it."""
SHORTEST = 6
"""Letters of the shortest name, title or secret that is looked for: shorter ones are anywhere."""
ORDINARY = frozenset(
    """
    about after again answer answered answers audio back because before being cannot
    channel code command connection could data database default delivered done engine
    error failed false file files first found from gone hello http info into items known
    language last later left level line loaded local longer longest media message messages
    more name network never none normalized nothing number only other owner part path
    pause pipeline please pocketbase process reading reason recogniser recording
    recordings refused request response restart retry route second seconds send sender
    sent server service short since start started state status still stopped submit
    submitted taken telegram text their there these this those three times token
    transcribed transcriber transcription transcriptions transport tried trying until
    update uploaded user using value waiting warning where which while whole with within
    without worker workers would write
    """.split()  # noqa: SIM905 - a list would be three times as long
)
_WORD = re.compile(r"\w+")


def check(run: Run, ledger: Ledger) -> None:
    """Look for everything private in everything that others read."""
    texts = _texts(run)
    words = {
        word for text in texts for word in _words(text)
        if len(word) >= LETTERS and word not in ORDINARY and not word.isdecimal()
    }  # fmt: skip
    threes = {three for text in texts for three in _threes(_words(text))}
    said = ledger.clause("I8", "no word of a recording", needed=True)
    named = ledger.clause("I8", "no name, title, note or text that somebody gave", needed=True)
    secret = ledger.clause("I8", "no secret and no address", needed=True)
    find_name, find_secret = _search(_names(run)), _search(_secrets(run))
    places = 0
    for place, line in _lines(run):
        places += 1
        found = _words(line)
        hits = words.intersection(found) | {
            " ".join(t) for t in threes.intersection(_threes(found))
        }
        said.expect(not hits, f"{place}: {sorted(hits)} in {_cut(line)}")
        named.expect(not (hit := find_name(line)), f"{place}: {hit!r} in {_cut(line)}")
        # The secret itself is not printed: reports are kept longer than runs.
        secret.expect(not (hit := find_secret(line)), f"{place}: a secret of {len(hit)} letters")
    ledger.note(f"{places} lines were searched for {len(words)} words and {len(threes)} phrases")
    looked = ledger.clause("I8", "there was something to look for and through", needed=True)
    looked.expect(words and places, f"{len(words)} words, {places} lines")
    logs = ledger.clause("I8", "every log is there", needed=True)
    logs.expect(any((run.folder / "logs").glob("*.log")), "no logs/*.log")
    logs.expect((run.end / "auxiliary.db").exists(), "no end/auxiliary.db")


def _texts(run: Run) -> set[str]:
    texts = {
        text
        for item in run.items.values()
        for expected in (item.get("expected") or {}).values()
        for text in [expected.get("text") or "", *(expected.get("texts") or [])]
    }
    return texts | {row["text"] for row in run.tables["transcripts"]}


def _names(run: Run) -> set[str]:
    names = set[str]()
    for each in [*run.sends.values(), *run.messages]:
        for key in ("file_name", "name"):
            names.add(str(each.get(key) or "").rpartition("/")[2].rpartition(".")[0])
        names |= {str(each.get(key) or "") for key in ("title", "vocabulary")}
    for edit in run.edits:
        names |= {
            str(edit.fields.get(key) or "") for key in ("title", "vocabulary", "note", "text")
        }
    return {name for name in names if len(name) >= SHORTEST}


def _secrets(run: Run) -> set[str]:
    owner = run.settings.get("owner_email")
    told = [each for each in run.events("secret") if each.get("kind") not in PUBLIC]
    found = {str(each.get("value") or "") for each in told}
    found |= set(run.users)
    return {each for each in found if len(each) >= SHORTEST and each != owner}


def _search(wanted: set[str]) -> Callable[[str], str]:
    """A function that gives the first of these that stands in a line, or an empty string."""
    if not wanted:
        return lambda line: ""  # noqa: ARG005 - the form of the one below
    longest_first = sorted(wanted, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)

    def find(line: str) -> str:
        found = pattern.search(line)
        return found[0] if found else ""

    return find


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _threes(words: list[str]) -> set[tuple[str, ...]]:
    """Any three words in a row, unless all of them are such as logs are made of."""
    return {
        three
        for three in zip(words, words[1:], words[2:], strict=False)
        if not all(word in ORDINARY or len(word) < LETTERS for word in three)
    }


def _lines(run: Run) -> Iterator[tuple[str, str]]:
    """Every line that others may read, and where it stands; addresses also as they are meant."""
    for place, line in _raw_lines(run):
        meant = unquote(line)
        yield place, line if meant == line else f"{line} {meant}"


def _raw_lines(run: Run) -> Iterator[tuple[str, str]]:
    for log in sorted((run.folder / "logs").glob("*.log")):
        with log.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                yield f"logs/{log.name}:{number}", line
    yield from _table(run)
    for series in run.metrics:
        yield "end/metrics.txt", series
    for job in run.tables["jobs"]:
        yield f"error_text of {job['id']}", f"{job['error_text']} {job['leased_by']}"
    for row in run.tables["operations"]:
        yield f"error_text of operation {row['id']}", str(row["error_text"])
    for row in run.tables["answers"]:
        yield f"reason of answer {row['id']}", str(row["reason"])
    for path in run.stored:
        yield "a stored name", path
    for path in run.scratch or []:
        yield "a scratch name", path


def _table(run: Run) -> Iterator[tuple[str, str]]:
    path = run.end / "auxiliary.db"
    if not path.exists():
        return
    with closing(looked_at(path)) as database:
        rows = database.execute("SELECT id, message, data FROM _logs")
        for row, message, data in rows:
            try:  # JSON may hide letters behind escapes
                plain = json.dumps(json.loads(data), ensure_ascii=False)
            except ValueError:
                plain = str(data)
            yield f"_logs/{row}", f"{message} {plain}"


def _cut(line: str) -> str:
    return repr(line.strip()[:300])
