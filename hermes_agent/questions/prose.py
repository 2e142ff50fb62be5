"""Words for answers: everything that is quoted is cleaned and carries its source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hermes_agent.evidence.printable import printable

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(]?[A-Z`*])")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def ordinal(place: int) -> str:
    """``first`` for place 0."""
    return ORDINALS[place] if place < len(ORDINALS) else f"{place + 1}th"


def paragraph(parts: Iterable[str]) -> str:
    """The sentences that are not empty, one after the other."""
    return " ".join(part for part in parts if part)


def blocks(parts: Iterable[str]) -> str:
    """The parts that are not empty, as Markdown paragraphs."""
    return "\n\n".join(part for part in parts if part)


def bullets(items: Iterable[str]) -> str:
    """A Markdown list."""
    return "\n".join(f"- {item}" for item in items if item)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [[cell.replace("|", r"\|") for cell in line] for line in (columns, ["---"] * len(columns), *rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def listed(items: Sequence[str], link: str = "and") -> str:
    """``a``, ``a and b`` or ``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {link} {items[-1]}"


def span(noun: str, numbers: Iterable[int]) -> str:
    """``step 3`` or ``steps 3 to 9``: the first and the last of the numbers."""
    known = sorted(numbers)
    return f"{noun} {known[0]}" if known[0] == known[-1] else f"{noun}s {known[0]} to {known[-1]}"


def capital(text: str) -> str:
    """The text with its first letter large."""
    return text[:1].upper() + text[1:]


def quoted_from(text: str, identifier: str) -> str:
    """Words of an advice or a case, cited after every sentence."""
    return paragraph(f"{each.rstrip('.')} [{identifier}]." for each in SENTENCE_END.split(unbracketed(text)) if each)


def general(text: str) -> str:
    """A reason or a sign in general words, without a full stop."""
    return unbracketed(text).rstrip(". ")


def unbracketed(text: str) -> str:
    """Text from outside on one line: nothing that does not print, no citation marks."""
    return " ".join(printable(text).replace("[", "(").replace("]", ")").split())
