"""Names of a run's hosts in a sentence: a number in such a name is no figure, and a host must exist."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

NAME = re.compile(r"(?<![\w.-])[A-Za-z][\w.-]*\w", re.ASCII)  # a figure never begins with a letter
DIGITS = re.compile(r"\d+", re.ASCII)


@dataclass(frozen=True)
class Hosts:
    """The hosts of a run: their names, and how they are written, that is with every number in them as 0."""

    names: frozenset[str] = frozenset()
    shapes: frozenset[str] = frozenset()

    @classmethod
    def named(cls, names: Iterable[str]) -> Hosts:
        """Of these names, those that can be told from words and figures: they begin with a letter and hold a digit."""
        told = frozenset(name for name in names if NAME.fullmatch(name) and DIGITS.search(name))
        return cls(told, frozenset(map(_shape, told)))

    def taken_from(self, prose: str) -> tuple[str, tuple[str, ...]]:
        """The prose without hosts, and what in it is written as the run's hosts are but is none of them."""
        found = [match for match in NAME.finditer(prose) if _shape(match.group(0)) in self.shapes]
        for match in reversed(found):
            prose = f"{prose[: match.start()]} {prose[match.end() :]}"
        return prose, tuple(match.group(0) for match in found if match.group(0) not in self.names)


def _shape(name: str) -> str:
    return DIGITS.sub("0", name)
