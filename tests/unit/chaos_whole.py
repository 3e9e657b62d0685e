"""A clean run: of everything that may happen to a recording one, and how it should end."""

from __future__ import annotations

import textwrap
from collections import Counter

from chaos.check.metrics import LABELS
from tests.unit.chaos_evidence import LONG, TEXTS, THEN, Evidence, Row, content, number, sha

ALICE, BOB = "alice@example.net", "boris@example.net"
SECRET = "a-password-of-somebody"
FAILURE = "Не получилось расшифровать эту запись. Номер для владельца сервиса: {}"
UNSURE = "Связь прервалась, и часть ответа могла не дойти. Если текста выше нет, он придёт ещё раз по команде /text_{}"  # noqa: E501
RUNS = 'transcriber_worker_runs_total{{outcome="{}",step="{}"}}'
NO_SPEECH = "В этой записи не слышно речи."
UNREADABLE = "Этот файл не читается как аудио или видео."
PIECES = textwrap.wrap(LONG, 4000)
FIRST, OTHER = "55", "-66"
"""Two chats."""


def whole() -> Evidence:
    """What is in it stands in the functions below, by the numbers of the sends and messages."""
    run = Evidence()
    run.tell("settings", seed=7, minutes=2, max_attempts=6, certain=True, started_at=1796064000.0)
    run.tell("secret", kind="password", value=SECRET)
    for name, email in (("alice", ALICE), ("boris", BOB)):
        run.row("users", id=name, email=email)
    for chat in (FIRST, OTHER):
        run.row("chats", id=f"chat{chat}", chat_id=chat, admitted=1)
    _corpus(run)
    reference = run.recording(90, "hello", owner="boris")
    run.tell("reference", job_id=reference, item="hello", recogniser="local", sender=BOB)
    run.tell("fault", id=801, kind="kill", target="pipeline")
    run.tell("fault_over", id=801, kind="kill", target="pipeline")
    for n in range(3):
        run.tell("fault", id=810 + n, kind="kill", target="engine_child")
        run.tell("fault_over", id=810 + n)
    _http(run)
    _telegram(run)
    run.tell("quiet")
    run.tell("drained", settled=True, left={})
    _owner(run)
    finish(run)
    run.logs["up"].append(
        "2026-11-30 18:40:13.345 WARNING pipeline message of the service not dealt with yet"
    )
    run.log_table = [("recording accepted", {"job_id": number(1), "extension": "ogg", "size": 18})]
    return run


def _corpus(run: Evidence) -> None:
    expected: dict[str, Row] = {
        "hello": {"local": {"outcome": "done", "text": TEXTS["hello"]}},
        "again": {"local": {"outcome": "done", "text": TEXTS["again"]},
                  "openai": {"outcome": "done", "text": TEXTS["remote"]}},
        "lecture": {"local": {"outcome": "done", "text": LONG}},
        "quiet": {"local": {"outcome": "done", "text": ""}},
        "mute": {"local": {"outcome": "failed", "text": ""}},
        "broken": {"local": {"outcome": "refused", "text": ""}},
    }  # fmt: skip
    for name, outcomes in expected.items():
        run.tell(
            "item", name=name, sha256=sha(name), size=len(content(name)), kind="-",
            expected=outcomes,
        )  # fmt: skip


def _send(run: Evidence, n: int, item: str, status: int | None, **more: str) -> None:
    run.tell(
        "send", id=n, sender=ALICE, item=item, recogniser="", via="http",
        file_name=f"qfilename{n}marker.ogg", title=more.get("title", ""),
    )  # fmt: skip
    if status is None:
        run.tell("lost", id=n, error="ReadTimeout")
    elif status == 201:
        run.tell("answer", id=n, status=201, body={"job_id": number(n), "status": "uploaded"})
    else:
        body = {"error_code": "internal", "message": "внутренняя ошибка"}
        run.tell("answer", id=n, status=status, body=body)


