"""Where a rank without a device spends its step between and in short operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.intervals import IntervalSet, intersect, merge, subtract, union
from tools.profilers.profile import Profile
from tools.profilers.rank_profile import RankProfile
from tools.run.links import depths


@dataclass(frozen=True, eq=False)
class HostDispatch:
    """``rows``: the outermost computing operators inside steps; ``short``: those below the threshold.

    ``moments``: time in short operators, and the pauses between operators that are as short (Python's own work). It
    holds nothing of the data wait or of exposed communication.
    """

    rows: NDArray[np.int64]
    short: NDArray[np.int64]
    moments: IntervalSet


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
    return HostDispatch(rows, rows[brief], merge(subtract(spans, long), pauses))


def _outermost(view: RankProfile, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(rows[depths(view.start[rows], view.end[rows]) == 0], dtype=np.int64)
