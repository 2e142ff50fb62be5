"""Text from outside made safe to print: what a terminal, an editor or a JSON reader could take for a command."""

from __future__ import annotations


def printable(text: str, limit: int | None = None) -> str:
    """The text with every character that does not print as itself replaced by a space, cut to ``limit`` characters.

    That covers escape codes, line ends, marks that change the direction of writing, invisible characters and halves
    of surrogate pairs (from names of files that are no UTF-8).
    """
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)
