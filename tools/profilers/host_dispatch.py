"""Where a rank without a device spends its step between and in short operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import IntervalSet, intersect, merge, subtract, union
from tools.profilers.profile import Profile
from tools.profilers.rank_profile import RankProfile
from tools.run.links import depths


@dataclass(frozen=True, eq=False)
class HostDispatch:
    """``rows``: the outermost computing operators inside steps.

    ``moments``: time in short operators, and the pauses between operators that are as short (Python's own work).
    ``repeated``: all calls of the kinds that a step calls very often and whose typical call is short, as in a loop over
    rows or numbers; one operator over all of them would take the place of all calls, the slow ones included. Gradients
    of parts count however long they take: only because the loop takes part after part are there so many.
    ``repeated_moments``: time in those, and the pauses right before and after one of them. Neither holds any data wait
    or exposed communication.
    """

    rows: NDArray[np.int64]
    moments: IntervalSet
    repeated: NDArray[np.int64]
    repeated_moments: IntervalSet


def host_dispatch(profile: Profile, rank: int) -> HostDispatch:
    """The short operators of one rank on its training threads."""
    return profile.memo(f"host_dispatch:{rank}", lambda: _host_dispatch(profile, profile.rank(rank)))


def _host_dispatch(profile: Profile, view: RankProfile) -> HostDispatch:
    limit_ns = profile.thresholds["short_operator_us"] * 1e3
    computing = view.in_steps(view.host_compute_rows)
    tops = [_outermost(view, computing[view.track[computing] == track]) for track in view.training_tracks]
    rows = np.sort(np.concatenate(tops)).astype(np.int64) if tops else computing
    brief = view.end[rows] - view.start[rows] < limit_ns
    pauses = view.parts.host[view.parts.host[:, 1] - view.parts.host[:, 0] < limit_ns]
    long = union(view.start[rows[~brief]], view.end[rows[~brief]])
    spans = intersect(union(view.start[rows[brief]], view.end[rows[brief]]), view.parts.compute)
    repeated = rows[_repeated(view, rows, limit_ns, profile.thresholds["repeated_calls"])]
    calls = intersect(union(view.start[repeated], view.end[repeated]), view.parts.compute)
    beside = np.isin(pauses[:, 0], view.end[repeated]) | np.isin(pauses[:, 1], view.start[repeated])
    return HostDispatch(rows, merge(subtract(spans, long), pauses), repeated, merge(calls, pauses[beside]))


def _repeated(view: RankProfile, rows: NDArray[np.int64], limit_ns: float, calls_per_step: float) -> NDArray[np.bool_]:
    """Which rows are of a kind (one name on one thread) that is called often and short, or exists for the loop only."""
    table = pd.DataFrame(
        {
            "name": view.events.frame["name"].cat.codes.to_numpy()[rows],
            "track": view.track[rows],
            "duration_ns": view.end[rows] - view.start[rows],
        }
    )
    kinds = table.groupby(["name", "track"])["duration_ns"]
    often = kinds.transform("size") >= calls_per_step * max(len(view.steps), 1)
    short = (kinds.transform("median") < limit_ns) | view.named("part_gradient")[rows]
    return np.asarray(often & short, dtype=bool)


def _outermost(view: RankProfile, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(rows[depths(view.start[rows], view.end[rows]) == 0], dtype=np.int64)
