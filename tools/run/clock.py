"""Clocks of the ranks aligned by the ends of their collectives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.events import EventKind, name_mask
from tools.run.links import launch_starts
from tools.run.model import ClockOffset, Rank, Step, step_frame

# RCCL and NCCL name kernels "ncclKernel_AllReduce_RING_LL_Sum_float(...)", "ncclDevKernel_AllGather_...",
# old ROCm "ncclKernel_Generic". The algorithm may differ between ranks, so only the operation counts.
KERNEL_NAME = re.compile(r"(?:nccl|rccl)\w*?Kernel_(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce)(?![a-zA-Z])")
HOST_NAME = re.compile(r"gloo:(\w+)")
TOGETHER = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier", re.I)
NO_STEP = -1


def meetings(rank: Rank) -> pd.DataFrame:
    """One row per collective that ends on all its ranks together: ``key`` (group, operation, size), ``step``,
    ``position`` among those of the same key within the step, ``end_ns``.

    Broadcasts and reductions to one rank are left out: their members may leave at different times.
    """
    found = _described(rank)
    if found.empty:
        found = _named(rank, rank.events.of_kind(EventKind.KERNEL), KERNEL_NAME)
    if found.empty:
        found = _named(rank, rank.events.of_kind(EventKind.ANNOTATION, EventKind.OPERATOR), HOST_NAME)
    found = found.sort_values("order_ns", kind="stable")
    found["step"] = _step_of(rank, found["order_ns"].to_numpy())
    found["position"] = found.groupby(["key", "step"]).cumcount()
    return found[["key", "step", "position", "end_ns"]].reset_index(drop=True)


def _described(rank: Rank) -> pd.DataFrame:
    """Device kernels with the collective's own description."""
    details, frame = rank.events.details.collectives, rank.events.frame
    if details.empty:
        return _located(rank, np.empty(0, dtype=np.int64), np.empty(0, dtype=object))
    rows = details["row"].to_numpy()
    of_kernel = frame["kind"].to_numpy()[rows] == EventKind.KERNEL
    together = name_mask(details["collective"], _matching(details["collective"], TOGETHER))
    shared = details[of_kernel & together & (details["group_size"] > 1).to_numpy()]
    parts = [
        shared[name].astype("str") for name in ("group", "ranks", "collective", "dtype", "in_elements", "out_elements")
    ]
    key = parts[0].str.cat(parts[1:], sep="|")
    return _located(rank, shared["row"].to_numpy(), key.to_numpy())


def _named(rank: Rank, events: pd.DataFrame, pattern: re.Pattern[str]) -> pd.DataFrame:
    names = events["name"].cat.categories
    matches = [pattern.search(name) for name in names]
    operation = [match[1].lower() if match and TOGETHER.search(match[1]) else "" for match in matches]
    wanted = events[name_mask(events["name"], np.array([bool(text) for text in operation], dtype=bool))]
    keys = np.array(operation, dtype=object)[wanted["name"].cat.codes.to_numpy()]
    return _located(rank, wanted.index.to_numpy(), keys)


