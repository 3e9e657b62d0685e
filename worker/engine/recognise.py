"""The model: which language is spoken, and what is said in a unit of speech.

A unit's text depends on its samples, the language and the vocabulary, and on nothing else: no
sampling, no earlier text, and units that share a batch do not touch each other. So work that
goes on at a unit's border gives exactly the same text.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from worker.engine import RATE, cut, guard, second_look
from worker.engine.audio import Samples
from worker.engine.line import Line, Segment, Span, segment

LISTEN: Final = 60 * RATE
"""Samples of speech that decide the recording's language."""
HEARINGS: Final = tuple(seconds * RATE for seconds in (20, 30))
"""Samples that the model hears at once: the shortest of these that fits. It learned from 30 s.
Twenty cost little more than half of that and read as well; ten and fifteen save little more, and
read worse."""
TAIL: Final = 1 * RATE
"""Silence that the model should hear after the speech."""
TICK: Final = 0.02
"""Seconds of one timestamp token."""
VOCABULARY_TOKENS: Final = 100
"""The hint shares the model's 448 tokens with the text."""
BEAM: Final = 5
WORKERS: Final = 4
"""Clips that are read side by side, at most: each takes memory of its own."""
KEPT: Final = 8
"""Clips whose encoding is kept, 3 MB each (with the base model)."""
OTHER_LANGUAGE: Final = 0.9
"""How sure the model must be to take one unit for another language than the recording's."""
NO_SPEECH: Final = 0.5
SPARSE: Final = 0.3
"""Where the model doubts that anybody spoke (speech: up to 0.24, an instrument like a voice:
0.5 to 0.7) and the detector heard little of it (speech: 0.45 and more, that: under 0.2), nobody
did. Nor where it doubts that, and guesses at the words or says one thing over and over."""
UNSURE: Final = -1.0
"""Mean log-probability of a token below which the model guesses (Whisper's own figure)."""

T = TypeVar("T")

Encoded = Any
"""CTranslate2's view of the encoder's output; it ships no types."""


