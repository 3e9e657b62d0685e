"""The model: which language is spoken, and what is said in a unit of speech.

A unit's text depends on its samples, the language and the vocabulary, and on nothing else: no
sampling, no earlier text, and units that share a batch do not touch each other. So work that
goes on at a unit's border gives exactly the same text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from worker.engine import RATE, cut, guard
from worker.engine.audio import Samples

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
KEPT: Final = 8
"""Clips whose encoding is kept, 3 MB each (with the base model)."""
TOGETHER: Final = 4
"""Clips of the second look that share a batch."""
OTHER_LANGUAGE: Final = 0.9
"""How sure the model must be to take one unit for another language than the recording's."""
MISSED: Final = 0.7
"""Seconds of speech without text that are worth a second look."""
NO_SPEECH: Final = 0.5
SPARSE: Final = 0.3
"""Where the model doubts that anybody spoke (speech: up to 0.24, an instrument like a voice:
0.5 to 0.7) and the detector heard little of it (speech: 0.45 and more, that: under 0.2), nobody
did. Nor where it doubts that, and guesses at the words or says one thing over and over."""
REST: Final = 2.0
"""The same, where a line covers the other part of a stretch."""
THIN: Final = 6.0
"""Letters for each second of heard speech below which a line says less than was said (measured: 9
and more, what passed a whole sentence over 2 to 4); a digit counts as a word of four letters."""
THIN_SPEECH: Final = 4.0
"""Seconds of heard speech from which on that can be told."""
PIECE: Final = 1.5
"""The shortest piece of a thin line that is read alone; a shorter one stays with the next."""
UNSURE: Final = -1.0
"""Mean log-probability of a token below which the model guesses (Whisper's own figure)."""
FINE: Final = replace(cut.RULES, pause=0.25)
"""Rules by which speech inside a unit is compared with the text."""


Span = tuple[int, ...]
"""Start and end of a unit, in samples, and its channel where each is read apart."""

Piece = tuple[int, int]
"""Start and end of a part of a unit."""

Encoded = Any
"""CTranslate2's view of the encoder's output; it ships no types."""


class Segment(TypedDict):
    """A piece of text with its place in the recording, seconds rounded to milliseconds."""

    start: float
    end: float
    text: str
    channel: NotRequired[int]
    doubtful: NotRequired[bool]
    """The model was not sure of it, or said it only when it was kept from repeating itself."""
    left_out: NotRequired[str]
    """Why there is no text: `no_speech`, or what the model said and nobody can have: `loop`,
    `credits`, `too_dense`."""


@dataclass(frozen=True, slots=True)
class Line:
    """A piece of text in one clip, times in seconds from the clip's start."""

    start: float
    end: float
    text: str
    doubtful: bool = False
    left_out: str = ""

    def later(self, seconds: float) -> Line:
        """The same text, so much later."""
        return replace(self, start=self.start + seconds, end=self.end + seconds)


class Recogniser:
    """Whisper in CTranslate2. Deterministic: no result depends on what was asked before."""

    def __init__(self, folder: Path, threads: int) -> None:
        import ctranslate2  # noqa: PLC0415 - native libraries, in the engine's child only
        from faster_whisper import WhisperModel  # noqa: PLC0415

        self._view = ctranslate2.StorageView.from_array
        self._whisper: Any = WhisperModel(
            str(folder), device="auto", compute_type="int8", cpu_threads=threads
        )
        self._heard: dict[bytes, npt.NDArray[Any]] = {}

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
        weights: defaultdict[str, float] = defaultdict(float)
        for length in HEARINGS:
            if group := [clip for clip in clips if _hearing(clip) == length]:
                heard = self._whisper.model.detect_language(self._encode(group))
                for clip, guesses in zip(group, heard, strict=True):
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
        found = read(clips)
        # Speech that the model passed over is read again, alone: what no line covers, and what a
        # line covers that has too few words for it.
        looks: list[tuple[int, Line | None, Piece]] = []
        for unit, clip in enumerate(clips):
            spoken = [line for line in found[unit] if line.text]
            heard = cut.stretches(cut.hear(clip), FINE)
            looks += [(unit, None, span) for span in missed(clip, spoken, heard)]
            looks += [(unit, line, span) for line, span in thin(clip, spoken, heard)]
        more: defaultdict[tuple[int, Line | None], list[Line]] = defaultdict(list)
        for at in range(0, len(looks), TOGETHER):
            some = looks[at : at + TOGETHER]
            again = read([clips[unit][start:end] for unit, _, (start, end) in some])
            for (unit, instead, (start, _)), lines in zip(some, again, strict=True):
                more[unit, instead] += [line.later(start / RATE) for line in lines]
        for (unit, instead), lines in more.items():
            if instead is None:
                found[unit] += lines
            elif _letters(" ".join(line.text for line in lines)) > _letters(instead.text):
                found[unit] = [line for line in found[unit] if line is not instead] + lines
        return [
            [_segment(line, unit) for line in settled(lines)]
            for unit, lines in zip(units, found, strict=True)
        ]

    def _read(
        self, clips: Sequence[Samples], *, language: str, mixed: bool, vocabulary: str
    ) -> list[list[Line]]:
        # A clip's own length decides how long the model listens, so that its company does not.
        read: dict[int, list[Line]] = {}
        for length in HEARINGS:
            group = [n for n, clip in enumerate(clips) if _hearing(clip) == length]
            if group:
                some = [clips[n] for n in group]
                texts = self._batch(some, language=language, mixed=mixed, vocabulary=vocabulary)
                read.update(zip(group, texts, strict=True))
        return [read[n] for n in range(len(clips))]

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
        if new := {
            key: clip for key, clip in zip(keys, clips, strict=True) if key not in self._heard
        }:
            features = np.stack([self._features(clip) for clip in new.values()])
            encoded = self._whisper.model.encode(self._view(features), to_cpu=True)
            self._heard.update(zip(new, np.array(encoded), strict=True))
        rows = np.stack([self._heard[key] for key in keys])
        for key in list(self._heard)[:-KEPT]:
            del self._heard[key]
        return self._view(rows)

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
        from faster_whisper.tokenizer import Tokenizer  # noqa: PLC0415

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