def _http(run: Evidence) -> None:
    _send(run, 1, "hello", 201, title="qtitle1marker")
    run.recording(1, "hello", owner="alice", title="qtitle1marker")
    _send(run, 2, "again", 201)
    job = run.recording(2, "again", by="openai", owner="alice")
    run.get("transcripts", recording=job).update(
        text=TEXTS["remote"], segments='[{"start": 0, "text": "Brukvazhi tromeldyu snofipgax."}]'
    )
    _send(run, 3, "mute", 201)
    run.recording(3, "mute", state="failed", owner="alice")
    _send(run, 4, "hello", None, title="qtitle4marker")  # it was taken all the same
    run.recording(4, "hello", owner="alice", title="qtitle4marker")
    _send(run, 5, "hello", None)  # it was not
    _send(run, 6, "broken", 500)
    _send(run, 7, "hello", 500)  # just after a kill
    run.event("send", id=2)["via"] = "cli"
    run.tell("printed", id=2, text=f"{TEXTS['remote']}\n", code=0)
    _send(run, 14, "hello", 201)  # deleted
    _send(run, 16, "hello", 201)  # its attempts were used up
    run.recording(16, "hello", state="dead", owner="alice")
    _send(run, 17, "mute", 201)  # returned once
    run.recording(17, "mute", state="failed", owner="alice")
    _send(run, 18, "hello", None)  # taken, and its title is not known
    run.recording(18, "hello", owner="alice")
    _send(run, 19, "hello", 201)  # edited
    run.recording(19, "hello", owner="alice")


def _message(run: Evidence, n: int, chat: str, item: str, state: str = "done") -> None:
    run.tell("message", id=100 + n, chat=chat, message_id=n, item=item, update_id=7000 + n)
    if item != "broken":
        run.recording(n, item, state=state, chat_id=chat, message_id=str(n))


def _telegram(run: Evidence) -> None:
    _message(run, 21, FIRST, "hello")
    run.bot(FIRST, 21, TEXTS["hello"])
    _message(run, 22, FIRST, "lecture")
    for piece in PIECES:
        run.bot(FIRST, 22, piece)
    run.get("answers", recording=number(22)).update(begun=len(PIECES), sent=len(PIECES))
    _message(run, 23, FIRST, "mute", "failed")
    run.bot(FIRST, 23, FAILURE.format(number(23)))
    _message(run, 24, FIRST, "quiet")
    run.bot(FIRST, 24, NO_SPEECH)
    _message(run, 25, FIRST, "broken")
    run.bot(FIRST, 25, UNREADABLE)
    _message(run, 26, OTHER, "hello")  # nobody knows whether it arrived, and it did not
    run.bot(OTHER, 26, UNSURE.format(number(26)))
    run.get("answers", recording=number(26)).update(
        state="unsure", reason="unsure", begun=2, sent=2, unsure=1
    )
    run.tell("message", id=127, chat=OTHER, message_id=27, item="hello")  # deleted too late
    run.bot(OTHER, 27, TEXTS["hello"])
    _message(run, 28, OTHER, "mute", "failed")  # returned once: told twice
    run.bot(OTHER, 28, FAILURE.format(number(28)))
    run.bot(OTHER, 28, FAILURE.format(number(28)))
    run.answer(28, "failure", cause="an-earlier-token")
    _message(run, 29, OTHER, "hello")  # its sender took the message away
    run.bot(OTHER, None, TEXTS["hello"])
    run.tell("message_gone", chat=OTHER, message_id=29)
    run.gone.append([int(OTHER), 29])
    run.tell("message", id=140, chat="77", message_id=40, item="hello")  # from a stranger
    run.bot("77", 40, "Этот чат мне пока не разрешён. Владелец сервиса может допустить его: 77")
    _message(run, 30, OTHER, "lecture")  # as a file
    run.bot(OTHER, 30, "zilverton …\n\nВесь текст — в файле.", file_name="x.txt", content=LONG)


def _owner(run: Evidence) -> None:
    run.owner("delete", "recordings", number(14), status=204)
    was = {"chat_id": OTHER, "message_id": "27"}
    run.owner("cancel", "recordings", number(27), status=204, was=was)
    for job in (17, 28):
        run.owner(
            "return", "jobs", number(job), fields={"state": "uploaded"}, answered={"updated": THEN}
        )
    run.owner("note", "jobs", number(19), fields={"note": "qnote1marker"})
    run.owner("note", "jobs", number(19), fields={"note": "qnote2marker"})
    run.owner("note", "jobs", number(19), fields={"note": "qnote3marker"}, status=400)
    run.owner("set_priority", "jobs", number(19), fields={"priority": 3})
    run.get("jobs", id=number(19)).update(note="qnote2marker", priority=3)
    run.owner("edit_title", "recordings", number(19), fields={"title": "qedited19marker"})
    run.get("recordings", id=number(19))["title"] = "qedited19marker"
    text = {"text": "Owners write what they wrotten."}
    run.owner("edit_text", "transcripts", "text19", fields=text, of=number(19))
    run.get("transcripts", id="text19").update(text)
    run.owner("delete_transcript", "transcripts", "text29", status=204, of=number(29))
    run.tables["transcripts"] = [t for t in run.tables["transcripts"] if t["id"] != "text29"]


