"""Models that `onnx-asr` runs: GigaAM and Vosk for Russian, Parakeet, Canary and others.

The same protocol as `worker.engine.recognise`: a unit's text depends on its samples alone. Units
are recognised one by one: padding to the longest of a batch changes what an int8 model computes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypedDict

import numpy as np

from worker.engine import RATE, guard

if TYPE_CHECKING:
    from worker.engine.audio import Samples

RUSSIAN: Final = ("ru",)
ENGLISH: Final = ("en",)
EUROPEAN: Final = (
    "bg", "hr", "cs", "da", "nl", "en", "et", "fi", "fr", "de", "el", "hu", "it", "lv", "lt", "mt",
    "pl", "pt", "ro", "sk", "sl", "es", "sv", "ru", "uk",
)  # fmt: skip

LANGUAGES: Final[Mapping[str, Sequence[str]]] = {
    "gigaam-v2-ctc": RUSSIAN,
    "gigaam-v2-rnnt": RUSSIAN,
    "gigaam-v3-ctc": RUSSIAN,
    "gigaam-v3-rnnt": RUSSIAN,
    "gigaam-v3-e2e-ctc": RUSSIAN,
    "gigaam-v3-e2e-rnnt": RUSSIAN,
    "gigaam-multilingual-ctc": (),
    "gigaam-multilingual-large-ctc": (),
    "nemo-fastconformer-ru-ctc": RUSSIAN,
    "nemo-fastconformer-ru-rnnt": RUSSIAN,
    "nemo-parakeet-ctc-0.6b": ENGLISH,
    "nemo-parakeet-rnnt-0.6b": ENGLISH,
    "nemo-parakeet-tdt-0.6b-v2": ENGLISH,
    "nemo-parakeet-tdt-0.6b-v3": EUROPEAN,
    "nemo-canary-1b-v2": EUROPEAN,
    "alphacep/vosk-model-ru": RUSSIAN,
    "alphacep/vosk-model-small-ru": RUSSIAN,
}
"""The names that can be asked for, and the languages of each; none: whatever it hears."""

LEADER: Final = 0.25
"""Seconds of silence before and after a unit: the first and last sounds are heard better."""
PAUSE: Final = 0.8
"""Seconds between two words that begin a new segment."""
LONGEST: Final = 24.0
"""Seconds of the longest unit: what these models learned from is shorter than Whisper's 30 s."""


class Word(TypedDict):
    """A word with its place in the recording, in seconds."""

    start: float
    end: float
    word: str


class Segment(TypedDict):
    """See `worker.engine.line.Segment`."""

    start: float
    end: float
    text: str
    words: list[Word]
    channel: NotRequired[int]


def name_of(folder: Path) -> str:
    """The name by which onnx-asr knows the model in a folder.

    Raises:
        ValueError: nothing says what it is.
    """
    name = folder.name.replace("--", "/")
    if name in LANGUAGES:
        return name
    config = folder / "config.json"
    if config.is_file():
        kind = json.loads(config.read_text(encoding="utf-8")).get("model_type")
        if isinstance(kind, str) and kind:
            return kind
    for pattern, kind in (
        ("v3_e2e_rnnt_encoder*", "gigaam-v3-e2e-rnnt"),
        ("v3_e2e_ctc*.onnx", "gigaam-v3-e2e-ctc"),
        ("v?_rnnt_encoder*", "gigaam-v3-rnnt"),
        ("v?_ctc*.onnx", "gigaam-v3-ctc"),
        ("am-onnx/encoder*", "vosk"),
    ):
        if any(folder.glob(pattern)):
            return kind
    raise ValueError(
        "cannot tell what model this is: name its folder after it (gigaam-v3-ctc, "
        "nemo-parakeet-tdt-0.6b-v3, ...) or put its config.json there"
    )


def is_one(folder: Path) -> bool:
    """Whether this folder holds such a model."""
    return any(folder.glob("*.onnx")) or any(folder.glob("am-onnx/*.onnx"))


