"""The one error of the commands themselves."""

from __future__ import annotations

from worker.errors import TranscriberError


class CommandError(TranscriberError):
    """The command cannot do what was asked. The message is for the person who typed it."""
