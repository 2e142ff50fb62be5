"""Words for answers: everything that is quoted is cleaned and carries its source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hermes_agent.evidence.ledger import quoted
from hermes_agent.evidence.printable import printable

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(]?[A-Z`*])")
LINE_CHARS, SHORTEST_NAME = 80, 16
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


def row_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, ends: bool = False) -> str:
    """A Markdown table of at most 80 characters a line: the last column holds names of the run, cut in the middle.

    With ``ends`` only the end of a long name is kept, as of a file's path.
    """
    used = sum(max(len(row[place]) for row in (columns, *rows)) for place in range(len(columns) - 1))
    width = max(LINE_CHARS - used - 3 * len(columns) - 3, SHORTEST_NAME)
    return table(columns, [[*row[:-1], quoted(shortened(row[-1], width, ends)) if row[-1] else ""] for row in rows])


def shortened(name: str, width: int, ends: bool = False) -> str:
    """A name longer than ``width`` with a part left out after two thirds, its arguments before; or only its end."""
    name = " ".join(name.split())
    name = name if len(name) <= width else without_arguments(name)
    end = width - 1 if ends else (width - 1) // 3
    return name if len(name) <= width else f"{name[: width - 1 - end]}…{name[-end:]}"


def without_arguments(name: str) -> str:
    """A C++ name without its result, its anonymous namespaces and its argument list."""
    bare = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    return bare.partition("(")[0] if bare.endswith(")") and not bare.startswith("(") else bare


def milliseconds(value: float | None) -> str:
    """``1.52``: a figure of a row for a column that names its unit; empty where there is none."""
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}" if abs(value) >= 1 else f"{value:.3g}"


def article(noun: str) -> str:
    """``a kernel``, ``an operator``."""
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"


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
