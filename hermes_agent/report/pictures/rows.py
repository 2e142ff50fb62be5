"""Rows and columns that fit a picture: of many ranks the groups or the outliers, of many steps bins of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hermes_agent.model.diagnosis import BreakdownRow, Diagnosis
from hermes_agent.model.display import counted, span_list
from hermes_agent.model.run_record import RankGroupRecord
from hermes_agent.report.pictures.data import (
    MOST_RANKS,
    Heat,
    StepPoint,
    StepTimes,
    binned,
    chosen_ranks,
    means_of,
    part_ms,
    rank_figures,
)
from hermes_agent.report.pictures.palette import PARTS

LEAST_RANGE = 0.05  # of the largest value: shades never spread noise over the whole scale


@dataclass(frozen=True)
class Bar:
    """A mean step in ms by part, in the order of ``PARTS``; of one rank or of several."""

    label: str
    parts: tuple[float, ...]
    step_ms: float


def bars(diagnosis: Diagnosis) -> tuple[Bar, ...]:
    """Return a bar per rank; of many ranks per group, or the outliers and the median of the others."""
    if diagnosis.run.screening is not None and diagnosis.run.screening.groups:
        return _distinct([_group(group) for group in diagnosis.run.screening.groups[:MOST_RANKS]])
    rows = means_of(diagnosis)
    if len(rows) <= MOST_RANKS:
        return tuple(Bar(f"rank {row.rank}", part_ms(row), row.wall_ms) for row in rows)
    outliers = set(chosen_ranks({row.rank: part_ms(row) for row in rows}).outliers)
    return (
        *(Bar(f"rank {row.rank}", part_ms(row), row.wall_ms) for row in rows if row.rank in outliers),
        _middle([row for row in rows if row.rank not in outliers]),
    )


def _group(group: RankGroupRecord) -> Bar:
    stage = "" if group.stage is None else f", stage {group.stage}"
    parts = tuple(group.medians_ms[part] for part in PARTS)
    return Bar(f"{span_list(group.ranks)}{stage}", parts, group.medians_ms["wall"])


def _distinct(found: Sequence[Bar]) -> tuple[Bar, ...]:
    """The bars with a number behind a label that several have: scattered groups may be named by the same span."""
    labels = Counter(bar.label for bar in found)
    return tuple(
        replace(bar, label=f"{bar.label}, group {place}") if labels[bar.label] > 1 else bar
        for place, bar in enumerate(found, start=1)
    )


def _middle(rows: list[BreakdownRow]) -> Bar:
    """The rank with the median step: medians of the parts would not add up to a step."""
    row = sorted(rows, key=lambda each: each.wall_ms)[len(rows) // 2]
    return Bar(f"{counted(len(rows), 'other rank')} (as {row.rank})", part_ms(row), row.wall_ms)


@dataclass(frozen=True)
class Grid:
    """Values in ms by row (ranks) and column (steps); NaN where a rank has no such step."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    binned: bool  # a cell stands for several steps or ranks and shows the longest

    def level(self, value: float, levels: int) -> int:
        """The shade of a value, 0 for the shortest."""
        low, span = self._scale()
        return min(int((value - low) / span * levels), levels - 1) if span > 0 else 0

    def limit_ms(self, level: int, levels: int) -> float:
        """The least value of a shade."""
        low, span = self._scale()
        return low + span * level / levels

    def _scale(self) -> tuple[float, float]:
        known = [value for row in self.values for value in row if value == value]
        low, high = min(known), max(known)
        return low, max(high - low, LEAST_RANGE * high)


def grid(heat: Heat, most_columns: int) -> Grid:
    """Return each rank by step; of many ranks the outliers, and the longest of the others."""
    numbers = {rank: place for place, rank in enumerate(heat.ranks)}
    places = {step: place for place, step in enumerate(heat.steps)}
    table = np.full((len(numbers), len(places)), np.nan)
    for (rank, step), value in heat.values.items():
        table[numbers[rank], places[step]] = value
    labels = [f"rank {rank}" for rank in heat.ranks]
    ranks_merged = len(numbers) > MOST_RANKS
    if ranks_merged:
        chosen = np.array([numbers[rank] for rank in chosen_ranks(rank_figures(heat)).outliers])
        others = np.setdiff1d(np.arange(len(table)), chosen)
        labels = [*(labels[place] for place in chosen), f"{len(others):,} others"]
        table = np.vstack([table[chosen], _longest(table[others], 0)[None, :]])
    bins = binned(len(places), most_columns)
    columns = tuple(_span(heat.steps[each[0]], heat.steps[each[-1]]) for each in bins)
    values = np.stack([_longest(table[:, each.start : each.stop], 1) for each in bins], axis=1)
    merged = ranks_merged or len(bins) < len(places)
    return Grid(tuple(labels), columns, tuple(map(tuple, values.tolist())), merged)


def _longest(table: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """The largest known value along an axis, NaN where none is known."""
    largest = np.where(np.isnan(table), -np.inf, table).max(axis=axis)
    return np.asarray(np.where(np.isneginf(largest), np.nan, largest))


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


@dataclass(frozen=True)
class Column:
    """The longest of the steps that a column stands for."""

    label: str
    longest: StepPoint


def columns(times: StepTimes, most: int) -> tuple[Column, ...]:
    """Return the steps in order, at most so many columns."""
    found = []
    for each in binned(len(times.points), most):
        points = times.points[each.start : each.stop]
        longest = max(points, key=lambda point: point.ms)
        found.append(Column(_span(points[0].step, points[-1].step), longest))
    return tuple(found)
