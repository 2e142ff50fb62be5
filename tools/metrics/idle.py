"""Device idle time by reason."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import union
from tools.metrics.measurement import Measurement, Metric
from tools.metrics.scope import event_rows, of_rank, over_steps, step_ms, wall_ms
from tools.profilers.idle import REASONS, idle_by_step, idle_time
from tools.profilers.profile import Profile


def idle_ms_by_step(profile: Profile, rank: int, reason: str) -> NDArray[np.float64]:
    """Idle milliseconds for a reason (or ``all``) in each step of a rank with a device."""
    return np.asarray(idle_by_step(profile, rank)[reason].to_numpy() / 1e6)


def device_idle_ms(profile: Profile, rank: int, reason: str = "all", statistic: str = "mean") -> Measurement:
    """Idle time of a rank's device per step, for one reason of ``tools.profilers.idle`` or for all."""
    return _measured(profile, rank, reason, over_steps(_checked(profile, rank, reason), statistic))


def device_idle_pct(profile: Profile, rank: int, reason: str = "all") -> Measurement:
    """Share of a rank's step time in which its device is idle for that reason."""
    share = 100.0 * _checked(profile, rank, reason).sum() / wall_ms(profile.rank(rank)).sum()
    return _measured(profile, rank, reason, float(share))


def device_busy_pct(profile: Profile, rank: int) -> Measurement:
    """Share of a rank's step time in which at least one kernel runs on its device."""
    view = profile.rank(rank)
    if not view.rank.has_device:
        raise UsageError(f"rank {rank} has no device that could be busy")
    kernels = view.in_steps(view.kernels)
    busy = step_ms(view, union(view.start[view.kernels], view.end[view.kernels]))
    value = 100.0 * busy.sum() / wall_ms(view).sum()
    return of_rank(view, value, lambda: event_rows(view, kernels), "kernels in steps: time in which any runs")


def _checked(profile: Profile, rank: int, reason: str) -> NDArray[np.float64]:
    if reason not in ("all", *REASONS):
        raise UsageError(f"there is no idle reason {reason!r}; choose all or one of {', '.join(REASONS)}")
    if not profile.rank(rank).rank.has_device:
        raise UsageError(f"rank {rank} has no device that could be idle")
    return idle_ms_by_step(profile, rank, reason)


def _measured(profile: Profile, rank: int, reason: str, value: float) -> Measurement:
    def rows() -> pd.DataFrame:
        gaps = idle_time(profile, rank).gaps
        return gaps if reason == "all" else gaps[gaps[f"{reason}_ns"] > 0]

    return of_rank(profile.rank(rank), value, rows, f"device idle, reason {reason}: time in which no stream runs")


METRICS = (
    Metric("device_busy_pct", "%", "What share of a step does the device run kernels?", device_busy_pct),
    Metric("device_idle_ms", "ms", "How long is the device idle in a step, and why?", device_idle_ms),
    Metric("device_idle_pct", "%", "What share of a step is the device idle, and why?", device_idle_pct),
)
