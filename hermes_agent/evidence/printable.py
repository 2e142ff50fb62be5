"""Text from outside made safe to print: what a terminal, an editor or a JSON reader could take for a command."""

from __future__ import annotations


def printable(text: str, limit: int | None = None) -> str:
    """The text, cut to ``limit``, with a blank for every escape code, line end or direction mark."""
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)
