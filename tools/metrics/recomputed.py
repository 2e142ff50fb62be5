"""Figures of the forward that runs again inside the backward."""

from __future__ import annotations

from tools.intervals import EMPTY, IntervalSet, length, merge, union
from tools.metrics.measurement import Measurement, Metric
from tools.metrics.scope import interval_rows, of_rank
from tools.profilers.profile import Profile
from tools.profilers.recomputed import recomputed, recomputed_kernels


def recomputed_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step of recomputation: of the device where the rank has one, else of the host."""
    return _of(profile, rank, length(_moments(profile, rank)) / 1e6 / len(profile.rank(rank).steps))


def recomputed_pct(profile: Profile, rank: int) -> Measurement:
    """The same as a share of the rank's steps."""
    wall_ns = float(profile.rank(rank).breakdown["wall_ns"].sum())
    return _of(profile, rank, 100.0 * length(_moments(profile, rank)) / wall_ns)


def recomputed_regions(profile: Profile, rank: int) -> Measurement:
    """How many regions a step computes again."""
    count = sum(len(moments) for moments in recomputed(profile, rank).values())
    return _of(profile, rank, count / len(profile.rank(rank).steps))


def _moments(profile: Profile, rank: int) -> IntervalSet:
    view = profile.rank(rank)
    if not view.rank.has_device:
        return merge(*recomputed(profile, rank).values()) if recomputed(profile, rank) else EMPTY
    rows = recomputed_kernels(profile, rank)
    return union(view.start[rows], view.end[rows])


def _of(profile: Profile, rank: int, value: float) -> Measurement:
    view, moments = profile.rank(rank), _moments(profile, rank)
    return of_rank(view, value, lambda: interval_rows(moments), "forward operators inside nodes of the backward")


METRICS = (
    Metric("recomputed_ms", "ms", "How long does a step recompute activations?", recomputed_ms),
    Metric("recomputed_pct", "%", "What share of the step is recomputation?", recomputed_pct),
    Metric("recomputed_regions", "count", "How many regions does a step compute again?", recomputed_regions),
)
