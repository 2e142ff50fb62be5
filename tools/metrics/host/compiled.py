"""Compiled regions and the steps in which a training thread computes much longer than usual."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric, of_events
from tools.metrics.recorded.samples import host_records
from tools.metrics.recorded.series import rank_stalls, run_series
from tools.run.model import MONITOR_FORMAT
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.steps.series import RunSeries
from tools.views.steps.shape import ROBUST_SPREADS, SCALE

# torch.compile counts the versions of each frame: "0/17" is the eighteenth version of the first frame.
VERSION = re.compile(r"^Torch-Compiled Region: (?:!\d+/)?(?P<frame>\d{1,9})/(?P<version>\d{1,9})(?!\d)")
RUNNING = 0.5  # of its excess a long step must run on a core, else it waits


def versions(view: RankProfile) -> pd.DataFrame:
    """Of the rank's compiled regions, by frame: the highest version seen and how many different ones, in all steps."""
    matches = map(VERSION.match, view.distinct_names(np.flatnonzero(view.named("compiled_region"))))
    found = pd.DataFrame([match.groups() for match in matches if match], columns=["frame", "version"])
    found["version"] = found["version"].astype("int64")
    return found.groupby("frame").agg(highest=("version", "max"), in_use=("version", "nunique"))


def computing_steps(series: RunSeries, rank: int, limit_pct: float) -> pd.DataFrame:
    """The rank's long steps in which its thread computes; ``excess_ms`` without collections. Empty if not recorded."""
    own = series.of(rank)
    if own.empty or "thread_cpu_ms" not in own or own["thread_cpu_ms"].isna().any():
        return own.iloc[:0].assign(excess_ms=0.0)
    wall, ran = (own[name] - own[name].median() for name in ("wall_ms", "thread_cpu_ms"))
    spread = SCALE * float(wall.abs().median())
    long = wall > max(limit_pct / 100.0 * float(own["wall_ms"].median()), ROBUST_SPREADS * spread)
    collected = own["gc_ms"] - own["gc_ms"].median() if "gc_ms" in own else 0.0
    excess = np.minimum(wall, ran) - collected
    return own.assign(excess_ms=excess)[long & (ran >= RUNNING * wall) & (excess > 0)]


@metric("compilations", "recompilations of compiled regions", "How often were compiled regions recompiled?")
def compiled_again(profile: Profile, rank: int) -> Measurement:
    """Number of recompilations of compiled regions before the trace, at least: by the numbers of their versions."""
    view = profile.rank(rank)
    rows = np.flatnonzero(view.named("compiled_region"))
    return of_events(view, float(versions(view)["highest"].sum()), rows, "versions of compiled regions")


@metric("ms", "mean cost per step of long computing steps", "How much do long computing steps cost?")
def computing_long_ms(profile: Profile, rank: int) -> Measurement:
    """Cost per mean step of long steps in which the training thread computes, without collections."""
    steps = max(len(run_series(profile).of(rank)), 1)
    return _of_long(profile, rank, lambda table: float(table["excess_ms"].sum()) / steps)


@metric("steps", "long steps spent computing", "In how many long steps does the thread compute?")
def computing_long_steps(profile: Profile, rank: int) -> Measurement:
    """Number of long steps in which the training thread computes for most of the excess."""
    return _of_long(profile, rank, len)


@metric("%", "on-core share of periodic long steps", "Does the thread run in periodic long steps?")
def stall_running_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the excess of a rhythm's long steps in which the training thread ran on a core."""
    stalls = rank_stalls(profile).get(rank)
    own = run_series(profile).of(rank)
    if stalls is None or "thread_cpu_ms" not in own or own["thread_cpu_ms"].isna().any():
        raise UsageError(f"the records of rank {rank} do not show whether it ran in periodic long steps")
    long = own["step"].isin(stalls.steps)
    ran, lasted = (float((own[name][long] - own[name][~long].median()).sum()) for name in ("thread_cpu_ms", "wall_ms"))
    table = own.loc[long, ["rank", "step", "wall_ms", "thread_cpu_ms"]].reset_index(drop=True)
    share_pct = 100.0 * max(ran, 0.0) / max(lasted, 1e-9)
    return Measurement(share_pct, lambda: table, "long steps of a rhythm", (rank,), stalls.steps, source=MONITOR_FORMAT)


@metric("%", "unprofiled samples with an active profiler", "Does a profiler stay on between traces?")
def profiler_active_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the monitor's samples in usual steps that found a profiler of torch at work."""
    records = host_records(profile)
    samples, steps = records.samples(rank), records.series.of(rank)
    at, begins, ends = (
        table[name].to_numpy(dtype=np.int64)
        for table, name in ((samples, "unix_ns"), (steps, "begin_unix_ns"), (steps, "end_unix_ns"))
    )
    place = np.searchsorted(begins, at, side="right") - 1
    inside = (place >= 0) & (at <= np.append(ends, -1)[place])
    table = samples.loc[inside, ["rank", "unix_ns", "profiler_active"]].dropna().reset_index(drop=True)
    if table.empty:
        raise UsageError(f"the records of rank {rank} do not show whether a profiler ran in usual steps")
    value, numbers = 100.0 * float((table["profiler_active"] > 0).mean()), records.series.numbers(rank)
    return Measurement(value, lambda: table, "samples of profiler_active", (rank,), numbers, source=MONITOR_FORMAT)


def _of_long(profile: Profile, rank: int, value_of: Callable[[pd.DataFrame], float]) -> Measurement:
    series = run_series(profile)
    table = computing_steps(series, rank, profile.thresholds["fluctuation_pct"])
    if table.empty and series.of(rank).empty:
        raise UsageError(f"no step of rank {rank} is recorded")
    shown = [name for name in ("rank", "step", "wall_ms", "thread_cpu_ms", "gc_ms", "excess_ms") if name in table]
    numbers = tuple(int(step) for step in table["step"])
    rows = table[shown].reset_index(drop=True)
    return Measurement(value_of(table), lambda: rows, "long computing steps", (rank,), numbers, source=series.source)
