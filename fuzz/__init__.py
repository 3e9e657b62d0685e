"""Fuzzing: seeded, bounded, on loopback. `python -m fuzz TARGET --seed N --seconds S`.

A case is made from the seed and its number alone, so that `--case K` makes the same one again.
"""
