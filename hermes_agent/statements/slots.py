"""A statement's text cut into free words and slots: ``{rank:1} waits {E14} for data``."""

from __future__ import annotations

import re
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
SENTENCE_END = re.compile(r"(?<=[.;?!])\s+")
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

    def slots(self, kind: SlotKind) -> list[Slot]:
        """The slots of a kind, in order."""
        return [part for part in self.parts if isinstance(part, Slot) and part.kind == kind]

    def segments(self) -> list[Segment]:
        """The stretches up to each figure, cut at ends of sentences; what follows the last figure belongs to it."""
        result: list[Segment] = []
        for sentence in self._sentences():
            cut: list[list[str | Slot]] = [[]]
            for part in sentence:
                cut[-1].append(part)
                if isinstance(part, Slot) and part.kind == "evidence":
                    cut.append([])
            if len(cut) > 1:
                cut[-2] += cut.pop()
            result += [Segment(tuple(parts)) for parts in cut]
        return result

    def _sentences(self) -> list[list[str | Slot]]:
        cut: list[list[str | Slot]] = [[]]
        for part in self.parts:
            if isinstance(part, Slot):
                cut[-1].append(part)
                continue
            first, *rest = SENTENCE_END.split(part)
            cut[-1].append(first)
            cut += [[each] for each in rest]
        return cut


@dataclass(frozen=True)
class Segment:
    """The words and slots that belong to one figure, or a text without any."""

    parts: tuple[str | Slot, ...]

    @property
    def free(self) -> str:
        """The words."""
        return " ".join(part for part in self.parts if isinstance(part, str))

    @property
    def figure(self) -> str | None:
        """The id of the figure."""
        return next((part.value for part in self.parts if isinstance(part, Slot) and part.kind == "evidence"), None)

    def numbers(self, kind: SlotKind) -> frozenset[int]:
        """The ranks or steps named."""
        return frozenset(int(part.value) for part in self.parts if isinstance(part, Slot) and part.kind == kind)


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
        if before and before not in BEFORE or after and after not in AFTER:
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
