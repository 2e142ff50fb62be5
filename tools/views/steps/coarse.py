"""The coarse view of a trace: its step times, and each rank's own time."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile
from tools.views.steps.shape import StepSeries


@memoized
def step_series(profile: Profile, rank: int | None = None) -> StepSeries:
    """Step times of one rank, or of the slowest rank of each step, all measured from mark to mark of the host."""
    views = profile.ranks if rank is None else (profile.rank(rank),)
    longest = pd.concat([_marked_ms(view) for view in views]).groupby(level=0).max().sort_index()
    return StepSeries(longest.index.to_numpy(dtype=np.int64), np.asarray(longest, dtype=np.float64))


def _marked_ms(view: RankProfile) -> pd.Series[float]:
    table = view.breakdown
    wall_ns = table["wall_ns"].to_numpy(dtype=np.float64).copy()
    start_ns, end_ns = view.rank.steps[-1].start_ns, view.rank.steps[-1].end_ns
    marks = np.flatnonzero(view.named("profiler_step") & view.on_training_thread & (view.start >= start_ns))
    marked_end = int(view.end[marks].max()) if len(marks) else end_ns
    if len(wall_ns) > 1 and start_ns < marked_end < end_ns:
        wall_ns[-1] = marked_end - start_ns
    return pd.Series(wall_ns / 1e6, index=table["number"].to_numpy(dtype=np.int64))


def own_ms(profile: Profile) -> pd.Series[float]:
    """Per rank the mean time per step that is not exposed communication: what the rank itself took."""
    table = profile.breakdown
    own = (table["wall_ns"] - table["exposed_communication_ns"]) / 1e6
    return own.groupby(table["rank"]).mean()


def spread_pct(values: pd.Series[float]) -> float:
    """(max - min)/mean over ranks, as a percentage."""
    mean = float(values.mean())
    return 100.0 * float(values.max() - values.min()) / mean if mean > 0 else 0.0


STEPS = 3


WHOLE_FILES = "a whole trace: copy the files again if the originals are whole, or let the profiler finish writing"


def capture_of(profile: Profile) -> str:
    """The recording that shows the parts of a step, with the command for it."""
    if profile.run.cut:
        return WHOLE_FILES
    ranks = ",".join(str(rank) for rank in _suspects(profile))
    command = f"hermes-dx monitor profile RUN_FOLDER --ranks {ranks} --steps {STEPS}"
    return f"a trace of a few steps: `{command}` while the training runs under the monitor"


TORCH_OPTION = re.compile(r"(?:with_stack|record_shapes|profile_memory|enable_cuda_sync_events)=True")


def by_nsight(profile: Profile) -> bool:
    """Whether some of the traces are of Nsight Systems."""
    return any(each.format == "nsys" for each in profile.run.sources)


def by_torch(profile: Profile, advice: str) -> str:
    """The advice; where the traces are of Nsight Systems, with the profiler named whose options it holds."""
    if not by_nsight(profile) or not TORCH_OPTION.search(advice):
        return advice
    same = advice.startswith("the same steps")
    return f"a PyTorch profiler trace of {advice}" if same else f"{advice} (options of the PyTorch profiler)"


def _suspects(profile: Profile) -> tuple[int, ...]:
    series = profile.series
    if series is None:
        return profile.rank_numbers[:2] or (0,)
    if "own_ms" in series.usual and not series.usual["own_ms"].isna().any() and len(series.ranks) > 1:
        own = series.usual.groupby("rank")["own_ms"].mean()
        if spread_pct(own) >= profile.thresholds["rank_spread_pct"]:
            return (int(str(own.idxmax())),)
    return series.ranks[:2]
