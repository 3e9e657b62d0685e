"""This service, the bare library and what people run otherwise: same recordings, weights, threads.

    python -m benchmarks.peers FOLDER [--threads 2] [--rounds 2] [--minutes 3] [--venv PATH]
        [--server NAME=URL ...]

FOLDER is as for `benchmarks.recognition`; of each language a recording of some minutes is made. In
each round every way has its turn with it, in turning order, so that a busy machine slows all. The
peers are those of `benchmarks.ways`, in a virtual environment that is thrown away, and the servers
that are named (`benchmarks.servers`).

Seconds are from the file to the text. A server's start is not counted, the command line's is: it
has one each time. Processor seconds are those of a way's own processes.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import options, recognition, spoken, ways
from benchmarks.contest import contest
from benchmarks.options import Options
from benchmarks.spoken import Spoken
from benchmarks.ways import Way
from worker.engine import RATE


def recording(parts: list[recognition.Part], minutes: float) -> recognition.Part:
    """The recordings of a language in random orders with pauses, until it is long enough."""
    sounds: list[np.ndarray] = []
    texts: list[str] = []
    seed = 0
    while sum(map(len, sounds)) < minutes * 60 * RATE:
        samples, text = recognition.long(parts, seed)
        sounds.append(recognition.noisy(samples, 3, seed))
        texts.append(text)
        seed += 1
    return np.concatenate(sounds), " ".join(texts)


def main() -> None:
    """Run all ways in turn and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument(
        "--venv", dest="peers", type=Path, help="of an earlier run, to be used again"
    )
    options.add(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folder, enter = Path(scratch), stack.enter_context
        environment = given.peers or folder / "venv"
        chosen = Options(
            rounds=given.rounds,
            peers=environment,
            servers=options.servers(given.server),
            model=given.model,
            threads=given.threads,
        )
        weights, programs = ways.weights(folder, chosen), ways.install(environment)
        everybody = [
            enter(ways.service(folder, chosen)),
            enter(ways.engine(folder, chosen)),
            enter(ways.sequential(weights, chosen)),
            enter(ways.batched(weights, chosen)),
            *ways.others(enter, weights, chosen),
            enter(ways.wyoming(programs, weights, chosen)),
        ]
        compare(everybody, given.folder, given.minutes, chosen.rounds or 2, folder)


def compare(everybody: list[Way], speech: Path, minutes: float, rounds: int, folder: Path) -> None:
    """Each way's turn with each language's recording, in each round."""
    print(
        "| language | way | seconds | times real time | ratio to the service | processor s per s "
        "| word error rate |"
    )
    print("|---" * 7 + "|")
    for language, parts in recognition.load(speech).items():
        if not parts:
            continue
        samples, text = recording(parts, minutes)
        whole = Spoken(
            spoken.write(folder / f"{language}.wav", samples), language, text, len(samples) / RATE
        )
        warm = spoken.write(folder / "warm.wav", samples[: 10 * RATE])
        for way in everybody:
            way.text(Spoken(warm, language, "", 10))
        results = contest(everybody, [whole] * rounds)
        first = statistics.median(results[everybody[0].name].wall)
        for name, result in results.items():
            median = statistics.median(result.wall)
            print(
                f"| {language} | {name} | {median:.1f} | {whole.seconds / median:.1f} "
                f"| {median / first:.2f} "
                f"| {statistics.median(result.processor) / whole.seconds:.3f} "
                f"| {result.wrong.rate:.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
