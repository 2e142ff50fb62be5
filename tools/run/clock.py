"""Clocks of the ranks aligned by the ends of their collectives."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.clock_programme import bounded_offsets, excess_ns
from tools.run.events import EventKind, name_mask
from tools.run.links import launch_starts
from tools.run.model import ClockOffset, Rank, Step, step_frame

# RCCL and NCCL name kernels "ncclKernel_AllReduce_RING_LL_Sum_float(...)", "ncclDevKernel_AllGather_...",
# old ROCm "ncclKernel_Generic". The algorithm may differ between ranks, so only the operation counts.
KERNEL_NAME = re.compile(r"(?:nccl|rccl)\w*?Kernel_(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce)(?![a-zA-Z])")
HOST_NAME = re.compile(r"gloo:(\w+)")
NAMED = ((KERNEL_NAME, (EventKind.KERNEL,)), (HOST_NAME, (EventKind.ANNOTATION, EventKind.OPERATOR)))
TOGETHER = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier", re.I)
NO_STEP = -1


def meetings(rank: Rank) -> pd.DataFrame:
    """One row per collective that ends on all its ranks together: ``key`` (group, operation, size), ``step``,
    ``position`` among those of the same key within the step and their ``count``, ``start_ns``, ``end_ns``.

    Broadcasts and reductions to one rank are left out: their members may leave at different times.
    """
    rows, keys = _described(rank)
    for pattern, kinds in NAMED:
        if not len(rows):
            rows, keys = _named(rank.events.of_kind(*kinds), pattern)
    called_ns = launch_starts(rank.events, rows)  # orders collectives as the program did
    start_ns, end_ns = (rank.events.frame[side].to_numpy()[rows] for side in ("start_ns", "end_ns"))
    found = pd.DataFrame({"key": pd.Series(keys, dtype="str"), "step": _step_of(rank, called_ns)})
    found = found.assign(start_ns=start_ns, end_ns=end_ns)
    found = found.iloc[np.argsort(called_ns, kind="stable")].reset_index(drop=True)
    alike = found.groupby(["key", "step"])["end_ns"]
    return found.assign(position=alike.cumcount(), count=alike.transform("size"))


def _described(rank: Rank) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
    """Rows and keys of device kernels with the collective's own description."""
    details = rank.events.details.collectives
    of_kernel = rank.events.frame["kind"].to_numpy()[details["row"].to_numpy()] == EventKind.KERNEL
    together = name_mask(details["collective"], TOGETHER.search)
    shared = details[of_kernel & together & (details["group_size"] > 1).to_numpy()]
    first, *parts = (
        shared[name].astype("str") for name in ("group", "ranks", "collective", "dtype", "in_elements", "out_elements")
    )
    return shared["row"].to_numpy(), first.str.cat(parts, sep="|").to_numpy()


def _named(events: pd.DataFrame, pattern: re.Pattern[str]) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
    """Rows and keys of the events whose name holds the operation."""
    matches = [pattern.search(name) for name in events["name"].cat.categories]
    operation = [match[1].lower() if match and TOGETHER.search(match[1]) else "" for match in matches]
    keys = np.array([*operation, ""], dtype=object)[events["name"].cat.codes.to_numpy()]
    return events.index.to_numpy()[keys != ""], keys[keys != ""]


