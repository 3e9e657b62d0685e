"""Word error rate of the local engine and of other ways to use the same model.

    python -m benchmarks.recognition FOLDER [--model base] [--threads 2] [--invented]

FOLDER holds pairs NAME.(wav|flac|mp3|ogg) and NAME.txt; the language is told from the letters of
the text. Each recording is recognised alone ("short"), and all of a language joined twice over in
random order with pauses ("long"), each clean and in noise. `--invented` adds half a minute each of
sounds without a word in them (`benchmarks/invented.py`): what is said to them is invented.

Processor seconds are counted, so that a busy machine changes nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import invented
from worker.engine import RATE, audio, channels, cut, model
from worker.engine.recognise import Recogniser
from worker.settings import Settings

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
NOISE = {"clean": 3.0, "noisy": 300.0}
Part = tuple[np.ndarray, str]


def words(text: str) -> list[str]:
    """Lower case, no punctuation, digits as words; "ё" is "е" and "oh" is zero."""
    text = re.sub(r"\d", lambda digit: f" {DIGITS[int(digit[0])]} ", text.lower())
    text = re.sub(r"\b(oh|o)\b", "zero", text.replace("ё", "е"))
    return re.findall(r"\w+", text)


def errors(said: list[str], heard: list[str]) -> int:
    """Word edits between the two."""
    numbers = {word: n for n, word in enumerate({*said, *heard})}
    other = np.array([numbers[word] for word in heard], dtype=np.int64)
    column = np.arange(len(heard) + 1)
    row = column
    for i, word in enumerate(said, 1):
        best = np.minimum(row[1:] + 1, row[:-1] + (other != numbers[word]))
        # Words too many: each costs one more than what stands before it.
        row = column + np.minimum.accumulate(np.concatenate([[i], best]) - column)
    return int(row[-1])


def load(folder: Path) -> dict[str, list[tuple[np.ndarray, str]]]:
    """Samples and text of every pair, by language."""
    found: dict[str, list[tuple[np.ndarray, str]]] = {"ru": [], "en": []}
    with tempfile.TemporaryDirectory() as scratch:
        for text_file in sorted(folder.glob("*.txt")):
            sounds = [p for p in folder.glob(f"{text_file.stem}.*") if p != text_file]
            if sounds:
                raw = Path(scratch) / text_file.stem
                for _ in audio.decode(sounds[0], raw):
                    pass
                text = text_file.read_text(encoding="utf-8")
                language = "ru" if re.search("[а-я]", text) else "en"
                found[language].append((np.array(audio.samples(raw)), text))
    return found


def long(parts: list[Part], seed: int) -> Part:
    """All parts twice, in random orders, with pauses of 0.2 to 1.5 s."""
    random = np.random.default_rng(seed)
    sounds, texts = [], []
    for _ in range(2):
        for index in random.permutation(len(parts)):
            silence = np.zeros(int(RATE * random.uniform(0.2, 1.5)), np.int16)
            sounds += [parts[index][0], silence]
            texts.append(parts[index][1])
    return np.concatenate(sounds), " ".join(texts)


def noisy(samples: np.ndarray, level: float, seed: int) -> np.ndarray:
    """With white noise of this level."""
    rough = samples + np.random.default_rng(seed).normal(0, level, len(samples))
    return np.clip(rough, -32768, 32767).astype(np.int16)


def ours(recogniser: Recogniser, samples: np.ndarray, language: str) -> str:
    """The engine's text: cut at pauses, in batches of four units."""
    work = channels.units([samples])
    while True:
        try:
            next(work)
        except StopIteration as end:
            units = end.value
            break
    found = [
        segment["text"]
        for at in range(0, len(units), 4)
        for unit in recogniser.recognise([samples], units[at : at + 4], language=language)
        for segment in unit
    ]
    return " ".join(found)


def one_by_one(recogniser: Recogniser, samples: np.ndarray, language: str) -> str:
    """The same units, each through the library's own `transcribe`."""
    found = []
    for start, end in cut.units(cut.hear(samples), len(samples)):
        segments, _ = recogniser._whisper.transcribe(
            floating(samples[start:end]), language=language, condition_on_previous_text=False
        )
        found += [segment.text for segment in segments]
    return " ".join(found)


