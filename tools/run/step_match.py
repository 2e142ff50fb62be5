"""The steps of two sources matched with each other: how far apart their clocks are, and how far off that may be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.run.recorded.counters import SampleClock

LEAST_MATCHED = 4  # steps with a time in both sources: fewer fit anywhere
LEAST_LENGTHS = 8  # the same by their lengths alone, which no time of day confirms
PROBES = 32  # steps of the source with fewer of them that are tried at every place of the other
MOST_PLACES = 1 << 16  # to either side of equal step numbers are tried
WIDEST = 1 << 24  # from the first to the last step number: 128 MiB of times by number
LARGEST = 1 << 53  # a step number: sums of these stay exact
PLACES_AT_ONCE = 1 << 13  # 32 probes of 8 bytes: 2 MiB
COMPARED = 0.75  # of the most steps that meet anywhere: fewer agree more easily
RIVAL = 2.0  # places with up to so many times the smallest spread fit as well: in 32 steps that is noise
TAIL_PCT = 5.0  # left out at either end of the differences: a line that waited for a disk says nothing of the clock
LARGEST_RESIDUAL_NS = 2e9  # above, a figure of one source cannot be placed in a step of the other
EXPLAINED = 0.1  # of the variance of the lengths may be left where they alone place the steps
SMALLEST_NS = 1e6  # two clocks are not compared more closely: what is printed is printed after the step
SECOND_NS = 1e9
LEAST_ENDS = 3  # a trace of three steps is usual
NEXT_TO = 0.25  # of a step: ends that lie so close are of the same step
MET = 0.75  # of the steps that both cover: a source may leave out some, such as the one that writes a trace
AGREED = 0.9  # of the steps give the same difference of numbers


@dataclass(frozen=True, eq=False)
class TimedSteps:
    """The steps of one source in rising order: numbers, ends in ns on its ``clock`` and lengths in ms, NaN unknown.

    ``begin_ns`` is that of the training where it is not that of the first of these steps, minus infinity unknown.
    """

    source: str
    clock: SampleClock
    numbers: NDArray[np.int64]
    end_ns: NDArray[np.float64]
    wall_ms: NDArray[np.float64]
    begin_ns: float | None = None

    @property
    def timed(self) -> bool:
        """Whether enough steps have a time to be matched."""
        return int(np.isfinite(self.end_ns).sum()) >= LEAST_MATCHED

    @property
    def resolution_ns(self) -> float:
        """The step of the clock that its times show: whole seconds, else finer than what is compared."""
        known = self.end_ns[np.isfinite(self.end_ns)]
        return SECOND_NS if len(known) and not (known % SECOND_NS).any() else SMALLEST_NS


@dataclass(frozen=True)
class StepMatch:
    """What to add to the other's times, and how far off that may be; ``shift`` added to its step numbers gives those
    of the first, None where several fit."""

    offset_ns: float
    residual_ns: float
    matched: int
    shift: int | None


def match_by_times(first: TimedSteps, other: TimedSteps, within_ns: float = np.inf) -> tuple[StepMatch, ...]:
    """The matches by the times at which steps end: by all places that fit equally well, and by equal step numbers where
    these are among them; of places with at most so large an offset. Empty where too few steps have times, or none fits.
    """
    places = _places(first.numbers, first.end_ns, other.numbers, other.end_ns)
    if places is None:
        return ()
    near = np.abs(places[1]) <= within_ns
    if not near.any():
        return ()
    shifts, offsets, spreads = (each[near] for each in places[:3])
    resolution_ns = max(first.resolution_ns, other.resolution_ns)
    best = int(np.argmin(spreads))
    rivals = spreads <= np.maximum(RIVAL * spreads[best], resolution_ns / 2)
    found = []
    whole = _measured(first, other, int(shifts[best]), resolution_ns)
    if whole is not None:
        apart_ns = float(np.abs(offsets[rivals] - offsets[best]).max())
        sure = int(shifts[best]) if rivals.sum() == 1 else None
        found.append(StepMatch(whole.offset_ns, whole.residual_ns + apart_ns, whole.matched, sure))
    same = np.flatnonzero(rivals & (shifts == 0))
    if len(same) and rivals.sum() > 1 and (equal := _measured(first, other, 0, resolution_ns)) is not None:
        found.append(equal)
    return tuple(found)


def shift_by_times(first: TimedSteps, other: TimedSteps, offset_ns: float, residual_ns: float) -> int | None:
    """What to add to the other's step numbers to get the first's, by the ends that are next to each other; None where
    the clocks are not known closely enough for a step, or the ends lie apart."""
    own, own_ns = _known(first.numbers, first.end_ns)
    others, others_ns = _known(other.numbers, other.end_ns)
    if min(len(own), len(others)) < LEAST_ENDS:
        return None
    moved = others_ns + offset_ns
    at = np.clip(np.searchsorted(moved, own_ns), 1, len(moved) - 1)
    at -= own_ns - moved[at - 1] < moved[at] - own_ns
    inside = (own_ns >= moved[0] - residual_ns) & (own_ns <= moved[-1] + residual_ns)
    shortest_ns = min(float(np.median(np.diff(each) / np.diff(n))) for each, n in ((own_ns, own), (moved, others)))
    met = inside & (np.abs(own_ns - moved[at]) <= NEXT_TO * shortest_ns)
    if met.sum() < max(LEAST_ENDS, MET * inside.sum()) or residual_ns > NEXT_TO * shortest_ns:
        return None
    shifts, counts = np.unique((own - others[at])[met], return_counts=True)
    best = int(np.argmax(counts))
    return int(shifts[best]) if counts[best] >= AGREED * met.sum() else None


def match_by_lengths(first: TimedSteps, other: TimedSteps) -> StepMatch | None:
    """The one place at which the lengths of the steps agree; None where several do, or none does.

    A profiler adds about the same to every step, so the lengths agree up to a constant. ``offset_ns`` is that constant.
    """
    places = _places(first.numbers, first.wall_ms * 1e6, other.numbers, other.wall_ms * 1e6)
    if places is None:
        return None
    shifts, offsets, spreads, counts = places
    best = int(np.argmin(spreads))
    shift = int(shifts[best])
    _, at, _ = np.intersect1d(first.numbers, other.numbers + shift, return_indices=True)
    variation_ns = float(np.nanstd(first.wall_ms[at])) * 1e6
    rivals = int((spreads <= max(RIVAL * spreads[best], SMALLEST_NS / 2)).sum())
    if rivals > 1 or counts[best] < LEAST_LENGTHS or spreads[best] ** 2 > EXPLAINED * variation_ns**2:
        return None
    return StepMatch(float(offsets[best]), max(float(spreads[best]), SMALLEST_NS), int(counts[best]), shift)


def _measured(first: TimedSteps, other: TimedSteps, shift: int, resolution_ns: float) -> StepMatch | None:
    """The offset over all steps that meet where the other's numbers are shifted."""
    _, own, others = np.intersect1d(first.numbers, other.numbers + shift, return_indices=True)
    apart = first.end_ns[own] - other.end_ns[others]
    apart = apart[np.isfinite(apart)]
    if len(apart) < LEAST_MATCHED:
        return None
    low, high = np.percentile(apart, (TAIL_PCT, 100.0 - TAIL_PCT))
    # The whole width: a line is written after its step and never before, so all of it may lie on one side.
    return StepMatch(float(np.median(apart)), max(float(high - low), resolution_ns), len(apart), shift)


