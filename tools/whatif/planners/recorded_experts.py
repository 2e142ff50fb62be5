"""The input of ``expert-degree`` from a recorded training with experts on several ranks.

The all-to-alls of the forward passes come in pairs, tokens to the experts and back. Between the two a rank computes its
experts: the operations of the matrix operators with shapes that it called, and the time in which it computed. The cost
of an all-to-all is the line through their transfer times over their sizes, that of the experts the line through
their times over their operations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tools.errors import InputError
from tools.intervals import IntervalSet, covered
from tools.run.links import launch_starts
from tools.views.communication.collectives import collectives
from tools.views.communication.transfers import Fit, fits, transfers
from tools.views.device.operator_cost import CostModel
from tools.views.device.roofline import math_operators
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.planners.expert_degree import Experts, Input, Transfer, plan
from tools.whatif.planners.linear_cost import Line, fit_line
from tools.whatif.planners.record import Planned

NS_PER_MS = 1e6
LEAST_BYTES = 1024  # smaller all-to-alls tell the other ranks how many tokens will come
MAX_DEGREE = 16  # chunks are rarely more; every degree up to it is looked at
TWICE = 2.0  # the largest size over the smallest: a line through nearer ones says little about a part of them
AS_JSON = "give the input as JSON (--schema)"


@dataclass(frozen=True)
class _Passes:
    """The expert passes of a rank: bytes of one all-to-all, operations and milliseconds of the experts, of each."""

    sizes: NDArray[np.float64]
    operations: NDArray[np.float64]
    times_ms: NDArray[np.float64]


def plan_run(profile: Profile) -> Planned:
    """Return the plan for a run, with what it rests on."""
    given = recorded_experts(profile)
    made = plan(given)
    text = (
        f"One recorded forward pass sends {given.all_to_all.bytes:.4g} bytes each way and computes "
        f"{given.experts.operations:.4g} operations in the experts, means of all ranks and layers."
    )
    return replace(made, assumptions=[*made.assumptions, text])


def recorded_experts(profile: Profile) -> Input:
    """The costs and sizes of an expert layer; InputError that names what the run lacks."""
    link = _link(profile)
    passes = [_passes(profile, view) for view in profile.ranks]
    sizes, operations, times_ms = (
        np.concatenate([getattr(each, name) for each in passes]) for name in ("sizes", "operations", "times_ms")
    )
    line = _experts(operations, times_ms, profile.thresholds["fit_error_pct"])
    return Input(
        all_to_all=Transfer(
            alpha_ms=link.fixed_ns / NS_PER_MS, beta_ms_per_byte=link.ns_per_byte / NS_PER_MS, bytes=float(sizes.mean())
        ),
        experts=Experts(
            alpha_ms=line.alpha_ms, beta_ms_per_operation=line.beta_ms_per_unit, operations=float(operations.mean())
        ),
        max_degree=MAX_DEGREE,
    )


def _link(profile: Profile) -> Fit:
    table = transfers(profile)
    if not (table["kind"] == "all_to_all").any():
        raise InputError("the steps hold no all-to-all of known size; record a training with experts on several ranks")
    if not table.loc[table["kind"] == "all_to_all", "complete"].any():
        raise InputError("the transfer time of an all-to-all shows only where all ranks are traced; add their traces")
    line = next((fit for fit in fits(profile) if fit.kind == "all_to_all"), None)
    if line is None:
        raise InputError(f"the all-to-alls have one size, their cost follows from two, one twice the other; {AS_JSON}")
    limit = profile.thresholds["fit_error_pct"] / 100.0
    if line.error > limit or line.ns_per_byte <= 0:
        raise InputError(
            f"the time of the all-to-alls does not follow their size (a line misses them by {100 * line.error:.0f} %, "
            f"half of them by more); {AS_JSON}"
        )
    return line


def _experts(operations: NDArray[np.float64], times_ms: NDArray[np.float64], limit_pct: float) -> Line:
    if operations.max() < TWICE * operations.min():
        raise InputError(
            "the experts compute nearly as many operations in every pass, their cost follows from two numbers of them, "
            f"one twice the other; {AS_JSON}"
        )
    line = fit_line(operations.tolist(), times_ms.tolist())
    off = float(np.median(np.abs(line.alpha_ms + line.beta_ms_per_unit * operations - times_ms) / times_ms))
    if 100.0 * off > limit_pct or line.beta_ms_per_unit <= 0:
        raise InputError(
            f"the time of the experts does not follow their operations (a line misses them by {100 * off:.0f} %, half "
            f"of them by more); {AS_JSON}"
        )
    return line


def _passes(profile: Profile, view: RankProfile) -> _Passes:
    rank = view.rank.rank
    table = collectives(profile)
    table = table[(table["rank"] == rank) & (table["kind"] == "all_to_all") & (table["step"] >= 0)]
    table = table[table["bytes"] >= LEAST_BYTES]
    backward = view.covered(view.outermost(np.flatnonzero(view.named("backward_node"))))
    asked = launch_starts(view.events, table["row"].to_numpy())
    ahead = ~_inside(backward, asked)
    table, asked = table[ahead], asked[ahead]
    order = np.argsort(asked, kind="stable")
    table, asked = table.iloc[order], asked[order]
    if not len(table) or table.groupby("step").size().mod(2).any():
        raise InputError(
            f"the forward passes of rank {rank} do not hold all-to-alls in pairs, to the experts and back; {AS_JSON}"
        )
    first, second = slice(0, None, 2), slice(1, None, 2)
    called, operations = _operations(view, backward)
    sums = np.concatenate([[0.0], np.cumsum(operations)])
    between = sums[np.searchsorted(called, asked[second])] - sums[np.searchsorted(called, asked[first])]
    start, end, sizes = (table[name].to_numpy(np.int64) for name in ("start_ns", "end_ns", "bytes"))
    times = covered(view.parts.compute, end[first], np.maximum(start[second], end[first])) / NS_PER_MS
    if (between <= 0).any() or (times <= 0).any():
        raise InputError(
            f"between two all-to-alls of rank {rank} no matrix operator with shapes computes, so no expert is known; "
            "record with record_shapes=True"
        )
    return _Passes((sizes[first] + sizes[second]) / 2.0, between, np.asarray(times, dtype=np.float64))


def _operations(view: RankProfile, backward: IntervalSet) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Start and operations of the matrix operators of forward passes, in order."""
    recorded = math_operators(view)
    rows = view.outermost(recorded["row"].to_numpy(np.int64))
    rows = rows[~_inside(backward, view.start[rows])]
    shapes = recorded.set_index("row")["dims"].reindex(rows).astype(str)
    calls = list(zip(view.names(rows), shapes, strict=True))
    model = CostModel(calls)
    operations = np.array([model.math_cost(*call).flops for call in calls], dtype=np.float64)
    order = np.argsort(view.start[rows], kind="stable")
    return view.start[rows][order], np.nan_to_num(operations)[order]


def _inside(moments: IntervalSet, at: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each moment lies in one of the intervals."""
    if not len(moments):
        return np.zeros(len(at), dtype=bool)
    place = np.searchsorted(moments[:, 0], at, side="right") - 1
    return np.asarray((place >= 0) & (at < moments[np.maximum(place, 0), 1]), dtype=np.bool_)
