"""Sounds without a word in them, made here: what does a recogniser say to them?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from worker.engine import RATE

SECONDS = 30
Sound = npt.NDArray[np.int16]


def sounds() -> dict[str, Sound]:
    """Half a minute of each, by name."""
    time = np.arange(SECONDS * RATE) / RATE
    random = np.random.default_rng(7)
    white = random.normal(0, 1, len(time))
    made = {
        "silence": 0 * time,
        "hiss": 0.003 * white,
        "noise": 0.1 * white,
        "rumble": 0.3 * _brown(white),
        "hum": 0.2 * sum(np.sin(2 * np.pi * 50 * n * time) / n for n in (1, 2, 3, 5)),
        "hold tone": 0.3 * np.sin(2 * np.pi * 425 * time) * (time % 4 < 1),
        "busy tone": 0.3 * np.sin(2 * np.pi * 425 * time) * (time % 0.7 < 0.35),
        "dialling": _dialling(time),
        "chords": _chords(time),
        "melody": _melody(time),
        "beat": _beat(time, white),
        "glide": _glide(time),
        "humming": _glide(time) * (1 + np.cos(2 * np.pi * 1.5 * time)) / 2,
        "syllables": _syllables(time, white),
        "wind": 0.4 * _brown(white) * (1 + np.sin(2 * np.pi * 0.3 * time)) / 2,
        "clicks": 0.8 * white * (random.random(len(time)) < 0.0005),
    }
    return {
        name: np.clip(sound * 32767, -32768, 32767).astype(np.int16) for name, sound in made.items()
    }


Curve = npt.NDArray[np.float64]


def _brown(white: Curve) -> Curve:
    walk = np.cumsum(white)
    walk -= np.convolve(walk, np.ones(2000) / 2000, mode="same")
    loudest: Curve = walk / np.abs(walk).max()
    return loudest


def _dialling(time: Curve) -> Curve:
    pairs = np.array([(697, 1209), (770, 1336), (852, 1477), (941, 1336)])
    pair = pairs[(time / 0.4).astype(int) % 4]
    both = np.sin(2 * np.pi * pair[:, 0] * time) + np.sin(2 * np.pi * pair[:, 1] * time)
    return 0.2 * both * (time % 0.4 < 0.2)


def _chords(time: Curve) -> Curve:
    roots = np.array([220.0, 174.6, 196.0, 261.6])[(time / 2).astype(int) % 4]
    voices = sum(np.sin(2 * np.pi * roots * ratio * time) for ratio in (1, 1.25, 1.5, 2))
    fading: Curve = 0.12 * voices * np.exp(-(time % 2))
    return fading


def _melody(time: Curve) -> Curve:
    notes = np.array([262, 294, 330, 392, 440, 392, 330, 294])[(time / 0.3).astype(int) % 8]
    trill = 1 + 0.005 * np.sin(2 * np.pi * 5.5 * time)
    phase = 2 * np.pi * np.cumsum(notes * trill) / RATE
    reed = sum(np.sin(n * phase) / n for n in range(1, 8))
    plucked: Curve = 0.2 * reed * np.exp(-3 * (time % 0.3))
    return plucked


def _beat(time: Curve, white: Curve) -> Curve:
    drum = np.sin(2 * np.pi * 60 * time) * np.exp(-12 * (time % 0.5))
    hat = white * np.exp(-40 * ((time + 0.25) % 0.5))
    return 0.5 * drum + 0.1 * hat


def _glide(time: Curve) -> Curve:
    """Like a voice without words: a buzz that rises and falls, through two moving resonances."""
    pitch = 140 + 40 * np.sin(2 * np.pi * 0.7 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    first = 500 + 200 * np.sin(2 * np.pi * 0.9 * time)
    second = 1500 + 500 * np.sin(2 * np.pi * 0.6 * time)
    sound = np.zeros_like(time)
    for n in range(1, 25):
        at = n * pitch
        loud = 1 / (1 + ((at - first) / 80) ** 2) + 0.5 / (1 + ((at - second) / 120) ** 2)
        sound += loud * np.sin(n * phase)
    return 0.3 * sound / np.abs(sound).max()


def _syllables(time: Curve, white: Curve) -> Curve:
    """The same four times a second, with a hiss before each: what a detector takes for speech."""
    beat = time * 4 % 1
    vowel = _glide(time) * np.exp(-(((beat - 0.6) / 0.2) ** 2))
    return vowel + 0.05 * white * np.exp(-(((beat - 0.2) / 0.08) ** 2))
