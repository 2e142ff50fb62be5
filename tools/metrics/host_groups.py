"""Figures of groups of operators that compute on the host."""

from __future__ import annotations

from tools.errors import UsageError
from tools.intervals import length, union
from tools.metrics.measurement import Measurement, Metric
from tools.metrics.scope import event_rows, of_rank
from tools.profilers.host_groups import host_group
from tools.profilers.host_speed import host_speed
from tools.profilers.profile import Profile


def host_group_ms(profile: Profile, group: str, rank: int) -> Measurement:
    """Time per step in the operators of a group, on one rank."""
    return _of(profile, group, rank, _total_ns(profile, group, rank) / 1e6 / len(profile.rank(rank).steps))


def host_group_pct(profile: Profile, group: str, rank: int) -> Measurement:
    """The same as a share of the rank's steps."""
    wall_ns = float(profile.rank(rank).breakdown["wall_ns"].sum())
    return _of(profile, group, rank, 100.0 * _total_ns(profile, group, rank) / wall_ns)


def host_group_count(profile: Profile, group: str, rank: int) -> Measurement:
    """Operators of a group per step."""
    return _of(profile, group, rank, len(host_group(profile, rank, group)) / len(profile.rank(rank).steps))


def host_slowdown_pct(profile: Profile, rank: int) -> Measurement:
    """How much longer the rank's operators take than the same operators on the other ranks."""
    view, table = profile.rank(rank), host_speed(profile)
    mine = table[table["rank"] == rank]
    if mine.empty:
        raise UsageError(f"rank {rank} shares no operators with other ranks")
    value = 100.0 * (float(mine["ratio"].iloc[0]) - 1.0)
    return of_rank(view, value, lambda: table, "operators of equal name and shapes, means per rank")


def _total_ns(profile: Profile, group: str, rank: int) -> float:
    view, rows = profile.rank(rank), host_group(profile, rank, group)
    return float(length(union(view.start[rows], view.end[rows])))


def _of(profile: Profile, group: str, rank: int, value: float) -> Measurement:
    view, rows = profile.rank(rank), host_group(profile, rank, group)
    return of_rank(view, value, lambda: event_rows(view, rows), f"operators of the group {group} on training threads")


METRICS = (
    Metric("host_group_ms", "ms", "How long do host operators of a group take per step?", host_group_ms),
    Metric("host_group_pct", "%", "What share of the step do they take?", host_group_pct),
    Metric("host_slowdown_pct", "%", "How much slower does a rank run the same operators?", host_slowdown_pct),
    Metric("host_group_count", "calls", "How many of them does a step call?", host_group_count),
)