class Recogniser:
    """Whisper in CTranslate2. Deterministic: no result depends on what was asked before.

    Decoding is a long row of tiny products, which two threads compute no sooner than one; so the
    threads share out the clips.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        import ctranslate2  # noqa: PLC0415 - native libraries, in the engine's child only
        from faster_whisper import WhisperModel  # noqa: PLC0415 - the same

        self._view = ctranslate2.StorageView.from_array
        # A graphics card is best given everything at once.
        graphics = ctranslate2.get_cuda_device_count() > 0
        self._workers, each = (1, threads) if graphics else workers(threads)
        self._whisper: Any = WhisperModel(
            str(folder),
            device="auto",
            compute_type="int8",
            cpu_threads=each,
            num_workers=self._workers,
        )
        self._pool = ThreadPoolExecutor(self._workers, "recogniser")
        self._heard: dict[bytes, npt.NDArray[Any]] = {}
        self._lock = threading.Lock()

    def language(self, audio: Sequence[Samples], units: Sequence[Span]) -> str:
        """The language of the recording's first minute of speech, as an ISO 639-1 code."""
        if not self._whisper.model.is_multilingual:
            return "en"
        clips: list[Samples] = []
        for unit in units:
            clip = _clip(audio, unit)
            if clips and sum(map(len, clips)) + len(clip) > LISTEN:
                break
            clips.append(clip)

        def guess(group: Sequence[Samples]) -> list[list[tuple[str, float]]]:
            found: list[list[tuple[str, float]]] = self._whisper.model.detect_language(
                self._encode(group)
            )
            return found

        weights: defaultdict[str, float] = defaultdict(float)
        for clip, guesses in zip(clips, self._shared_out(guess, clips), strict=True):
            for token, probability in guesses:
                weights[token] += probability * len(clip)
        return _code(max(weights, key=weights.__getitem__))

    def known(self, hint: str) -> str:
        """The sender's hint as the model's language code ("ru-RU" is "ru"), or empty."""
        code = hint.strip().lower().replace("_", "-").partition("-")[0]
        return code if code in self._whisper.supported_languages else ""

    def recognise(
        self,
        audio: Sequence[Samples],
        units: Sequence[Span],
        *,
        language: str,
        mixed: bool = True,
        vocabulary: str = "",
    ) -> list[list[Segment]]:
        """What is said in each unit.

        Args:
            audio: the whole recording's channels, one or two.
            units: each at most 30 s; they share one batch.
            language: ISO code of the recording's language.
            mixed: whether a unit that is plainly in another language is taken in that one.
            vocabulary: names and terms to expect.
        """
        clips = [_clip(audio, unit) for unit in units]
        read = partial(self._read, language=language, mixed=mixed, vocabulary=vocabulary)
        found = second_look.completed(clips, read(clips), read)
        return [
            [segment(line, unit) for line in lines]
            for unit, lines in zip(units, found, strict=True)
        ]

    def _read(
        self, clips: Sequence[Samples], *, language: str, mixed: bool, vocabulary: str
    ) -> list[list[Line]]:
        batch = partial(self._batch, language=language, mixed=mixed, vocabulary=vocabulary)
        return self._shared_out(batch, clips)

    def _shared_out(
        self, work: Callable[[Sequence[Samples]], list[T]], clips: Sequence[Samples]
    ) -> list[T]:
        """The work's results for all clips, each worker having some that are heard for one time."""
        # A clip's own length decides how long the model listens, so that its company does not.
        shares = [
            group[first :: self._workers]
            for length in reversed(HEARINGS)
            for group in [[n for n, clip in enumerate(clips) if _hearing(clip) == length]]
            for first in range(min(self._workers, len(group)))
        ]
        found: dict[int, T] = {}
        every = [self._pool.submit(work, [clips[n] for n in share]) for share in shares]
        wait(every)  # so that nothing goes on behind an error
        for share, results in zip(shares, every, strict=True):
            found.update(zip(share, results.result(), strict=True))
        return [found[n] for n in range(len(clips))]

    def _batch(
        self, clips: Sequence[Samples], *, language: str, mixed: bool, vocabulary: str
    ) -> list[list[Line]]:
        """The lines of clips that are heard for the same time."""
        encoded = self._encode(clips)
        languages = [language] * len(clips)
        if mixed and self._whisper.model.is_multilingual:
            for index, guesses in enumerate(self._whisper.model.detect_language(encoded)):
                token, probability = guesses[0]
                if probability >= OTHER_LANGUAGE:
                    languages[index] = _code(token)
        prompts = [self._prompt(each, vocabulary) for each in languages]
        results = self._generate(encoded, prompts)
        read: list[list[Line]] = []
        for clip, prompt, result in zip(clips, prompts, results, strict=True):
            lines = self._lines(result.sequences_ids[0], len(clip) / RATE)
            doubtful = result.scores[0] < UNSURE
            loops = guard.looping(" ".join(line.text for line in lines))
            if result.no_speech_prob > NO_SPEECH and (
                doubtful or loops or np.mean(cut.hear(clip) > 0.5) < SPARSE
            ):
                read.append([Line(0.0, len(clip) / RATE, "", left_out="no_speech")])
                continue
            if loops:
                (firm,) = self._generate(self._encode([clip]), [prompt], no_repeat_ngram_size=3)
                lines = self._lines(firm.sequences_ids[0], len(clip) / RATE)
                doubtful = True
            read.append([judged(replace(line, doubtful=doubtful)) for line in lines])
        return read

    def _generate(self, encoded: Encoded, prompts: list[list[int]], **options: float) -> list[Any]:
        results: list[Any] = self._whisper.model.generate(
            encoded,
            prompts,
            beam_size=BEAM,
            max_length=self._whisper.max_length,
            suppress_blank=True,
            suppress_tokens=[-1],
            max_initial_timestamp_index=50,
            return_no_speech_prob=True,
            return_scores=True,
            **options,
        )
        return results

    def _encode(self, clips: Sequence[Samples]) -> Encoded:
        """The encoder's output for clips of one hearing.

        The last ones are kept, clip by clip: the minute in which the language was found is then
        recognised, and a unit that loops is read again.
        """
        keys = [blake2b(clip.tobytes()).digest() for clip in clips]
        with self._lock:
            rows = {key: self._heard[key] for key in keys if key in self._heard}
        if new := {key: clip for key, clip in zip(keys, clips, strict=True) if key not in rows}:
            features = np.stack([self._features(clip) for clip in new.values()])
            encoded = self._whisper.model.encode(self._view(features), to_cpu=True)
            rows |= dict(zip(new, np.array(encoded), strict=True))
            with self._lock:
                self._heard |= rows
                for key in list(self._heard)[:-KEPT]:
                    del self._heard[key]
        return self._view(np.stack([rows[key] for key in keys]))

    def _features(self, clip: Samples) -> npt.NDArray[np.float32]:
        """Log-mel of the clip followed by silence, as the model was trained."""
        extractor = self._whisper.feature_extractor
        length = _hearing(clip)
        sound = clip[:length].astype(np.float32) / 32768
        mel = extractor(sound, padding=length - len(sound))
        return np.ascontiguousarray(mel[:, : length // extractor.hop_length], dtype=np.float32)

    def _prompt(self, language: str, vocabulary: str) -> list[int]:
        tokenizer = self._tokenizer(language)
        return [*hinted(vocabulary, tokenizer), *tokenizer.sot_sequence]

    def _tokenizer(self, language: str) -> Any:
        from faster_whisper.tokenizer import Tokenizer  # noqa: PLC0415 - native libraries, in the child alone

        return Tokenizer(
            self._whisper.hf_tokenizer,
            self._whisper.model.is_multilingual,
            task="transcribe",
            language=language,
        )

    def _lines(self, tokens: Sequence[int], seconds: float) -> list[Line]:
        tokenizer = self._whisper.hf_tokenizer
        begin = tokenizer.token_to_id("<|notimestamps|>") + 1
        return list(lines(tokens, begin, seconds, tokenizer.decode))


def workers(threads: int) -> tuple[int, int]:
    """How many clips are read side by side, and by how many threads each.

    By one, on two cores (measured); by two and more where there are four cores and more, so that a
    lone message on them has some of it, too.
    """
    many = threads if threads < 4 else min(threads // 2, WORKERS)
    return many, threads // many


def hinted(vocabulary: str, tokenizer: Any) -> list[int]:
    """The vocabulary as what was said before, in words alone: no mark of the model's own, by which
    it would translate."""
    said = tokenizer.encode(" " + " ".join(vocabulary.split()))
    words = [token for token in said if token < tokenizer.eot]
    if not tokenizer.decode(words).strip():
        return []
    return [tokenizer.sot_prev, *words[:VOCABULARY_TOKENS]]


def lines(
    tokens: Sequence[int], begin: int, seconds: float, decode: Callable[[list[int]], str]
) -> Iterator[Line]:
    """Split the model's tokens at its timestamps; times never leave the clip.

    Args:
        tokens: text and timestamp tokens.
        begin: the first timestamp token.
        seconds: the clip's length.
        decode: tokens to text.
    """
    start: float = 0.0
    text: list[int] = []
    for token in tokens:
        if token < begin:
            text.append(token)
            continue
        at = min((token - begin) * TICK, seconds)
        if text and (said := decode(text).strip()):
            yield Line(start, max(at, start), said)
        start, text = at, []
    if text and (said := decode(text).strip()):
        yield Line(start, seconds, said)


def _clip(audio: Sequence[Samples], unit: Span) -> Samples:
    start, end, *channel = unit
    return audio[channel[0] if channel else 0][start:end]


def _hearing(clip: Samples) -> int:
    return next((length for length in HEARINGS if len(clip) + TAIL <= length), HEARINGS[-1])


def judged(line: Line) -> Line:
    """The line, or a note that it was left out because nobody can have said it."""
    if guard.credits(line.text):
        return replace(line, text="", left_out="credits")
    if guard.looping(line.text):
        return replace(line, text="", left_out="loop")
    if guard.too_dense(line.text, line.end - line.start):
        return replace(line, text="", left_out="too_dense")
    return line


def _code(token: str) -> str:
    return token.strip("<|>")
