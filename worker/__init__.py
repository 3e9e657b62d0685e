"""transcriber's Python side. `docs/architecture.md` says what each room holds."""

__version__ = "0.1.0"
