"""Figures of single long steps of a series: how many, how long, and what they add to the mean step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric
from tools.metrics.recorded.series import measured_of, rank_stalls, run_series, step_series_of
from tools.views.profile import Profile
from tools.views.steps.shape import LEAST_STEPS, long_excess_ms

ROWS = "usual steps far over the median of the steps around them"


def single_long_ms(profile: Profile, rank: int | None = None) -> NDArray[np.float64]:
    """Excess over the steps around it of each usual step that is long and part of no rhythm, 0 for the others, ms;
    UsageError where the series holds no single steps or too few."""
    series = run_series(profile)
    if unseen := series.unseen(LEAST_STEPS):
        raise UsageError(unseen)
    number = series.slowest_rank if rank is None else rank
    excess = long_excess_ms(step_series_of(series, number), profile.thresholds["fluctuation_pct"])
    stalls = rank_stalls(profile).get(number)
    excess[list(() if stalls is None else stalls.summed)] = 0.0
    return excess


@metric("steps", "single long unprofiled steps", "How many steps are long and part of no rhythm?")
def single_long_steps(profile: Profile, rank: int | None = None) -> Measurement:
    """Steps far over the median of the steps around them, without those of periodic stalls."""
    count = int(np.count_nonzero(single_long_ms(profile, rank)))
    return measured_of(run_series(profile), float(count), rank, ROWS)


@metric("ms", "mean excess of a single long step", "How much longer than the steps around it is a long step?")
def single_long_excess_ms(profile: Profile, rank: int | None = None) -> Measurement:
    """Mean excess of these steps over the median of the steps around each; UsageError without any."""
    excess = single_long_ms(profile, rank)
    if not excess.any():
        raise UsageError("no single step is far over the steps around it")
    return measured_of(run_series(profile), float(excess[excess > 0.0].mean()), rank, ROWS)


@metric("ms", "mean cost of single long steps", "How much do single long steps add to the mean step?")
def single_long_cost_ms(profile: Profile, rank: int | None = None) -> Measurement:
    """Sum of the excesses of these steps over the number of all usual steps."""
    return measured_of(run_series(profile), float(single_long_ms(profile, rank).mean()), rank, ROWS)


@metric("%", "cost of single long steps in the mean step", "Which share of the mean step is due to single long steps?")
def single_long_cost_pct(profile: Profile, rank: int | None = None) -> Measurement:
    """The cost of these steps, of the mean usual step."""
    cost, mean_ms = single_long_cost_ms(profile, rank), float(step_series_of(run_series(profile), rank).ms.mean())
    return measured_of(run_series(profile), 100.0 * cost.value / mean_ms, rank, ROWS)
