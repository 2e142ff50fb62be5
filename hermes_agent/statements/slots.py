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
MARK = re.compile(r"[,;:()]")
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

    def segments(self) -> list[Segment]:
        """The stretch of each figure, cut at ends of sentences and at the first comma or ``{than}`` behind a figure.

        Without such a mark the words between two figures belong to the second.
        """
        result: list[Segment] = []
        for sentence in self._sentences():
            cut: list[list[str | Slot]] = [[]]
            for part in sentence:
                complete = any(isinstance(each, Slot) and each.kind == "evidence" for each in cut[-1])
                if complete and isinstance(part, Slot) and part.kind == "than":
                    cut.append([part])
                elif complete and isinstance(part, str) and (mark := MARK.search(part)):
                    cut[-1].append(part[: mark.start()])
                    cut.append([part[mark.end() :]])
                elif complete and isinstance(part, Slot) and part.kind == "evidence":
                    cut.append([*_after_figure(cut[-1]), part])
                else:
                    cut[-1].append(part)
            result += [Segment(tuple(parts)) for parts in cut if any(part != " " for part in parts)]
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

    def causes(self) -> list[str]:
        """The causes named."""
        return [part.value for part in self.parts if isinstance(part, Slot) and part.kind == "cause"]

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
        if (before and before not in BEFORE) or (after and after not in AFTER):
            faults.append(f"the slot {{{match.group(1)[:60]}}} has to stand alone between words")
        parts.append(slot)
    parts.append(text[place:])
    return Template(tuple(part for part in parts if part), tuple(faults))


def _after_figure(parts: list[str | Slot]) -> list[str | Slot]:
    """What stands behind the figure of a stretch, taken out of it."""
    place = next(i for i, part in enumerate(parts) if isinstance(part, Slot) and part.kind == "evidence")
    rest = parts[place + 1 :]
    del parts[place + 1 :]
    return rest


def _slot(text: str, cause: str | None) -> Slot | None:
    for kind, form in FORMS:
        if (match := form.fullmatch(text)) is not None:
            value = match[1] or cause or ""
            return Slot(kind, value, match[2] or "") if value else None
    return None
