"""Short operators of ranks without a device, and those that a step calls over and over.

A kind of operator (one name on one thread) is called over and over where a step calls it ``repeated_calls`` times and
its typical call is short, or more often than layers and parameters need: in a loop over rows, words or time steps,
several times for each gradient that the backward gives. One operator over all of them would take the place of all
calls. It would still do their arithmetic, so what lasts inside the calls of a loop (matrix products) is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import IntervalSet, intersect, merge, subtract
from tools.run.links import enclosing
from tools.views.device.operator_cost import CostModel
from tools.views.device.roofline import math_operators
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile
from tools.views.work import own_ns

ARITHMETIC = 0.5  # of its time that a plain core needs for an operator's arithmetic: then it computes, however short

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HostDispatch:
    """``rows``: the outermost computing operators inside steps. ``moments``: time in short ones and in short pauses.

    ``repeated``: all calls of the kinds that a step calls over and over, the slow ones included. Gradients of parts
    count however long they take. ``repeated_moments``: time in those, without what computes inside the calls of a
    loop, and the pauses right before and after. Neither holds any data wait or exposed communication.
    """

    rows: Rows
    moments: IntervalSet
    repeated: Rows
    repeated_moments: IntervalSet


@memoized
def host_dispatch(profile: Profile, rank: int) -> HostDispatch:
    """The short operators of one rank on its training threads."""
    view = profile.rank(rank)
    limit_ns = profile.thresholds["short_operator_us"] * 1e3
    rows = view.outermost(view.in_steps(view.host_compute_rows))
    brief = view.end[rows] - view.start[rows] < limit_ns
    pauses = view.parts.host[view.parts.host[:, 1] - view.parts.host[:, 0] < limit_ns]
    long = view.covered(rows[~brief])
    spans = intersect(view.covered(rows[brief]), view.parts.compute)
    short, looped = _repeated(profile, view, rows)
    repeated = rows[short | looped]
    in_loops = rows[looped & ~short]
    calls = subtract(view.covered(in_loops), view.covered(_computing_inside(profile, view, in_loops)))
    calls = intersect(merge(view.covered(rows[short]), calls), view.parts.compute)
    adjacent = np.isin(pauses[:, 0], view.end[repeated]) | np.isin(pauses[:, 1], view.start[repeated])
    return HostDispatch(rows, merge(subtract(spans, long), pauses), repeated, merge(calls, pauses[adjacent]))


def _repeated(profile: Profile, view: RankProfile, rows: Rows) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each row whether its kind is short and called very often, and whether it is called as only a loop does."""
    limits, steps = profile.thresholds, max(len(view.steps), 1)
    kinds = pd.Series(view.end[rows] - view.start[rows]).groupby([view.codes[rows], view.track[rows]])
    calls, parts = kinds.transform("size"), view.named("part_gradient")[rows]
    short = (kinds.transform("median") < limits["short_operator_us"] * 1e3) | parts
    gradients = len(view.in_steps(np.flatnonzero(view.named("gradient_accumulated"))))
    loop = max(limits["loop_calls"] * steps, limits["loop_calls_per_gradient"] * gradients)
    often = calls >= limits["repeated_calls"] * steps
    looped = (calls >= loop) & (gradients > 0)
    return np.asarray(often & short, dtype=bool), np.asarray(looped, dtype=bool)


def _computing_inside(profile: Profile, view: RankProfile, outer: Rows) -> Rows:
    """Operators within these whose kind (name and shapes) lasts by itself or does much arithmetic."""
    rows = view.in_steps(view.host_compute_rows)
    own = own_ns(view.track[rows], view.start[rows], view.end[rows])
    parts = outer[view.named("part_gradient")[outer]]
    inside = (enclosing(view.events, rows, outer) >= 0) & (enclosing(view.events, rows, parts) < 0)
    rows, own = rows[inside], own[inside]
    recorded = view.events.details.operators
    dims = np.append(recorded["dims"].cat.codes.to_numpy(), -1)[view.places(recorded, rows)]
    usual_ns = pd.Series(own).groupby([view.codes[rows], dims]).transform("median").to_numpy()
    lasts = usual_ns >= profile.thresholds["short_operator_us"] * 1e3
    needed_ns = _arithmetic_ns(view, rows, profile.thresholds["plain_core_gflops"])
    return rows[lasts | (needed_ns > ARITHMETIC * usual_ns)]


def _arithmetic_ns(view: RankProfile, rows: Rows, gflops: float) -> NDArray[np.float64]:
    """What the arithmetic of each row takes at that rate, by its recorded shapes; 0 where it is not known."""
    recorded = math_operators(view)
    recorded = recorded[recorded["row"].isin(rows)]
    calls = pd.DataFrame({"name": view.names(recorded["row"].to_numpy()), "dims": recorded["dims"].astype(str)})
    distinct = list(calls.drop_duplicates().itertuples(index=False, name=None))
    model = CostModel(distinct)
    flops = {call: model.math_cost(*call).flops for call in distinct}
    known = pd.Series([flops[call] for call in calls.itertuples(index=False, name=None)], index=recorded["row"])
    return np.asarray(known.reindex(rows).fillna(0.0), dtype=np.float64) / gflops
