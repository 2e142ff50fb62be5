"""What recording itself takes: host time of the profiler for each Python frame and operator of a traced step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tools.run.events import EventKind
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

MOST = 0.5  # of the time from one event to the next: the rest is the program's
OPTIONS = ("record_shapes", "with_stack", "profile_memory")


@dataclass(frozen=True, eq=False)
class RecordingCost:
    """Of one host thread: when events were recorded, ascending, shape (n,), and what those before took, (n + 1,)."""

    track: int
    moments_ns: NDArray[np.int64]
    taken_ns: NDArray[np.float64]

    def until(self, moment_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """What recording took before each moment, in ns."""
        return self.taken_ns[np.searchsorted(self.moments_ns, moment_ns)]


def operator_cost_us(profile: Profile, view: RankProfile) -> float:
    """What recording shapes, stacks and memory adds to each operator of the rank, as its trace says that it does."""
    recorded = view.rank.metadata
    extras = sum(recorded.get(option, "0") not in ("0", "", "False", "false") for option in OPTIONS)
    return extras * profile.thresholds["profiled_operator_us"]


@memoized
def recording_costs(profile: Profile) -> Mapping[tuple[int, int], RecordingCost]:
    """By rank and host thread what recording took; threads without frames or recorded extras are left out.

    The costs of an event are those of ``profiling_overhead_ms``, but no more than half of the time until the thread's
    next event. Where unprofiled steps are known, all together take no more than traced steps are longer: a profiler
    that runs all the time is part of the usual step.
    """
    found = {}
    for view in profile.ranks:
        costs_us = {
            EventKind.PYTHON: profile.thresholds["profiled_frame_us"],
            EventKind.OPERATOR: operator_cost_us(profile, view),
        }
        rows = view.in_steps(np.flatnonzero(np.isin(view.kind, [int(kind) for kind, us in costs_us.items() if us > 0])))
        tracks = (rows[view.track[rows] == track] for track in np.unique(view.track[rows]))
        threads = [_of_thread(view, mine, costs_us) for mine in tracks]
        per_step_ms = sum(float(each.taken_ns[-1]) for each in threads) / 1e6 / max(len(view.steps), 1)
        share = _excess_share(profile, per_step_ms)
        for each in threads:
            found[view.rank.rank, each.track] = replace(each, taken_ns=share * each.taken_ns)
    return found


def _of_thread(view: RankProfile, rows: NDArray[np.int64], costs_us: Mapping[EventKind, float]) -> RecordingCost:
    ordered = rows[np.argsort(view.start[rows], kind="stable")]
    moments_ns = view.start[ordered]
    python = view.kind[ordered] == EventKind.PYTHON
    cost_ns = 1e3 * np.where(python, costs_us[EventKind.PYTHON], costs_us[EventKind.OPERATOR])
    following_ns = np.append(moments_ns[1:], view.end[ordered[-1]])
    most_ns = MOST * np.maximum(following_ns - moments_ns, 0)
    taken_ns = np.concatenate((np.zeros(1), np.cumsum(np.minimum(cost_ns, most_ns))))
    return RecordingCost(int(view.track[ordered[0]]), moments_ns, taken_ns)


def _excess_share(profile: Profile, cost_ms: float) -> float:
    """The share of a cost per step that traced steps have over unprofiled ones; 1 where these are not known."""
    if profile.series is None or cost_ms <= 0.0:
        return 1.0
    return min(max(profile.median_step_ms - profile.series.median_ms, 0.0) / cost_ms, 1.0)
