"""A statement's text cut into free words and slots: ``{rank:1} waits {E14} for data``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

SlotKind = Literal["evidence", "advice", "case", "rank", "step", "cause", "name", "open", "verdict", "than"]
BRACES = re.compile(r"\{([^{}]*)\}")
FORMS: tuple[tuple[SlotKind, re.Pattern[str]], ...] = (
    ("evidence", re.compile(r"(E[1-9][0-9]{0,5})()")),
    ("advice", re.compile(r"(A[1-9][0-9]{0,3})(?::(how|risk|verify))?")),
    ("case", re.compile(r"(C[1-9][0-9]{0,3})()")),
    ("rank", re.compile(r"rank:([0-9]{1,7})()")),
    ("step", re.compile(r"step:([0-9]{1,9})()")),
    ("cause", re.compile(r"cause(?::([a-z_]+(?::[a-z_]+)?))?()")),
    ("open", re.compile(r"open:([a-z_.]+)()")),
    ("name", re.compile(r"name:([^\n]{1,200})()")),
    ("verdict", re.compile(r"(verdict)()")),
    ("than", re.compile(r"(than)()")),
)
MARK = re.compile(r"([.;?!](?=\s|$)|[,:()])")
BEFORE, AFTER = " (\"'", " ),.;:?!\"'"


@dataclass(frozen=True)
class Slot:
    """One slot; ``value`` is an id, a number in digits or a name, ``field`` the part of an advice."""

    kind: SlotKind
    value: str
    field: str = ""


@dataclass(frozen=True)
class Template:
    """Free words and slots in order; ``faults`` say which slots cannot be read."""

    parts: tuple[str | Slot, ...]
    faults: tuple[str, ...] = ()

    @property
    def free(self) -> str:
        """The words between the slots."""
        return " ".join(part for part in self.parts if isinstance(part, str))

    def values(self, *kinds: SlotKind) -> list[str]:
        """The values of the slots of these kinds, in order."""
        return [part.value for part in self.parts if isinstance(part, Slot) and part.kind in kinds]

    @property
    def figure(self) -> str | None:
        """The id of the first figure."""
        return next(iter(self.values("evidence")), None)

    def segments(self) -> list[Template]:
        """The stretch of each figure, cut at ends of sentences and at the first mark or ``{than}`` behind a figure.

        Without such a mark the words between two figures belong to the second.
        """
        cut: list[list[str | Slot]] = [[]]
        for atom in self._atoms():
            complete = Template(tuple(cut[-1])).figure
            mark = atom.strip() if isinstance(atom, str) else f"{{{atom.kind}}}"
            if (mark and mark in ".;?!") or (complete and mark and mark in ",:()"):
                cut.append([])
            elif complete and mark == "{than}":
                cut.append([atom])
            elif complete and mark == "{evidence}":
                place = cut[-1].index(Slot("evidence", complete)) + 1
                cut.append([*cut[-1][place:], atom])
                del cut[-2][place:]
            else:
                cut[-1].append(atom)
        return [Template(tuple(parts)) for parts in cut if any(str(part).strip() for part in parts)]

    def _atoms(self) -> Iterator[str | Slot]:
        """Slots, marks and the words between them."""
        for part in self.parts:
            yield from [part] if isinstance(part, Slot) else MARK.split(part)


def parsed(text: str, cause: str | None) -> Template:
    """The text cut into parts; ``{cause}`` alone stands for the statement's own cause."""
    parts: list[str | Slot] = []
    faults: list[str] = []
    place = 0
    for match in BRACES.finditer(text):
        parts.append(text[place : match.start()])
        place = match.end()
        slot = _slot(match.group(1).strip(), cause)
        if slot is None:
            faults.append(f"there is no slot {{{match.group(1)[:60]}}}")
            continue
        before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        if (before and before not in BEFORE) or (after and after not in AFTER):
            faults.append(f"the slot {{{match.group(1)[:60]}}} has to stand alone between words")
        parts.append(slot)
    parts.append(text[place:])
    return Template(tuple(part for part in parts if part), tuple(faults))


def _slot(text: str, cause: str | None) -> Slot | None:
    for kind, form in FORMS:
        if (match := form.fullmatch(text)) is not None:
            value = match[1] or cause or ""
            return Slot(kind, value, match[2] or "") if value else None
    return None
