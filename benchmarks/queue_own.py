"""Our side of the queue's benchmark: claimers, each a process with a connection of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks.processes import crew, serve, working
from tests.acceptance.service import WORKER_PASSWORD
from worker.jobs import Advanced, Milestone, Wanted
from worker.pocketbase.client import Client
from worker.pocketbase.queue import Queue

LEASE = 600.0


def main(url: str) -> None:
    """Serve until nobody asks any more."""
    token = Client(url, lambda: WORKER_PASSWORD)._log_in("")

    def work(
        workers: int, seconds: float, batch: int = 1, *, apart: bool = False
    ) -> dict[str, float]:
        def member(gate: Callable[[], object], seconds: float) -> tuple[int, float]:
            with Client(url, lambda: WORKER_PASSWORD) as client:
                client._token = token  # a worker logs in once a fortnight
                queue = Queue(client, "bench")
                wanted = Wanted(Milestone.UPLOADED, LEASE, batch)
                jobs = queue.claim(Milestone.UPLOADED, LEASE, batch)

                def one() -> int:
                    """As a runner does it: with the result comes the next."""
                    nonlocal jobs
                    results = [(job, Advanced(Milestone.DONE)) for job in jobs]
                    lost, claimed = queue.write_all(results, None if apart else wanted)
                    if apart:
                        claimed = queue.claim(Milestone.UPLOADED, LEASE, batch)
                    assert claimed
                    assert not lost
                    jobs = claimed
                    return len(results)

                gate()
                return working(seconds, one)

        return crew(workers, seconds, member)

    serve(work=work)


if __name__ == "__main__":
    main(sys.argv[1])
