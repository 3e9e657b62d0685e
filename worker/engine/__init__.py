"""The local recogniser: engine processes that turn claimed operations into segments."""

from typing import Final

RATE: Final = 16_000
"""Samples a second, everywhere in the engine."""
