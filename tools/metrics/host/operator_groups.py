"""Groups of operators on the training threads, for runs whose operators compute on the host.

A group is the outermost operators of a kind inside steps, so that their times add up:

=================== =======================================================================
fp64                operators whose first floating operand is 64 bits wide
fallback            convolutions outside the tuned library
elementwise_runs    three or more element-wise operators in a row that stream whole tensors
reads               values read out of a tensor (``item`` and the like)
=================== =======================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tools.intervals import length
from tools.metrics.measurement import Measurement, as_pct, choice, metric, of_events
from tools.run.events import name_mask
from tools.run.links import parents
from tools.views.operator_cost import precision_of
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

Rows = NDArray[np.int64]

RUN_LENGTH = 3  # two in a row are usual (an addition and its activation)


@memoized
def host_group(profile: Profile, rank: int, group: str) -> Rows:
    """Rows of the group's operators on one rank, ascending."""
    view = profile.rank(rank)
    if group in NAMED_GROUPS:
        rows = _computing(view)
        return view.outermost(rows[view.named(NAMED_GROUPS[group])[rows]])
    choice("group", group, GROUPS)
    return GROUPS[group](profile, view)


def _computing(view: RankProfile) -> Rows:
    """Operators of the training itself: what a loader computes in the training process is waiting for data."""
    rows = view.in_steps(view.host_compute_rows)
    spans = view.loader_rows[np.argsort(view.start[view.loader_rows], kind="stable")]
    if not len(spans):
        return rows
    last = spans[np.searchsorted(view.start[spans], view.start[rows], side="right") - 1]
    begun = view.start[rows] >= view.start[last]
    loading = begun & (view.end[rows] <= view.end[last]) & (view.track[rows] == view.track[last])
    return np.asarray(rows[~loading])


def _fp64(profile: Profile, view: RankProfile) -> Rows:
    recorded = view.events.details.operators
    wide = name_mask(recorded["types"], lambda types: precision_of(types) == "fp64")
    return view.outermost(np.intersect1d(recorded["row"].to_numpy()[wide], _computing(view)))


def _elementwise_runs(profile: Profile, view: RankProfile) -> Rows:
    """Runs are broken by any other operator that computes; what is too short to stream memory is passed over."""
    rows = _computing(view)
    least_ns = profile.thresholds["short_operator_us"] * 1e3
    chosen = [
        _runs(view, _leaves(view, rows[view.track[rows] == track], least_ns)) for track in np.unique(view.track[rows])
    ]
    return np.sort(np.concatenate(chosen)).astype(np.int64) if chosen else rows


def _leaves(view: RankProfile, rows: Rows, least_ns: float) -> Rows:
    """Outermost element-wise operators, and operators without others inside; none shorter than ``least_ns``."""
    streaming = view.named("elementwise_operator")[rows]
    whole = view.outermost(rows[streaming])
    upward = parents(view.start[rows], view.end[rows])
    long = view.end[rows] - view.start[rows] >= least_ns
    holds = np.zeros(len(rows), dtype=bool)
    holds[upward[long & (upward >= 0)]] = True
    ended = np.maximum.accumulate(view.end[whole]) if len(whole) else whole
    place = np.searchsorted(view.start[whole], view.start[rows], side="right") - 1
    inside = (place >= 0) & (ended[np.maximum(place, 0)] >= view.end[rows]) if len(whole) else np.zeros(len(rows), bool)
    others = rows[~holds & ~inside & long]
    return np.union1d(whole[view.end[whole] - view.start[whole] >= least_ns], others).astype(np.int64)


def _runs(view: RankProfile, rows: Rows) -> Rows:
    streaming = view.named("elementwise_operator")[rows]
    number = np.cumsum(np.append(True, streaming[1:] != streaming[:-1])) if len(rows) else rows
    size = np.bincount(number)[number] if len(rows) else rows
    return rows[streaming & (size >= RUN_LENGTH)]


NAMED_GROUPS = {"fallback": "fallback_convolution", "reads": "scalar_read"}  # by name pattern
GROUPS: Mapping[str, Callable[[Profile, RankProfile], Rows]] = {"fp64": _fp64, "elementwise_runs": _elementwise_runs}


@metric("ms", "host time per step in {group}", "How long do host operators of a group take per step?")
def host_group_ms(profile: Profile, group: str, rank: int) -> Measurement:
    """Time per step in the operators of a group, on one rank."""
    view = profile.rank(rank)
    total_ns = length(view.covered(host_group(profile, rank, group)))
    return _of(profile, group, rank, total_ns / 1e6 / len(view.steps))


@metric("%", "share of the step in {group} on the host", "How much of the step do such operators take?")
def host_group_pct(profile: Profile, group: str, rank: int) -> Measurement:
    """The same as a share of the rank's steps."""
    return as_pct(host_group_ms(profile, group, rank), float(profile.rank(rank).wall_ms.mean()))


@metric("calls", "number per step of {group} on the host", "How many such operators does a step call?")
def host_group_count(profile: Profile, group: str, rank: int) -> Measurement:
    """Operators of a group per step."""
    return _of(profile, group, rank, len(host_group(profile, rank, group)) / len(profile.rank(rank).steps))


def _of(profile: Profile, group: str, rank: int, value: float) -> Measurement:
    selector = f"operators of the group {group} on training threads"
    return of_events(profile.rank(rank), value, host_group(profile, rank, group), selector)
