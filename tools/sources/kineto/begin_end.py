"""Durations that a Chrome trace gives as two events, a begin (``B``) and an end (``E``), joined into one row each.

On one thread they nest: an end closes the innermost open begin, or the innermost one of its own name where it has a
name (Trace Event Format, "Duration Events").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

END = -1  # in the place of a row


@dataclass
class Edges:
    """Begins and ends in the order of the file; ``name`` is "" where an end has none."""

    rows: list[int] = field(default_factory=list)  # of a begin its row, of an end END
    times_ns: list[int] = field(default_factory=list)
    tracks: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, rows: Sequence[int], times_ns: Sequence[int], tracks: Sequence[int], names: Sequence[str]) -> None:
        """Append edges."""
        self.rows += rows
        self.times_ns += times_ns
        self.tracks += tracks
        self.names += names

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Pairs:
    """Rows whose end was found, with its time; rows that stay open; and the number of ends without a begin."""

    rows: NDArray[np.int64]
    ends_ns: NDArray[np.int64]
    open_rows: NDArray[np.int64]
    lone_ends: int


def pair(edges: Edges) -> Pairs:
    """Join the edges thread by thread in order of time; where times are equal the order of the file holds."""
    order = np.argsort(np.array(edges.times_ns, dtype=np.int64), kind="stable").tolist()
    open_on: dict[int, list[tuple[int, str]]] = defaultdict(list)
    rows, ends, left_open, lone = [], [], [], 0
    for at in order:
        stack = open_on[edges.tracks[at]]
        if edges.rows[at] != END:
            stack.append((edges.rows[at], edges.names[at]))
            continue
        place = _innermost(stack, edges.names[at])
        if place < 0:
            lone += 1
            continue
        left_open += [row for row, _ in stack[place + 1 :]]  # an outer one ended: their own ends are lost
        rows.append(stack[place][0])
        ends.append(edges.times_ns[at])
        del stack[place:]
    left_open += [row for stack in open_on.values() for row, _ in stack]
    whole = np.int64
    return Pairs(np.array(rows, whole), np.array(ends, whole), np.array(left_open, whole), lone)


def _innermost(stack: list[tuple[int, str]], name: str) -> int:
    """The place in the stack of what an end with that name closes; -1 where nothing is open under it."""
    return next((at for at in range(len(stack) - 1, -1, -1) if not name or stack[at][1] in ("", name)), -1)
