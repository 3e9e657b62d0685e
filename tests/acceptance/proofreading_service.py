"""A service that proofreads with a chat server of the test's, and recordings to be proofread."""

from __future__ import annotations

import re
from pathlib import Path

from tests.acceptance.bench import Bench
from tests.acceptance.chat_server import KEY, MODEL, ChatServer, corrected
from tests.acceptance.service import Service, wait_until

TEXT = "завтра в девять утра мы ставим кубер нетис на новый сервер и потом обедаем все вместе"
LONG = " ".join(
    f"Это предложение номер {n}, в нём сказано про {topic} и больше ни про что другое."
    for n in range(12)
    for topic in ("погоду", "дорогу", "огород", "ремонт", "рыбалку", "соседей", "музыку", "еду")
)
SLOW = 1.0
"""Seconds that a piece may take."""


class Desk:
    """A service whose pipeline proofreads with a server of the test's."""

    def __init__(self, folder: Path, chat: ChatServer, **settings: str) -> None:
        self.chat = chat
        self.service = Service(
            folder,
            PROOFREAD_URL=chat.url,
            PROOFREAD_API_KEY=KEY,
            PROOFREAD_MODEL=MODEL,
            PROOFREAD_TIMEOUT_SECONDS=str(SLOW),
            POLL_SECONDS="0.2",
            LOG_LEVEL="DEBUG",
            **settings,
        )

    def start(self, *names: str) -> None:
        self.service.start("pb", *names)
        self.bench = Bench(self.service, self.service.client(), self.service.folder)

    def job(
        self,
        text: str = TEXT,
        vocabulary: str = "Kubernetes",
        source: str = "http",
        duration: float = 60,
        **columns: str,
    ) -> str:
        """A recording whose raw text is there."""
        job = self.bench.job("done", source, **columns)  # nobody takes it yet
        self.service.execute(
            "UPDATE recordings SET vocabulary = ?, duration = ? WHERE id = ?",
            vocabulary,
            duration,
            job,
        )
        half = text.find(" ", len(text) // 2)
        self.service.execute(
            """INSERT INTO transcripts
                 (id, recording, kind, text, segments, language, engine, created, updated)
               VALUES (?, ?, 'raw', ?,
                 json_array(json_object('start', 0, 'end', 2.5, 'text', ?),
                            json_object('start', 3, 'end', 5, 'text', ?)), 'ru', 'test', '', '')""",
            job, job, text, text[:half], text[half:],
        )  # fmt: skip
        self.bench.set(job, state="transcribed", milestone="transcribed")
        return job

    def done(self, job: str, limit: float = 20.0) -> str:
        """The proofread text, or empty, once the job is done."""
        wait_until(lambda: self.bench.row(job)["state"] == "done", limit, f"the end of {job}")
        assert self.text(job, "raw"), "the raw text stays"
        return self.text(job, "proofread")

    def text(self, job: str, kind: str) -> str:
        sql = "SELECT text FROM transcripts WHERE recording = ? AND kind = ?"
        [row] = self.service.rows(sql, job, kind) or [{"text": ""}]
        return row["text"]

    def warnings(self, job: str) -> list[str]:
        """What was told about the job at a level that the owner sees as trouble."""

        def lines() -> list[str]:
            return [line for line in self.service.printed("pipeline").splitlines() if job in line]

        wait_until(lambda: any("finish ok" in line for line in lines()), what="the job's line")
        return [line for line in lines() if " WARNING " in line or " ERROR " in line]

    def quiet(self, *texts: str) -> None:
        """No key and no text stands in any log."""
        logged = self.service.printed() + str(self.service.logged())
        assert KEY not in logged
        for text in (TEXT, corrected(TEXT), *texts):
            for words in re.findall(r"\S+ \S+ \S+", text)[:40]:
                assert words not in logged
