"""Word error rate and speed of the local engine on recordings with known texts.

    python benchmarks/recognition.py FOLDER [--model base] [--threads 2] [--rounds 2]

FOLDER holds pairs NAME.(wav|flac|mp3|ogg) and NAME.txt; the language is told from the letters of
the text. The recordings of a language are joined in random orders, with pauses and noise, and
recognised by this engine and by the bare library (faster-whisper with its own voice filter, same
model, precision and threads). Both run in turn, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from worker.engine import RATE, audio, cut, model
from worker.engine.recognise import Recogniser
from worker.settings import Settings

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def words(text: str) -> list[str]:
    """Lower case, no punctuation, digits as words; "ё" is "е" and "oh" is zero."""
    text = re.sub(r"\d", lambda digit: f" {DIGITS[int(digit[0])]} ", text.lower())
    text = re.sub(r"\b(oh|o)\b", "zero", text.replace("ё", "е"))
    return re.findall(r"\w+", text)


def errors(said: list[str], heard: list[str]) -> int:
    """Word edits between the two."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]


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


def compose(parts: list[tuple[np.ndarray, str]], seed: int, noise: float) -> tuple[np.ndarray, str]:
    """All parts twice, in random orders, with pauses of 0.2 to 1.5 s, in noise of this level."""
    random = np.random.default_rng(seed)
    sounds, texts = [], []
    for _ in range(2):
        for index in random.permutation(len(parts)):
            silence = np.zeros(int(RATE * random.uniform(0.2, 1.5)), np.int16)
            sounds += [parts[index][0], silence]
            texts.append(parts[index][1])
    whole = np.concatenate(sounds).astype(np.float64)
    whole += random.normal(0, noise, len(whole))
    return np.clip(whole, -32768, 32767).astype(np.int16), " ".join(texts)


def ours(recogniser: Recogniser, samples: np.ndarray, language: str) -> str:
    """The engine's text: cut at pauses, in batches of four units."""
    units = cut.units(cut.hear(samples), len(samples))
    found = [
        segment["text"]
        for at in range(0, len(units), 4)
        for unit in recogniser.recognise([samples], units[at : at + 4], language=language)
        for segment in unit
    ]
    return " ".join(found)


def bare(recogniser: Recogniser, samples: np.ndarray, language: str) -> str:
    """The library's text, with the same model and its own voice filter."""
    sound = samples.astype(np.float32) / 32768
    segments, _ = recogniser._whisper.transcribe(
        sound, language=language, vad_filter=True, condition_on_previous_text=False
    )
    return " ".join(segment.text for segment in segments)


def main() -> None:
    """Run and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="base")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    settings = Settings(telegram_enabled=False, engine_model=options.model)
    recogniser = Recogniser(model.install(settings), options.threads)
    ways: dict[str, Callable[[Recogniser, np.ndarray, str], str]] = {"ours": ours, "bare": bare}
    print(f"{'':12}{'words':>7}{'WER':>8}{'x real time':>13}")
    for language, parts in load(options.folder).items():
        if not parts:
            continue
        tally = {way: [0, 0.0] for way in ways}
        total, seconds = 0, 0.0
        for seed in range(options.rounds):
            samples, text = compose(parts, seed, noise=3 if seed % 2 == 0 else 300)
            said = words(text)
            total, seconds = total + len(said), seconds + len(samples) / RATE
            for way, recognise in ways.items():
                started = time.perf_counter()
                heard = recognise(recogniser, samples, language)
                tally[way][1] += time.perf_counter() - started
                tally[way][0] += errors(said, words(heard))
        for way, (wrong, took) in tally.items():
            print(f"{language} {way:9}{total:7}{wrong / total:8.1%}{seconds / took:13.1f}")


if __name__ == "__main__":
    main()
