"""Words for answers: everything that is quoted carries its source, so that the verifier can read it back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hermes_agent.evidence.verifier import Grounds, sentences, verify

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


def capital(text: str) -> str:
    """The text with its first letter large."""
    return text[:1].upper() + text[1:]


def quoted_from(text: str, identifier: str, grounds: Grounds) -> str:
    """Words of an advice or a case, cited after every sentence; in back quotes where they speak of other ranks."""
    result = []
    for sentence in sentences(_unbracketed(text)):
        bare = sentence.rstrip(".")
        candidates = (f"{bare} [{identifier}].", f"`{bare.replace('`', '')}` [{identifier}].")
        result.append(next((each for each in candidates if not verify(each, grounds)), ""))
    return paragraph(result)


def general(text: str, grounds: Grounds, show: str) -> str:
    """A reason or a sign in general words, without a full stop.

    It may hold figures that are settings, not measurements: those go into back quotes. Where even that could be
    mistaken for a measurement, ``show`` says where to read it.
    """
    bare = _unbracketed(text).rstrip(". ")
    for candidate in (bare, f"`{bare.replace('`', '')}`"):
        if not verify(f"{candidate}.", grounds):
            return candidate
    return f"see `show {show}`"


def _unbracketed(text: str) -> str:
    return " ".join(text.replace("[", "(").replace("]", ")").split())
