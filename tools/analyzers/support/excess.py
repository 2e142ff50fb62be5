"""What one rank does longer than the others, part by part, and the change that takes it away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tools.findings import Fact
from tools.intervals import IntervalSet, clip
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.change import Change, Scale

PART_NAMES = {
    "data_wait": "waiting for data",
    "host": "host work",
    "compute": "computation",
    "exposed_memcpy": "memory copies",
}  # a rank's own parts; idle gaps follow from them
DATA_CAUSES = ("slow_data_processing", "slow_data_reading", "slow_data_fetching")
HOST_CAUSES = (
    *("garbage_collection", "cpu_contention", "operator_dispatch", "operator_compilation", "checkpoint_stall"),
    *("memory_pressure", "environment_configuration", "profiling_overhead"),
)
EXPLAINED_BY = {
    "data_wait": DATA_CAUSES,
    "host": HOST_CAUSES,
    "compute": (
        *("slow_device", "data_skew", "moe_imbalance", "pipeline_imbalance", "underutilization", "memory_bound"),
        *("cpu_contention", "operator_dispatch"),
    ),
    "exposed_memcpy": ("slow_data_fetching", "memory_pressure"),
}


@dataclass(frozen=True)
class Excess:
    """One part in which a rank takes longer than the median of the others, ms per step."""

    part: str
    fact: Fact
    own_ms: float

    @property
    def factor(self) -> float:
        """What the rank's part would have to be scaled by to equal the others'."""
        return max(0.0, 1.0 - self.fact.value / self.own_ms)


def excesses(profile: Profile, rank: int) -> tuple[Excess, ...]:
    """The parts in which the rank exceeds the others by a noted share of the step, largest first."""
    least_ms = profile.median_step_ms * profile.thresholds["noted_pct"] / 100.0
    table = profile.rank(rank).breakdown
    found = [
        Excess(part, fact, float(table[f"{part}_ns"].mean()) / 1e6)
        for part in PART_NAMES
        if (fact := measure(profile, "part_excess_ms", part=part, rank=rank)).value >= least_ms
    ]
    return tuple(sorted(found, key=lambda excess: -excess.fact.value))


def removal(profile: Profile, rank: int, found: tuple[Excess, ...]) -> Change:
    """The rank does in these parts what the median of the others does."""
    view = profile.rank(rank)
    return tuple(
        scale
        for excess in found
        for scale in _scales(view, excess.part, getattr(view.parts, excess.part), excess.factor)
    )


def balance(profile: Profile) -> Change:
    """In every step each rank computes as long as the mean of the ranks, where it computes longer now."""
    compute = profile.breakdown.pivot_table(index="number", columns="rank", values="compute_ns", aggfunc="sum")
    factors = compute.rdiv(compute.mean(axis=1), axis=0)
    return tuple(
        scale
        for view in profile.ranks
        for step in view.rank.steps
        if (factor := float(factors[view.rank.rank].loc[step.number])) < 1.0
        for scale in _scales(view, "compute", clip(view.parts.compute, step.start_ns, step.end_ns), factor)
    )


def _scales(view: RankProfile, part: str, intervals: IntervalSet, factor: float) -> list[Scale]:
    tracks = view.training_tracks
    if view.rank.has_device and part in ("compute", "exposed_memcpy"):
        tracks = np.unique(view.track[view.compute_kernels if part == "compute" else view.copies])
    cautious = 0.5 * (1.0 + factor)
    return [Scale(view.rank.rank, int(track), intervals, factor, cautious) for track in tracks if len(intervals)]