def _segment(line: Line, unit: Span) -> Segment:
    begin = unit[0] / RATE
    segment = Segment(
        start=round(begin + line.start, 3), end=round(begin + line.end, 3), text=line.text
    )
    if len(unit) > 2:
        segment["channel"] = unit[2]
    if line.left_out:
        segment["left_out"] = line.left_out
    elif line.doubtful:
        segment["doubtful"] = True
    return segment


def settled(lines: Sequence[Line]) -> list[Line]:
    """In order, and nothing left out where the second look found words; one note for a stretch."""
    kept: list[Line] = []
    spoken = [line for line in lines if line.text]
    for line in sorted(lines, key=lambda line: line.start):
        if line.left_out and any(a.start < line.end and line.start < a.end for a in spoken):
            continue
        if line.left_out and kept and kept[-1].left_out == line.left_out:
            kept[-1] = replace(kept[-1], end=max(kept[-1].end, line.end))
            continue
        kept.append(line)
    return kept


def missed(clip: Samples, found: Sequence[Line], heard: Sequence[Piece]) -> list[Piece]:
    """Stretches of speech, in samples of the clip, that no line covers; neighbours as one.

    Where a line covers part of a stretch, only the rest is missed, and only when it is long: the
    model's times are rough.

    Args:
        clip: the samples.
        found: the lines with text.
        heard: stretches of speech, in frames.
    """
    gaps: list[tuple[float, float]] = []
    for first, last in heard:
        start, end = first * cut.FRAME / RATE, last * cut.FRAME / RATE
        for left, right in _without(start, end, found):
            if right - left < min(REST, (end - start) / 2):
                continue
            if gaps and not any(gaps[-1][1] < (a.start + a.end) / 2 < left for a in found):
                gaps[-1] = (gaps[-1][0], right)
            else:
                gaps.append((left, right))
    length = len(clip) / RATE
    return [
        (
            int(RATE * max([0.0, left - FINE.pad, *(a.end for a in found if a.end <= left)])),
            int(
                RATE
                * min([length, right + FINE.pad, *(a.start for a in found if a.start >= right)])
            ),
        )
        for left, right in gaps
        if right - left >= MISSED
    ]


def thin(
    clip: Samples, found: Sequence[Line], heard: Sequence[Piece]
) -> Iterator[tuple[Line, Piece]]:
    """Lines with too few words for the speech they cover, each with its pieces, in samples.

    Where the language changes after a short pause, the model may stretch a line of the one over
    all that was said in the other. For the arguments see `missed`.
    """
    pad = int(FINE.pad * RATE)
    for line in found:
        inside = [
            (start, end)
            for first, last in heard
            if (start := max(first * cut.FRAME, int(line.start * RATE)))
            < (end := min(last * cut.FRAME, int(line.end * RATE)))
        ]
        speech = sum(end - start for start, end in inside) / RATE
        if speech < THIN_SPEECH or _letters(line.text) >= THIN * speech:
            continue
        pieces: list[Piece] = []
        for start, end in inside:
            if pieces and pieces[-1][1] - pieces[-1][0] < PIECE * RATE:
                pieces[-1] = (pieces[-1][0], end)
            else:
                pieces.append((start, end))
        for start, end in pieces:
            yield line, (max(0, start - pad), min(len(clip), end + pad))


def _letters(text: str) -> int:
    """Letters, as if everything were spelt out: digits, and scripts with a sign for a syllable."""
    return sum(4 if sign.isdigit() else 3 if sign >= "\u2e80" else sign.isalpha() for sign in text)


def _without(start: float, end: float, found: Sequence[Line]) -> Iterator[tuple[float, float]]:
    """The parts of a stretch that no line covers."""
    for line in sorted(found, key=lambda line: line.start):
        if line.start >= end:
            break
        if line.start > start:
            yield start, line.start
        start = max(start, line.end)
    if start < end:
        yield start, end


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
