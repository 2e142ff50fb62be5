"""An answer in one short paragraph: its first one with a figure, and the head of a list or table that it introduces."""

from __future__ import annotations

import re

from hermes_agent.evidence.citations import cited_ids, sentences
from hermes_agent.questions.prose import blocks

MOST_SENTENCES = 4
MOST_LINES = 3  # of a list, rows of a table
MOST_BLOCKS = 3  # looked through for a figure
READING = re.compile(r"^(?:Understood (?:from \w+ )?as |Read as )")


def without_reading(text: str) -> str:
    """An answer without the paragraph that says how its question was understood."""
    first, _, rest = text.partition("\n\n")
    return rest if READING.match(first) and rest else text


def in_short(text: str) -> str:
    """The beginning of an answer up to its first paragraph with a figure; all of it where that is short."""
    taken = list[str]()
    for block in without_reading(text).split("\n\n")[:MOST_BLOCKS]:
        introduced = bool(taken) and taken[-1].endswith(":")
        taken.append(_head(block))
        if introduced or (cited_ids(block) and not block.endswith(":")):
            break
    return blocks(taken)


def _head(block: str) -> str:
    """The first sentences of a paragraph, the first lines of a list, the first rows of a table."""
    lines = block.splitlines()
    if lines[0].startswith(("- ", "| ")):
        return "\n".join(lines[: MOST_LINES + 2 * lines[0].startswith("| ")])
    kept = sentences(lines[0])
    first = " ".join(kept[:MOST_SENTENCES]) if len(kept) > MOST_SENTENCES else lines[0]
    return "\n".join([first, *lines[1 : 1 + MOST_LINES]])
