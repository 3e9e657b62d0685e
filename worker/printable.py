"""Text from others, without what no speaker says and no terminal should see."""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    """Without what cannot be stored or sent: control characters and halves of characters."""
    if text.isprintable():
        return text
    kept = "".join(
        each if each == "\n" or unicodedata.category(each) not in {"Cc", "Cs"} else ""
        for each in text.replace("\r\n", "\n").replace("\t", " ")
    )
    return kept.removeprefix("\ufeff")
