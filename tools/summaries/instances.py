"""The collectives of all ranks, one row per instance, built from one rank's table after the other.

An instance is one collective as several ranks recorded it: equal group, members, kind and step, the same place among
as many of them, and equal bytes where the kind has the same on all ranks (as ``views.communication.collectives`` does).
Whether all ranks were in it at one moment is not asked: summaries of different hosts are not on one clock. Memory
grows with the instances and not with the ranks: a group of 10,000 ranks has one row where the ranks have 10,000.

Two passes: ``add`` finds the shortest duration of every instance and whose it is (the last to arrive); with
``exposed_waits`` the same tables again say how long each rank did nothing but wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import IntervalSet, covered
from tools.views.communication.collectives import KIND as POINT_TO_POINT
from tools.views.communication.collectives import PLACE, SAME_BYTES

FIRST_ROWS = 1 << 12
NOBODY = -1
LONGEST = np.iinfo(np.int64).max
MOST_TEXTS = 1 << 31
MOST_CODES = 1 << 16  # more different places are found by sorting
MOST_STEPS = 1 << 12
TEXTS = ("group", "members", "kind")
NUMBERS = ("step", "sequence", "start_ns", "end_ns")


class Place(NamedTuple):
    """What, with the sequence number, names an instance; texts as numbers of ``Instances``."""

    group: int
    members: int
    kind: int
    part: int  # place of the trace among those of its rank where steps are not numbered by the profiler, else 0
    step: int


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of one rank's table that are matched: their instance, duration and start, in the table's order."""

    instance: NDArray[np.int64]
    chosen: NDArray[np.bool_]
    start: NDArray[np.int64]
    duration: NDArray[np.int64]


