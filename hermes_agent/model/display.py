"""Display names of causes, families, parts of a step and scopes, for all frontends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tools.knowledge.taxonomy import Name, causes

FAMILY_TITLES = {
    "parallel": "overlap and critical path",
    "io": "data input",
    "cpu": "host program",
    "computation": "computation",
    "communication": "communication",
    "memory": "memory",
    "storage": "storage",
}

PART_TITLES = {
    "compute": "computation",
    "exposed_communication": "exposed communication",
    "exposed_memcpy": "exposed copies",
    "data_wait": "data wait",
    "host": "host",
    "idle": "idle with queued kernels",
}
PLACE_TITLES = {**PART_TITLES, "step": "whole step"}  # of leads: records alone do not show the parts of a step


def plain(identifier: str) -> str:
    """An id of the taxonomy in words."""
    return identifier.replace("_", " ")


def cause_title(cause: str, mechanism: str | None) -> str:
    """A cause within a sentence, by its mechanism where one is known: ``heavy data transforms``."""
    return _name(cause, mechanism).phrase


def cause_heading(cause: str, mechanism: str | None) -> str:
    """The same as a heading: ``Heavy data transforms``."""
    return _name(cause, mechanism).title


def costs(cause: str, mechanism: str | None) -> str:
    """``cost`` or ``costs``, as the cause is named in the plural or the singular."""
    return "cost" if _name(cause, mechanism).plural else "costs"


def _name(cause: str, mechanism: str | None) -> Name:
    known = causes().get(cause)
    title = plain(mechanism or cause)
    return known.called(mechanism) if known else Name(title.capitalize(), title)


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 rank``, ``2 ranks``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def numbered(noun: str, numbers: Iterable[int], most: int = 8) -> str:
    """``rank 3``, ``ranks 0, 1 and 4``, ``ranks 0 to 7``, or how many where there are more than ``most``."""
    known = sorted(numbers)
    if len(known) == 1:
        return f"{noun} {known[0]}"
    if len(known) > 2 and known == list(range(known[0], known[-1] + 1)):
        return f"{noun}s {known[0]} to {known[-1]}"
    if len(known) > most:
        return f"{len(known)} {noun}s"
    return f"{noun}s {', '.join(str(number) for number in known[:-1])} and {known[-1]}"


def rank_list(ranks: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0, 1 and 4`` or ``ranks 0 to 7``."""
    return numbered("rank", ranks, most=1000)


def on_ranks(ranks: Sequence[int], all_ranks: Sequence[int]) -> str:
    """`` on rank 1``; empty when it is all ranks."""
    if not ranks or set(ranks) == set(all_ranks):
        return ""
    return f" on {rank_list(ranks)}"