def _step_of(rank: Rank, moments: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of the profiler's step that each moment lies in; ``NO_STEP`` where steps are not numbered alike."""
    if rank.step_origin != "profiler_step":
        return np.full(len(moments), NO_STEP, dtype=np.int64)
    steps = step_frame(rank.steps)
    at = np.searchsorted(steps["start_ns"].to_numpy(), moments, side="right") - 1
    return np.where(at >= 0, steps["number"].to_numpy()[np.maximum(at, 0)], NO_STEP)


# A collective ends on all of its ranks at nearly the same moment, because none can leave before the last has brought
# its part. The median difference of the recorded ends is therefore the difference of two clocks, and their spread says
# how far to trust it. Several such differences are combined by weighted least squares.
#
# Where one link is slower than the others, ranks leave a ring one after another, always in the same order, which looks
# like clocks that are off. Ranks of one host share a clock, so for a job of several hosts one clock per host is fitted
# as well (dPRO keeps the variance inside a machine small by a term of its objective), and what lies between ranks of
# one host is added to the uncertainty. A collective that ends on one rank before another has started it is impossible
# (dPRO's constraint): one clock per host is taken unless it makes such violations larger. So ranks that are all of one
# known host are not moved unless something impossible was recorded. Where a fit alone would make some collective
# impossible, dPRO's convex programme takes its place: the nearest offsets that do not, if there are any; the
# uncertainty is at least how far they are from the fit.


METHOD, METHOD_OF_HOSTS = "collective_ends", "collective_ends_by_host"
KEPT_POSSIBLE = "_kept_possible"  # behind the method: the convex programme had the smaller violations
FEWEST_MEETINGS = 3  # fewer give no spread
# Even on one clock ranks leave a collective some microseconds apart (up to 4 in the eight-rank DLRM trace of
# facebookresearch/param), and older traces record whole microseconds.
SMALLEST_UNCERTAINTY_NS = 5_000
MOST_PAIRED_RANKS = 16  # of larger jobs each rank is paired with the lowest only
QUARTILES = (25.0, 75.0)
SURE = 1.96  # standard errors of a 95 % interval
FEWEST_FOR_INTERVAL = 6  # the extremes of so many values hold their median with 1 - 2 / 2**6 = 97 %, of five with 94 %


@dataclass(frozen=True)
class _Difference:
    """The lead of one rank's clock over that of another at the same moments, its spread, and its possible limits."""

    rank: int
    reference: int
    ns: float
    spread_ns: float
    least_ns: float
    most_ns: float


@dataclass(frozen=True)
class Aligned:
    """Ranks on one time axis that begins with the earliest event."""

    ranks: tuple[Rank, ...]
    moved_origin_ns: int  # the axis begins this much later than before
    notes: tuple[str, ...]


def align(ranks: Sequence[Rank]) -> Aligned:
    """Shift the ranks whose clocks are off by more than the uncertainty, then count times from the earliest event."""
    if not ranks:
        return Aligned((), 0, ())
    offsets = estimate(ranks)
    starts = [int(rank.events.frame["start_ns"].iloc[0]) + offsets[rank.rank].offset_ns for rank in ranks]
    moved = [_on_axis(rank, offsets[rank.rank], min(starts)) for rank in ranks]
    notes = [
        f"the clock of rank {rank.rank} was moved by {rank.clock.offset_ns / 1e3:.1f} us "
        f"(uncertain by {(rank.clock.uncertainty_ns or 0) / 1e3:.1f} us) to align the ends of collectives"
        for rank in moved
        if rank.clock.offset_ns
    ]
    return Aligned(tuple(moved), min(starts), tuple(notes))


def _on_axis(rank: Rank, clock: ClockOffset, origin_ns: int) -> Rank:
    by_ns = clock.offset_ns - origin_ns
    if not by_ns:
        return replace(rank, clock=clock)
    steps, marks = (
        tuple(Step(step.number, step.start_ns + by_ns, step.end_ns + by_ns) for step in each)
        for each in (rank.steps, rank.marks)
    )
    return replace(rank, events=rank.events.moved(by_ns), steps=steps, marks=marks, clock=clock)


def estimate(ranks: Sequence[Rank]) -> dict[int, ClockOffset]:
    """The offset of each rank's clock to that of the lowest rank.

    Ranks that share too few collectives with the others, directly or through a third, keep an unknown uncertainty.
    """
    unknown = {rank.rank: ClockOffset() for rank in ranks}
    if len(ranks) < 2:
        return unknown
    table = pd.concat([meetings(rank).assign(rank=rank.rank) for rank in ranks], ignore_index=True)
    # Meetings of a kind are matched by their order, hence only where both ranks recorded equally many of them.
    table["meeting"] = table.groupby(["key", "step", "count", "position"]).ngroup()
    spans = {int(str(rank)): own.set_index("meeting")[["start_ns", "end_ns"]] for rank, own in table.groupby("rank")}
    compared = [_compare(*pair, spans) for pair in _pairs(sorted(spans))]
    found = [difference for difference in compared if difference]
    alone = unknown | _solve(found, {number: number for number in unknown}, METHOD)
    clocks = _clocks(ranks)
    if len(set(clocks.values())) == len(ranks):
        return alone
    by_host = unknown | _solve(found, clocks, METHOD_OF_HOSTS)
    # Offsets within the uncertainty are left at 0, so the violations of either fit are known to that only.
    slack_ns = impossible_ns(table, alone) + SMALLEST_UNCERTAINTY_NS
    return by_host if impossible_ns(table, by_host) <= slack_ns else alone


def _clocks(ranks: Sequence[Rank]) -> dict[int, int]:
    """The lowest rank with the same clock: of the same host where it is known, else the rank itself."""
    lowest: dict[str, int] = {}
    for rank in sorted(ranks, key=lambda each: each.rank):
        lowest.setdefault(rank.host, rank.rank)
    return {rank.rank: lowest[rank.host] if rank.host else rank.rank for rank in ranks}


def impossible_ns(table: pd.DataFrame, offsets: Mapping[int, ClockOffset]) -> int:
    """The most by which a collective ends on one rank before another starts it.

    ``table`` has the columns of ``meetings``, ``rank`` and ``meeting`` (a number for each collective).
    """
    moved = table["rank"].map({number: clock.offset_ns for number, clock in offsets.items()})
    moments = pd.DataFrame({"last": table["start_ns"] + moved, "first": table["end_ns"] + moved})
    met = moments.groupby(table["meeting"]).agg({"last": "max", "first": "min"})
    return max(int((met["last"] - met["first"]).max()), 0) if len(met) else 0


def _pairs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    if len(numbers) <= MOST_PAIRED_RANKS:
        return list(combinations(numbers, 2))
    return [(numbers[0], number) for number in numbers[1:]] + list(pairwise(numbers[1:]))


def _compare(reference: int, other: int, spans: Mapping[int, pd.DataFrame]) -> _Difference | None:
    """The clock difference of two ranks; None when they met too seldom."""
    met = spans[reference].join(spans[other].add_suffix("_other"), how="inner")
    if len(met) < FEWEST_MEETINGS:
        return None
    late = np.sort((met["end_ns_other"] - met["end_ns"]).to_numpy())
    low, high = np.percentile(late, QUARTILES)
    median = float(np.median(late))
    spread_ns = max((high - low) / 2, _reach_ns(late, median), SMALLEST_UNCERTAINTY_NS)
    least = float((met["start_ns_other"] - met["end_ns"]).max()) - SMALLEST_UNCERTAINTY_NS
    most = float((met["end_ns_other"] - met["start_ns"]).min()) + SMALLEST_UNCERTAINTY_NS
    if least > most:  # no one difference of clocks makes all of them possible: one of the clocks drifts
        least, most = -np.inf, np.inf
    return _Difference(other, reference, median, float(spread_ns), least, most)


def _reach_ns(ordered: NDArray[np.int64], median: float) -> float:
    """How far the 95 % interval of the median reaches from it (sign test, whatever the distribution).

    Of fewer than six values not even the smallest and the largest are that sure, so their whole distance counts: three
    that scatter around 0 do not show a clock that is off.
    """
    if len(ordered) < FEWEST_FOR_INTERVAL:
        return float(ordered[-1] - ordered[0])
    first = max(int((len(ordered) - 1.0 - SURE * math.sqrt(len(ordered))) / 2.0), 0)
    return float(max(ordered[-1 - first] - median, median - ordered[first]))


def _solve(differences: Sequence[_Difference], clocks: Mapping[int, int], method: str) -> dict[int, ClockOffset]:
    """Least squares over the clocks connected with the lowest, whose own offset is 0; ``clocks`` is each rank's."""
    origin = min(clocks.values())
    apart = [abs(each.ns) for each in differences if clocks[each.rank] == clocks[each.reference]]
    differences = [each for each in differences if clocks[each.rank] != clocks[each.reference]]
    reached, before = {origin}, 0
    while len(reached) > before:
        before = len(reached)
        for each in differences:
            pair = {clocks[each.rank], clocks[each.reference]}
            reached |= pair if pair & reached else set()
    numbers = sorted(reached - {origin})
    if not numbers:
        return _one_clock(clocks, apart, method)
    used = [each for each in differences if clocks[each.rank] in reached]
    rank, reference = (np.array([[clocks[each.rank], clocks[each.reference]] for each in used]).T)[:, :, None]
    design = (reference == numbers).astype(float) - (rank == numbers)
    measured, spread = np.array([(each.ns, each.spread_ns) for each in used]).T
    weighted = design / spread[:, None]
    inverse = np.linalg.inv(weighted.T @ weighted)  # exists: every clock is connected with the origin
    solution = inverse @ (weighted.T @ (measured / spread))
    formal = np.sqrt(np.diag(inverse))
    doubt = np.maximum(spread, np.abs(measured - design @ solution))
    least, most = np.array([(each.least_ns, each.most_ns) for each in used]).T
    possible = solution
    if excess_ns(design @ solution, least, most) > 0:
        kept = bounded_offsets(design, inverse, solution, least, most)
        if excess_ns(design @ kept, least, most) < excess_ns(design @ solution, least, most):
            possible, method = kept, method + KEPT_POSSIBLE
    # The formal error shrinks with every pair, what is common to the pairs of a rank does not: hence the larger.
    uncertain = [
        max(formal[at], np.median(doubt[design[:, at] != 0]), abs(possible[at] - solution[at]), *apart)
        for at in range(len(numbers))
    ]
    settled = np.where(np.abs(possible) > uncertain, possible, 0.0)  # what may be nothing is left as recorded
    offsets = {origin: ClockOffset(0, 0, method)}
    for number, offset, uncertainty in zip(numbers, settled, uncertain, strict=True):
        offsets[number] = ClockOffset(round(float(offset)), round(float(uncertainty)), method)
    return {number: offsets[clock] for number, clock in clocks.items() if clock in offsets}


def _one_clock(clocks: Mapping[int, int], apart_ns: Sequence[float], method: str) -> dict[int, ClockOffset]:
    """No offset for the ranks of the lowest clock, as uncertain as their collectives end apart; nothing if none met."""
    if not apart_ns:
        return {}
    origin, uncertainty = min(clocks.values()), round(max(*apart_ns, SMALLEST_UNCERTAINTY_NS))
    own = [number for number, clock in clocks.items() if clock == origin]
    return {number: ClockOffset(0, uncertainty if number != origin else 0, method) for number in own}