class Instances:
    """One row per instance: ranks seen, shortest duration and whose it is, sum of durations, exposed waiting."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._places: dict[Place, int] = {}
        self._first: list[int] = []  # by place: its first instance, how many it has, whether all ranks have as many
        self._sizes: list[int] = []
        self._alike: list[bool] = []
        self.size = 0
        self._ranks = np.zeros(FIRST_ROWS, dtype=np.int32)
        self._shortest = np.full(FIRST_ROWS, LONGEST)
        self._last = np.full(FIRST_ROWS, NOBODY)
        self._start = np.zeros(FIRST_ROWS, dtype=np.int64)
        self._total = np.zeros(FIRST_ROWS, dtype=np.int64)
        self._bytes = np.full((FIRST_ROWS, 2), LONGEST)  # smallest, and smallest of the negated: the largest
        self._exposed = np.zeros(FIRST_ROWS, dtype=np.int64)

    def add(self, rank: int, table: pd.DataFrame, origin_ns: int = 0, part: int = 0) -> None:
        """Enter the collectives of a rank (``collectives`` of its summary); ``origin_ns``: zero of its times."""
        rows = self._rows(table, part, known=False)
        at, duration, start = rows.instance, rows.duration, rows.start + origin_ns
        sooner = (duration < self._shortest[at]) | ((duration == self._shortest[at]) & (start > self._start[at]))
        mine = at[sooner]
        self._shortest[mine], self._start[mine], self._last[mine] = duration[sooner], start[sooner], rank
        self._ranks[at] += 1
        self._total[at] += duration
        kinds = table["kind"].array
        same = np.array([kind in SAME_BYTES for kind in kinds.categories.tolist()])[kinds.codes[rows.chosen]]
        size = np.where(same, table["bytes"].to_numpy()[rows.chosen], 0)
        self._bytes[at] = np.minimum(self._bytes[at], np.stack((size, -size), axis=1))

    def exposed_waits(self, table: pd.DataFrame, exposed: IntervalSet, part: int = 0) -> int:
        """Sum in ns of a rank's exposed waiting for the last ranks, after all ranks were added; entered as well."""
        rows = self._rows(table, part, known=True)
        wait = np.where(self.matched[rows.instance], rows.duration - self._shortest[rows.instance], 0)
        waited = covered(exposed, rows.start, rows.start + wait)
        self._exposed[rows.instance] += waited
        return int(waited.sum())

    @cached_property
    def matched(self) -> NDArray[np.bool_]:
        """Of every instance whether several ranks agree on it; for after all ranks were added."""
        alike = np.repeat(np.array(self._alike, dtype=bool), self._sizes)
        low, negated = self._bytes[: self.size].T
        return np.asarray(alike & (self._ranks[: self.size] > 1) & (low == -negated))

    def table(self) -> pd.DataFrame:
        """One row per matched instance.

        Columns: place, group (number for ``group_name``), step, part, ranks (how many), last_rank, shortest_ns,
        mean_ns, caused_ns (exposed waiting, mean over the ranks that waited, as in ``views.communication.arrivals``).
        """
        good = np.flatnonzero(self.matched)
        place = np.repeat(np.arange(len(self._sizes)), self._sizes)[good]
        ranks = self._ranks[good]
        columns = np.array([(each.group, each.members, each.part, each.step) for each in self._places])
        group, members, part, step = (columns if len(columns) else np.zeros((0, 4), dtype=np.int64))[place].T
        return pd.DataFrame(
            {
                "place": place,
                "group": group * MOST_TEXTS + members,
                "part": part,
                "step": step,
                "ranks": ranks,
                "last_rank": self._last[good],
                "shortest_ns": self._shortest[good],
                "mean_ns": self._total[good] / ranks,
                "caused_ns": self._exposed[good] / (ranks - 1),
            }
        )

    def known(self, table: pd.DataFrame) -> pd.DataFrame:
        """What all ranks together say of a rank's collectives: one row for each that is matched.

        Columns: group, members, kind, step, sequence (which name it in the rank's table), instance (a number), seen
        (how many ranks), last_rank, shortest_ns.
        """
        rows = self._rows(table, 0, known=True)
        matched = self.matched[rows.instance]
        at = rows.instance[matched]
        named = table.loc[rows.chosen, [*PLACE, "sequence"]][matched].astype({name: "str" for name in TEXTS})
        return named.assign(
            instance=at, seen=self._ranks[at], last_rank=self._last[at], shortest_ns=self._shortest[at]
        ).reset_index(drop=True)

    def groups_of(self, table: pd.DataFrame) -> set[int]:
        """The groups, numbered as in ``table``, that a rank's collectives are of."""
        named = [table[name].array for name in ("group", "members")]
        group, members = (self._numbers(each.categories.tolist())[each.codes] for each in named)
        return {int(each) for each in np.unique(group * MOST_TEXTS + members)}

    def _rows(self, table: pd.DataFrame, part: int, *, known: bool) -> _Rows:
        """The instance of each row; places are entered unless they are ``known``."""
        named = [table[name].array for name in TEXTS]
        texts = [each.categories.tolist() for each in named]
        left_out = texts[-1].index(POINT_TO_POINT) if POINT_TO_POINT in texts[-1] else NOBODY
        wanted = (named[-1].codes != left_out) & (table["step"].to_numpy() >= 0)
        step, sequence, start, end = (table[name].to_numpy()[wanted] for name in NUMBERS)
        codes = [each.codes[wanted] for each in named]
        from_zero, steps = _from_zero(step)
        sizes = [max(len(each), 1) for each in texts]
        first, place, counts = _distinct([*codes, from_zero], [*sizes, steps])
        numbers = [self._numbers(each)[own[first]].tolist() for each, own in zip(texts, codes, strict=True)]
        keys = map(Place, *numbers, repeat(part), step[first].tolist())
        offsets = np.array([self._first_of(*each, known) for each in zip(keys, counts.tolist(), strict=True)])
        offset = offsets[place] if len(place) else place
        fits = (offset >= 0) & (sequence >= 0) & (sequence < counts[place])
        wanted[wanted] = fits
        return _Rows((offset + sequence)[fits], wanted, start[fits], (end - start)[fits])

    def _first_of(self, key: Place, count: int, known: bool) -> int:
        """The first instance of a place; ``NOBODY`` where other ranks have another number of them there."""
        found = self._places.get(key)
        if found is not None:
            self._alike[found] &= self._sizes[found] == count or known
            return self._first[found] if self._sizes[found] == count else NOBODY
        if known:
            return NOBODY
        self._places[key] = len(self._sizes)
        self._first.append(self.size)
        self._sizes.append(count)
        self._alike.append(True)
        self.size += count
        self._grow()
        return self.size - count

    def _grow(self) -> None:
        have = len(self._ranks)
        if self.size <= have:
            return
        more = max(have, self.size - have)
        self._ranks, self._start, self._total, self._exposed = (
            np.concatenate((each, np.zeros(more, dtype=each.dtype)))
            for each in (self._ranks, self._start, self._total, self._exposed)
        )
        self._shortest = np.concatenate((self._shortest, np.full(more, LONGEST)))
        self._last = np.concatenate((self._last, np.full(more, NOBODY)))
        self._bytes = np.concatenate((self._bytes, np.full((more, 2), LONGEST)))

    def _numbers(self, texts: Sequence[str]) -> NDArray[np.int64]:
        return np.array([self._texts.setdefault(text, len(self._texts)) for text in texts], dtype=np.int64)


def _distinct(codes: Sequence[NDArray[np.integer]], sizes: Sequence[int]) -> tuple[NDArray[np.int64], ...]:
    """Of the distinct rows of the columns, which hold numbers from 0 up to ``sizes``: a row of each; for every row its
    place among them; and how many rows each has."""
    code = np.zeros(len(codes[0]), dtype=np.int64)
    for column, size in zip(codes, sizes, strict=True):
        code = code * size + column
    if math.prod(sizes) > MOST_CODES:
        _, first, place, counts = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
        return first, place, counts
    counts = np.bincount(code, minlength=math.prod(sizes))
    used = np.flatnonzero(counts)
    first = np.empty(len(counts), dtype=np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    place = np.cumsum(counts > 0) - 1
    return first[used], place[code], counts[used]


def _from_zero(step: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Steps as numbers from 0, and how many there may be of them."""
    if not len(step):
        return step, 1
    low, high = int(step.min()), int(step.max())
    if high - low < MOST_STEPS:
        return step - low, high - low + 1
    values, own = np.unique(step, return_inverse=True)
    return own, len(values)