def _matching(column: pd.Series, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    return np.array([pattern.search(str(text)) is not None for text in column.cat.categories], dtype=bool)


def _located(rank: Rank, rows: NDArray[np.int64], keys: NDArray[np.object_]) -> pd.DataFrame:
    """When each event ended, and when its host call began, which orders collectives as the program did."""
    frame = rank.events.frame
    end = frame["end_ns"].to_numpy()[rows]
    order = launch_starts(rank.events, rows)
    return pd.DataFrame({"key": pd.Series(keys, dtype="str"), "end_ns": end, "order_ns": order})


def _step_of(rank: Rank, moments: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of the profiler's step that each moment lies in; ``NO_STEP`` where steps are not numbered alike."""
    if rank.step_origin != "profiler_step":
        return np.full(len(moments), NO_STEP, dtype=np.int64)
    steps = step_frame(rank)
    at = np.searchsorted(steps["start_ns"].to_numpy(), moments, side="right") - 1
    return np.where(at >= 0, steps["number"].to_numpy()[np.maximum(at, 0)], NO_STEP)


# A collective ends on all of its ranks at nearly the same moment, because none can leave before the last has brought
# its part. The median difference of the recorded ends is therefore the difference of two clocks, and their spread says
# how far to trust it. Several such differences are combined by weighted least squares.


METHOD = "collective_ends"
FEWEST_MEETINGS = 3  # fewer give no spread
# Even on one clock ranks leave a collective some microseconds apart (up to 4 in the eight-rank DLRM trace of
# facebookresearch/param), and older traces record whole microseconds.
SMALLEST_UNCERTAINTY_NS = 5_000
MOST_PAIRED_RANKS = 16  # of larger jobs each rank is paired with the lowest only
QUARTILES = (25.0, 75.0)


@dataclass(frozen=True)
class Difference:
    """The difference of two ranks' clocks at the same moments."""

    rank: int
    reference: int
    difference_ns: float
    spread_ns: float
    meetings: int


@dataclass(frozen=True)
class _Timetable:
    """The meetings of one rank; ``count`` is per kind of meeting, the other arrays per meeting."""

    rank: int
    count: NDArray[np.int64]
    kind: NDArray[np.int64]
    identity: NDArray[np.int64]
    end_ns: NDArray[np.int64]


@dataclass(frozen=True)
class Aligned:
    """Ranks on one time axis that begins with the earliest event."""

    ranks: tuple[Rank, ...]
    moved_origin_ns: int  # the axis begins this much later than before
    notes: tuple[str, ...]


def align(ranks: Sequence[Rank]) -> Aligned:
    """Shift the ranks whose clocks are off by more than the uncertainty, then count times from the earliest event."""
    offsets = estimate(ranks)
    pairs = [(rank, offsets[rank.rank]) for rank in ranks]
    shifted = [replace(_moved(rank, clock.offset_ns), clock=clock) for rank, clock in pairs]
    earliest = min(int(rank.events.frame["start_ns"].iloc[0]) for rank in shifted)
    moved = [_moved(rank, -earliest) for rank in shifted]
    return Aligned(tuple(moved), earliest, tuple(_note(rank) for rank in moved if rank.clock.offset_ns))


def estimate(ranks: Sequence[Rank]) -> dict[int, ClockOffset]:
    """The offset of each rank's clock to that of the lowest rank.

    Ranks that share too few collectives with the others, directly or through a third, keep an unknown uncertainty.
    """
    unknown = {rank.rank: ClockOffset() for rank in ranks}
    if len(ranks) < 2:
        return unknown
    timetables = _timetables({rank.rank: meetings(rank) for rank in ranks})
    found = [_compare(timetables[first], timetables[second]) for first, second in _pairs(sorted(timetables))]
    return unknown | _solve(min(timetables), [difference for difference in found if difference])


def _pairs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    if len(numbers) <= MOST_PAIRED_RANKS:
        return list(combinations(numbers, 2))
    return [(numbers[0], number) for number in numbers[1:]] + list(pairwise(numbers[1:]))


def _timetables(tables: dict[int, pd.DataFrame]) -> dict[int, _Timetable]:
    """Number the kinds of meetings (key and step) alike for all ranks."""
    together = pd.concat(tables, names=["rank"]).reset_index("rank")
    kind = together.groupby(["key", "step"]).ngroup().to_numpy().astype(np.int64)
    kinds = int(kind.max()) + 1 if len(kind) else 0
    position = together["position"].to_numpy()
    identity = kind * (int(position.max()) + 1 if len(position) else 1) + position
    of_rank, end_ns = together["rank"].to_numpy(), together["end_ns"].to_numpy()
    rows = {rank: np.flatnonzero(of_rank == rank) for rank in tables}
    return {
        rank: _Timetable(rank, np.bincount(kind[own], minlength=kinds), kind[own], identity[own], end_ns[own])
        for rank, own in rows.items()
    }


def _compare(reference: _Timetable, other: _Timetable) -> Difference | None:
    """The clock difference of two ranks; None when they met too seldom.

    Meetings of a kind are matched by their order, hence only where both ranks recorded equally many of them.
    """
    _, at, there = np.intersect1d(reference.identity, other.identity, assume_unique=True, return_indices=True)
    alike = (reference.count == other.count)[reference.kind[at]]
    late = (other.end_ns[there] - reference.end_ns[at])[alike].astype(np.float64)
    if len(late) < FEWEST_MEETINGS:
        return None
    low, high = np.percentile(late, QUARTILES)
    spread = max((high - low) / 2, SMALLEST_UNCERTAINTY_NS)
    return Difference(other.rank, reference.rank, float(np.median(late)), float(spread), len(late))


def _solve(origin: int, differences: Sequence[Difference]) -> dict[int, ClockOffset]:
    """Least squares over the ranks connected with ``origin``, whose own offset is 0."""
    reachable = _reachable(origin, differences)
    numbers = sorted(reachable - {origin})
    if not numbers:
        return {}
    column = {number: at for at, number in enumerate(numbers)}
    used = [each for each in differences if each.rank in reachable]
    design = np.zeros((len(used), len(numbers)))
    for row, each in enumerate(used):
        if each.rank != origin:
            design[row, column[each.rank]] = -1.0
        if each.reference != origin:
            design[row, column[each.reference]] = 1.0
    measured = np.array([each.difference_ns for each in used])
    spread = np.array([each.spread_ns for each in used])
    weighted = design / spread[:, None]
    solution = np.linalg.lstsq(weighted, measured / spread, rcond=None)[0]
    formal = np.sqrt(np.diag(np.linalg.pinv(weighted.T @ weighted)))
    doubt = np.maximum(spread, np.abs(measured - design @ solution))
    # The formal error shrinks with every pair, what is common to the pairs of a rank does not: hence the larger one.
    offsets = {
        number: _decided(float(solution[at]), float(max(formal[at], np.median(doubt[design[:, at] != 0]))))
        for number, at in column.items()
    }
    return offsets | {origin: ClockOffset(0, 0, METHOD)}


def _decided(offset_ns: float, uncertainty_ns: float) -> ClockOffset:
    offset, uncertainty = round(offset_ns), round(uncertainty_ns)
    return ClockOffset(offset if abs(offset) > uncertainty else 0, uncertainty, METHOD)


def _reachable(origin: int, differences: Sequence[Difference]) -> set[int]:
    reached = {origin}
    while True:
        more = {n for d in differences if {d.rank, d.reference} & reached for n in (d.rank, d.reference)}
        if more <= reached:
            return reached
        reached |= more


def _moved(rank: Rank, by_ns: int) -> Rank:
    if not by_ns:
        return rank
    frame = rank.events.frame
    frame = frame.assign(start_ns=frame["start_ns"] + by_ns, end_ns=frame["end_ns"] + by_ns)
    steps = tuple(Step(step.number, step.start_ns + by_ns, step.end_ns + by_ns) for step in rank.steps)
    return replace(rank, events=replace(rank.events, frame=frame), steps=steps)


def _note(rank: Rank) -> str:
    clock = rank.clock
    return (
        f"the clock of rank {rank.rank} was moved by {clock.offset_ns / 1e3:.1f} us "
        f"(uncertain by {(clock.uncertainty_ns or 0) / 1e3:.1f} us) to align the ends of collectives"
    )
