"""The entry points: `python -m worker NAME` runs the module of that name."""
