"""The undisturbed run at the start: what becomes of every item when nothing goes wrong."""

from __future__ import annotations

from functools import partial

from chaos.corpus import Item
from chaos.senders import Senders
from chaos.world import World, eventually
from tests.acceptance.service import User, wait_until

RECOGNISERS = ("local", "openai", "speechkit")


class RigError(Exception):
    """The rig itself is not as it should be: nothing can be proved with it."""


class Reference:
    """Hands every item in before anybody works, and reads off what became of it."""

    def __init__(self, world: World, items: dict[str, Item], senders: Senders) -> None:
        self.world = world
        self.items = items
        self.senders = senders
        self.first = world.first
        self.jobs: dict[str, tuple[str, str]] = {}
        """Of each job, the item and the recogniser."""
        self.user: User | None = None

    def hand_in(self) -> None:
        """While PocketBase and the metadata source are there, and nobody else."""
        service = self.world.service
        service.start("pb", "media", POCKETBASE_URL=service.url)
        self.senders.introduce()
        self.user = self.senders.account()
        self.world.users.append(self.user)
        with service.owner as owner:
            for item in self.items.values():
                for recogniser in item.recognisers(self.first):
                    self._hand_in(owner, item, recogniser)
        for name in ("media", "pb"):
            service.stop(name)

    def _hand_in(self, owner: object, item: Item, recogniser: str) -> None:
        assert self.user is not None
        answer = self.user.post((f"{item.name}.{item.extension}", item.data))
        if answer.status_code != 201:
            item.expected[recogniser] = {
                "outcome": "refused", "text": "", "error_code": answer.json()["error_code"],
            }  # fmt: skip
            return
        job = answer.json()["job_id"]
        self.jobs[job] = (item.name, recogniser)
        if recogniser != self.first:
            path = f"/api/collections/recordings/records/{job}"
            # `owner` is an httpx client; the module imports none.
            owner.patch(path, json={"recogniser": recogniser}).raise_for_status()

    def read_off(self, limit: float) -> None:
        """Wait until all are through. Raises `RigError` where an item is not of its kind."""
        try:
            wait_until(self._through, limit, "the undisturbed run")
        except AssertionError as error:
            raise RigError(f"{error}: {self.world.unsettled()}") from None
        assert self.user is not None
        user = self.user
        for job, (name, recogniser) in self.jobs.items():
            status = eventually(partial(user.status, job), 20, "a status")
            expected = {"outcome": "failed" if status.get("halted") else status["status"],
                        "text": status.get("transcription_text", "")}  # fmt: skip
            self.items[name].expected[recogniser] = expected
            self.world.journal.write(
                "reference", job_id=job, item=name, recogniser=recogniser, sender=user.email
            )
        self._plausible()
        for item in self.items.values():
            self.world.journal.write("item", **item.entry())

    def _through(self) -> bool:
        left = self.world.unsettled()["jobs"]
        return not left

    def _plausible(self) -> None:
        texts: list[str] = []
        for item in self.items.values():
            for recogniser, expected in item.expected.items():
                if expected["outcome"] != item.outcome:
                    row = self.world.rows("SELECT id, error_text FROM jobs WHERE error_text <> ''")
                    raise RigError(f"{item.name} by {recogniser}: {expected['outcome']}: {row}")
                text = expected["text"]
                if item.kind in {"speech", "long", "video"}:
                    if not text:
                        raise RigError(f"{item.name} by {recogniser}: no text")
                    texts.append(text)
        # By its loudness one may sound like another now and then; a swap must show for the rest.
        if len(set(texts)) < 0.8 * len(texts):
            raise RigError(f"too many texts are alike: {sorted(texts)}")