_Places = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]


def _places(
    first: NDArray[np.int64], first_ns: NDArray[np.float64], other: NDArray[np.int64], other_ns: NDArray[np.float64]
) -> _Places | None:
    """For each shift of the other's numbers at which enough steps meet: the shift, the mean difference, its standard
    deviation, and the steps compared; None where there is none."""
    few, many = (first, first_ns), (other, other_ns)
    sign = 1
    if len(first) > len(other):
        few, many, sign = many, few, -1
    few, many = _known(*few), _known(*many)
    if min(len(few[0]), len(many[0])) < LEAST_MATCHED or not (_narrow(few[0]) and _narrow(many[0])):
        return None
    zero_ns = many[1][0]  # differences are small against times since 1970, and so is their rounding
    begin, end = int(many[0][0]), int(many[0][-1])
    dense = np.full(end - begin + 1, np.nan)
    dense[many[0] - begin] = many[1] - zero_ns
    chosen = np.unique(np.linspace(0, len(few[0]) - 1, PROBES).astype(np.int64))
    probes, probes_ns = few[0][chosen], few[1][chosen] - zero_ns
    tried = _tried(begin - int(probes[-1]), end - int(probes[0]))
    parts = [_compared(dense, begin, probes, probes_ns, each) for each in _portions(tried)]
    shifts, means, spreads, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    enough = counts >= max(LEAST_MATCHED, COMPARED * int(counts.max(initial=0)))
    if not enough.any():
        return None
    # ``few`` step n met ``many`` step n + shift: of the other's numbers that is the shift with its sign turned.
    return -sign * shifts[enough], sign * means[enough], spreads[enough], counts[enough]


def _narrow(numbers: NDArray[np.int64]) -> bool:
    """Whether numbers in rising order are counted steps: a stray one among them spans more than a training has."""
    return int(numbers[-1]) - int(numbers[0]) <= WIDEST and -LARGEST <= int(numbers[0]) <= int(numbers[-1]) <= LARGEST


def _tried(lowest: int, highest: int) -> NDArray[np.int64]:
    """The shifts between these that are nearest to equal step numbers, in rising order."""
    nearest = min(max(lowest, 0), highest)
    return np.arange(max(lowest, nearest - MOST_PLACES), min(highest, nearest + MOST_PLACES) + 1, dtype=np.int64)


def _known(numbers: NDArray[np.int64], values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    known = np.isfinite(values)
    kept, at = np.unique(numbers[known], return_index=True)
    return kept, values[known][at]


def _portions(places: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for begin in range(0, max(len(places), 1), PLACES_AT_ONCE):
        yield places[begin : begin + PLACES_AT_ONCE]


def _compared(
    dense: NDArray[np.float64],
    begin: int,
    probes: NDArray[np.int64],
    probes_ns: NDArray[np.float64],
    shifts: NDArray[np.int64],
) -> _Places:
    at = probes[None, :] + shifts[:, None] - begin
    inside = (at >= 0) & (at < len(dense))
    apart = probes_ns[None, :] - np.where(inside, dense[np.clip(at, 0, len(dense) - 1)], np.nan)
    known = np.isfinite(apart)
    counts = known.sum(axis=1)
    safe = np.maximum(counts, 1)
    means = np.where(known, apart, 0.0).sum(axis=1) / safe
    spreads = np.sqrt((np.where(known, apart - means[:, None], 0.0) ** 2).sum(axis=1) / safe)
    return shifts, means, spreads, counts
