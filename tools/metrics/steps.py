"""Step time and its parts."""

from __future__ import annotations

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, Metric
from tools.profilers.parts import PARTS
from tools.profilers.profile import Profile

STATISTICS = ("median", "mean", "max", "p95")


def _chosen(profile: Profile, rank: int | None, step: int | None) -> pd.DataFrame:
    table = profile.breakdown
    if rank is not None:
        table = table[table["rank"] == profile.rank(rank).rank.rank]
    if step is not None:
        table = table[table["number"] == step]
    if table.empty:
        raise UsageError(f"there is no step {step}" + ("" if rank is None else f" on rank {rank}"))
    return table


def _measured(profile: Profile, value: float, table: pd.DataFrame, selector: str) -> Measurement:
    ranks = tuple(int(number) for number in sorted(table["rank"].unique()))
    steps = tuple(int(number) for number in sorted(table["number"].unique()))
    windows = [profile.rank(rank).rank.window() for rank in ranks]
    window = (min(start for start, _ in windows), max(end for _, end in windows))
    return Measurement(value, lambda: table.reset_index(drop=True), selector, ranks, steps, window)


def step_time_ms(profile: Profile, statistic: str = "median", rank: int | None = None) -> Measurement:
    """Step time over steps (median, mean, max or p95) of one rank, or of the slowest rank of each step."""
    table = _chosen(profile, rank, None)
    walls = table.groupby("number")["wall_ns"].max() / 1e6
    if statistic not in STATISTICS:
        raise UsageError(f"there is no statistic {statistic!r}; choose one of {', '.join(STATISTICS)}")
    value = walls.quantile(0.95) if statistic == "p95" else walls.agg(statistic)
    return _measured(profile, float(value), table, "steps of the run, longest rank of each")


def device_backlog_ms(profile: Profile, rank: int) -> Measurement:
    """How far the device was behind the host when the recorded steps began; the last step's end holds as much more."""
    view = profile.rank(rank)
    value = view.backlog_ns / 1e6
    return _measured(profile, value, _chosen(profile, rank, None), "device work of steps before the first recorded one")


def part_ms(profile: Profile, part: str, rank: int | None = None, step: int | None = None) -> Measurement:
    """Mean time per step in one part of the breakdown, over the chosen ranks and steps."""
    table = _chosen(profile, rank, step)
    return _measured(profile, float(_part(table, part).mean()) / 1e6, table, f"breakdown part {part}")


def part_pct(profile: Profile, part: str, rank: int | None = None, step: int | None = None) -> Measurement:
    """Share of the chosen steps' wall time in one part of the breakdown."""
    table = _chosen(profile, rank, step)
    share = 100.0 * float(_part(table, part).sum()) / float(table["wall_ns"].sum())
    return _measured(profile, share, table, f"breakdown part {part}")


def _part(table: pd.DataFrame, part: str) -> pd.Series[int]:
    if part not in (*PARTS, "overlapped_communication", "wall"):
        raise UsageError(f"there is no part {part!r}; choose one of {', '.join(PARTS)}")
    return table[f"{part}_ns"]


METRICS = (
    Metric("step_time_ms", "ms", "How long does a step take?", step_time_ms),
    Metric("device_backlog_ms", "ms", "How far behind the host did the device begin?", device_backlog_ms),
    Metric("part_ms", "ms", "How much of a step goes into this part?", part_ms),
    Metric("part_pct", "%", "What share of a step goes into this part?", part_pct),
)