class OnnxRecogniser:
    """A model of onnx-asr, on the processor."""

    def __init__(self, folder: Path, threads: int) -> None:
        import onnx_asr  # noqa: PLC0415 - native libraries, in the engine's child only
        import onnxruntime  # noqa: PLC0415 - native libraries, in the child alone

        name = name_of(folder)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._languages = LANGUAGES.get(name, ())
        self._takes_language = "canary" in name or name == "nemo-conformer-aed"
        self._model: Any = onnx_asr.load_model(
            name,
            folder,
            quantization="int8" if any(folder.glob("**/*int8.onnx")) else None,
            sess_options=options,
            providers=["CPUExecutionProvider"],
        ).with_timestamps()

    def known(self, hint: str) -> str:
        """The sender's hint as far as it is a language of the model's."""
        code = hint.strip().lower().replace("_", "-").partition("-")[0]
        return code if code in self._languages else ""

    def language(self, audio: Sequence[Samples], units: Sequence[tuple[int, ...]]) -> str:  # noqa: ARG002 - the other recogniser's form
        """The model's only language; of several it does not say which one it heard."""
        return self._languages[0] if len(self._languages) == 1 else ""

    def recognise(
        self,
        audio: Sequence[Samples],
        units: Sequence[tuple[int, ...]],
        *,
        language: str,
        mixed: bool = True,  # noqa: ARG002 - it hears what it can
        vocabulary: str = "",  # noqa: ARG002 - nor does it take terms
    ) -> list[list[Segment]]:
        """What is said in each unit, with the times of words."""
        options = {"language": language} if language and self._takes_language else {}
        found = []
        for start, end, *channel in units:
            clip = audio[channel[0] if channel else 0][start:end]
            edge = np.zeros(round(LEADER * RATE), np.float32)
            sound = np.concatenate([edge, clip.astype(np.float32) / 32768, edge])
            [heard] = self._model.recognize([sound], sample_rate=RATE, **options)
            lines = segments(heard, start / RATE, end / RATE)
            for line in lines:
                if channel:
                    line["channel"] = channel[0]
            found.append(lines)
        return found


def segments(heard: Any, start: float, end: float) -> list[Segment]:
    """The lines of a unit that lasts from `start` to `end`, seconds of the recording."""
    if not heard.text.strip():
        return []
    spoken = list(words(heard, start, end))
    if not spoken:
        whole = Segment(start=round(start, 3), end=round(end, 3), text=heard.text.strip(), words=[])
        return [whole] if _believable(whole) else []
    lines = [[spoken[0]]]
    for before, word in pairwise(spoken):
        ended = before["word"].endswith((".", "!", "?", "…"))
        if ended or word["start"] - before["end"] >= PAUSE:
            lines.append([])
        lines[-1].append(word)
    found = [
        Segment(
            start=line[0]["start"],
            end=line[-1]["end"],
            text=" ".join(word["word"] for word in line),
            words=line,
        )
        for line in lines
    ]
    return [line for line in found if _believable(line)]


def words(heard: Any, start: float, end: float) -> Iterator[Word]:
    """Tokens with times become words: a new one begins where a token begins with a space.

    A token's time is when it begins; a word ends a little after its last token began, and not after
    the next one begins.
    """
    pieces: list[tuple[str, float, float]] = []  # text, when its first and last token began
    fresh = True
    for token, at in zip(heard.tokens or (), heard.timestamps or (), strict=False):
        fresh = fresh or token.startswith(" ")
        text = token.strip()
        if text:
            if fresh and (text[0].isalnum() or not pieces):
                pieces.append((text, at, at))
            else:  # punctuation belongs to the word before it
                whole, first, _ = pieces[-1]
                pieces[-1] = (whole + text, first, at)
            fresh = False
        fresh = fresh or token.endswith(" ")
    for n, (text, first, last) in enumerate(pieces):
        following = pieces[n + 1][1] if n + 1 < len(pieces) else end - start + LEADER
        begin = min(max(start, start + first - LEADER), end)
        finish = min(max(begin, start + min(last + 0.2, following) - LEADER), end)
        yield Word(start=round(begin, 3), end=round(finish, 3), word=text)


def _believable(line: Segment) -> bool:
    return not (
        guard.looping(line["text"]) or guard.too_dense(line["text"], line["end"] - line["start"])
    )
