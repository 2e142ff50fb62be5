"""Compiled regions and the steps in which a training thread computes much longer than usual."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tools.profilers.rank_profile import RankProfile
from tools.profilers.series import RunSeries
from tools.profilers.stalls import ROBUST_SPREADS, SCALE

# torch.compile counts the versions of each frame: "0/17" is the eighteenth version of the first frame.
VERSION = re.compile(r"^Torch-Compiled Region: (?:!\d+/)?(?P<frame>\d{1,9})/(?P<version>\d{1,9})(?!\d)")
RUNNING = 0.5  # of its excess a long step must run on a core, else it waits


@dataclass(frozen=True)
class Versions:
    """How often frames were compiled, by the versions of them that a trace shows."""

    again: int  # compilations after the first of a frame: the highest number seen, summed over frames
    in_use: int  # different versions of the frame that has most, in the recorded steps


def versions(view: RankProfile) -> Versions:
    """Of the rank's compiled regions; zeros where there are none."""
    marked = np.flatnonzero(view.named("compiled_region"))
    names = view.rank.events.frame["name"].iloc[marked].astype("str").unique()
    found: dict[str, set[int]] = {}
    for name in names:
        if match := VERSION.match(name):
            found.setdefault(match["frame"], set()).add(int(match["version"]))
    return Versions(sum(max(each) for each in found.values()), max((len(each) for each in found.values()), default=0))


def computing_steps(series: RunSeries, rank: int, limit_pct: float) -> pd.DataFrame:
    """The rank's long steps in which its thread runs for most of the excess; ``excess_ms``: without the collector.

    Empty too where the series does not tell the thread's time.
    """
    own = series.of(rank)
    if own.empty or "thread_cpu_ms" not in own or own["thread_cpu_ms"].isna().any():
        return own.iloc[:0].assign(excess_ms=0.0)
    wall, ran = (own[name] - own[name].median() for name in ("wall_ms", "thread_cpu_ms"))
    spread = SCALE * float(wall.abs().median())
    long = wall > max(limit_pct / 100.0 * float(own["wall_ms"].median()), ROBUST_SPREADS * spread)
    collected = own["gc_ms"] - own["gc_ms"].median() if "gc_ms" in own else 0.0
    excess = np.minimum(wall, ran) - collected
    return own.assign(excess_ms=excess)[long & (ran >= RUNNING * wall) & (excess > 0)]
