"""Names and lines that were read from a run, as sentences quote them: verbatim where that is harmless."""

from __future__ import annotations

import re

NAME_LIMIT = 80
READ_AT_MOST = 4 * NAME_LIMIT
# What reads as a citation of evidence (``[E12]``) or, where a frontend drops the back quotes, as a link.
MARK = re.compile(r"\[\s*[EAC]\d|\]\s*[(:]")


def quoted(name: str) -> str:
    """A name read from a run in back quotes, bounded, without control characters and back quotes of its own.

    Square brackets stay, so that the text can be searched for in the file, but where they would read as a mark.
    """
    text = name[:READ_AT_MOST]
    text = " ".join("".join(char if char.isprintable() else " " for char in text).split()).replace("`", "'")
    if MARK.search(text):
        text = text.replace("[", "(").replace("]", ")")
    return f"`{text if len(text) <= NAME_LIMIT else text[: NAME_LIMIT - 1] + '…'}`"