def defaults(recogniser: Recogniser, samples: np.ndarray, language: str) -> str:
    """The library as it comes."""
    segments, _ = recogniser._whisper.transcribe(floating(samples), language=language)
    return " ".join(segment.text for segment in segments)


def filtered(recogniser: Recogniser, samples: np.ndarray, language: str) -> str:
    """The library with its own voice filter."""
    segments, _ = recogniser._whisper.transcribe(
        floating(samples), language=language, vad_filter=True, condition_on_previous_text=False
    )
    return " ".join(segment.text for segment in segments)


def batched(recogniser: Recogniser, samples: np.ndarray, language: str) -> str:
    """The library's batched pipeline."""
    from faster_whisper import BatchedInferencePipeline  # noqa: PLC0415 - slow to import

    pipeline = BatchedInferencePipeline(model=recogniser._whisper)
    segments, _ = pipeline.transcribe(floating(samples), language=language, batch_size=4)
    return " ".join(segment.text for segment in segments)


def floating(samples: np.ndarray) -> np.ndarray:
    """From -1 to 1, as the library takes it."""
    return samples.astype(np.float32) / 32768


Way = Callable[[Recogniser, np.ndarray, str], str]
WAYS: dict[str, Way] = {
    "this engine": ours,
    "its units one by one through `transcribe`": one_by_one,
    "`transcribe`, defaults": defaults,
    "`transcribe`, `vad_filter`": filtered,
    "`BatchedInferencePipeline`": batched,
}


def library(folder: Path, threads: int) -> Recogniser:
    """The model as the library loads it, with all threads for each clip: ours shares clips out."""
    from faster_whisper import WhisperModel  # noqa: PLC0415 - slow to import

    recogniser = Recogniser(folder, threads)
    recogniser._whisper = WhisperModel(
        str(folder), device="auto", compute_type="int8", cpu_threads=threads
    )
    return recogniser


def rates(models: Callable[[Way], Recogniser], parts: dict[str, list[Part]]) -> None:
    """Print a row for each way and language."""
    names = [f"{length}, {sound}" for length in ("short", "long") for sound in NOISE]
    print(f"| language | way | {' | '.join(names)} | all | processor s per s |")
    print("|---" * (len(names) + 4) + "|")
    for language, own in parts.items():
        if not own:
            continue
        cases = [
            [(noisy(samples, NOISE[sound], n), text) for n, (samples, text) in enumerate(group)]
            for group in (own, [long(own, 0)])
            for sound in NOISE
        ]
        for name, way in WAYS.items():
            cells, wrong, total, spent, heard = [], 0, 0, 0.0, 0.0
            for case in cases:
                case_wrong = case_total = 0
                for samples, text in case:
                    started = time.process_time()
                    got = words(way(models(way), samples, language))
                    spent += time.process_time() - started
                    heard += len(samples) / RATE
                    said = words(text)
                    case_wrong, case_total = case_wrong + errors(said, got), case_total + len(said)
                cells.append(f"{case_wrong / case_total:.1%}")
                wrong, total = wrong + case_wrong, total + case_total
            figures = " | ".join([*cells, f"{wrong / total:.1%}", f"{spent / heard:.3f}"])
            print(f"| {language} | {name} | {figures} |", flush=True)


def inventions(models: Callable[[Way], Recogniser]) -> None:
    """Print what each way says to sounds without words."""
    ways = {name: way for name, way in WAYS.items() if way is not one_by_one}
    print(f"\n| sound | {' | '.join(ways)} |")
    print("|---" * (len(ways) + 1) + "|")
    for name, samples in invented.sounds().items():
        cells = []
        for way in ways.values():
            started = time.process_time()
            count = len(words(way(models(way), samples, "ru")))
            cells.append(f"{count} words, {time.process_time() - started:.1f} s")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Run and print tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="base")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--invented", action="store_true")
    options = parser.parse_args()
    settings = Settings(telegram_enabled=False, engine_model=options.model)
    folder = model.install(settings)
    own_model, plain = Recogniser(folder, options.threads), library(folder, options.threads)

    def models(way: Way) -> Recogniser:
        return own_model if way is ours else plain

    parts = load(options.folder)
    for language, own in parts.items():
        seconds = sum(len(samples) for samples, _ in own) / RATE
        print(f"{language}: {len(own)} recordings, {seconds:.0f} s", file=sys.stderr)
    rates(models, parts)
    if options.invented:
        inventions(models)


if __name__ == "__main__":
    main()