def finish(run: Evidence) -> None:
    """What follows from the tables: the senders' view and the metrics page."""
    jobs = {row["id"]: row for row in run.tables["jobs"]}
    raws = {row["recording"]: row for row in run.tables["transcripts"]}
    accepted = [r["body"]["job_id"] for r in run.journal if r.get("status") == 201]
    accepted += [r["job_id"] for r in run.journal if r["event"] == "reference"]
    for job in accepted:
        told = {"job_id": job, "sender": ALICE}
        if job not in jobs:
            refused = {"code": 404, "body": {"error_code": "not_found", "message": "-"}}
            run.statuses.append({**told, "status": refused, "transcript": refused})
            continue
        status = {"job_id": job, "status": jobs[job]["milestone"], "created_at": "-"}
        if jobs[job]["state"] in ("failed", "dead"):
            status["halted"] = True
        transcript = {"code": 409, "body": {"error_code": "not_ready", "message": "-"}}
        if raw := raws.get(job):
            status["transcription_text"] = raw["text"]
            body = {"job_id": job, "kind": "raw", "text": raw["text"], "engine": raw["engine"]}
            transcript = {"code": 200, "body": body}
        run.statuses.append(
            {**told, "status": {"code": 200, "body": status}, "transcript": transcript}
        )
    states = Counter(row["state"] for row in run.tables["jobs"])
    page = run.metrics
    for state in LABELS["state"]:
        page[f'transcriber_jobs{{state="{state}"}}'] = states[state]
    for state in LABELS["state"][:4]:
        page[f'transcriber_queue_oldest_seconds{{state="{state}"}}'] = 0.0
    for source in ("http", "telegram"):
        page[f'transcriber_input_up{{input="{source}"}}'] = 1.0
    telegram = sum(row["source"] == "telegram" for row in run.tables["recordings"])
    page['transcriber_recordings_accepted_total{extension="ogg",input="http"}'] = 8.0
    page['transcriber_recordings_accepted_total{extension="ogg",input="telegram"}'] = telegram + 1.0
    page['transcriber_rejected_total{error_code="internal",input="http"}'] = 2.0
    page['transcriber_undelivered_replies_total{reason="unsure"}'] = 1.0
    _logs(run)
    for machine, counted in (("up", page), ("second", run.second)):
        _counts(run.logs[machine], counted)


def _logs(run: Evidence) -> None:
    """What the two pipelines did, the second one that of the even numbers."""
    ended = [(row["id"], row["state"]) for row in run.tables["jobs"]]
    ended += [(number(n), "done") for n in (14, 27)]  # deleted later
    ended += [(number(n), "failed") for n in (17, 28)]  # and returned
    for job, state in ended:
        lines = run.logs["second" if int(job[-1]) % 2 == 0 else "up"]
        lines += [
            f"pipeline | 2026-11-30 18:40:12.345 INFO    pipeline {step} {outcome} job_id={job}"
            for step in LABELS["step"]
            for outcome in ("ok" if state == "done" else state,)
            if state == "done" or step == "normalise"
        ]


def _counts(lines: list[str], page: dict[str, float]) -> None:
    """The page of a machine whose counters were never cleared."""
    for step in LABELS["step"]:
        timed = 0
        for outcome in ("ok", "retry", "failed", "dead"):
            told = sum(f"pipeline {step} {outcome} " in line for line in lines)
            page[RUNS.format(outcome, step)] = told
            timed += told
        page[f'transcriber_step_seconds_count{{step="{step}"}}'] = timed
    page['transcriber_normalized_total{extension="ogg"}'] = page[RUNS.format("ok", "normalise")]
