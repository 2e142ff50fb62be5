"""The uncertainty of a change of the mean step between two runs, from the spread of their steps."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, sqrt

import numpy as np
from numpy.typing import NDArray

from tools.comparison.compare import Comparison
from tools.metrics.recorded.series import step_series_of
from tools.views.profile import Profile
from tools.views.scatter import student_quantile
from tools.views.steps.shape import StepSeries

LEAST_STEPS = 3  # of each run; the spread of fewer is not known
BATCHED_FROM = 16  # steps from which means of batches count, since neighbouring steps are alike


@dataclass(frozen=True)
class ChangeInterval:
    """The change of the mean step in percent of the step before, and its 95 % confidence interval."""

    change_pct: float
    low_pct: float
    high_pct: float


def change_interval(before: Profile, after: Profile, comparison: Comparison) -> ChangeInterval | None:
    """The interval of a comparison's change; None where a run has fewer than ``LEAST_STEPS`` steps."""
    step = comparison.step
    a, b = (_steps(run, of.metric == "series_step_ms") for run, of in ((before, step.before), (after, step.after)))
    return interval_of(a.ms, b.ms, paired=len(a) >= BATCHED_FROM and np.array_equal(a.numbers, b.numbers))


def interval_of(
    before_ms: NDArray[np.float64], after_ms: NDArray[np.float64], paired: bool = False
) -> ChangeInterval | None:
    """The same of the steps of two runs.

    Welch's interval of the ratio of two means (delta method). Standard errors are of batch means (batches of the root
    of the number of steps), which covers what neighbouring steps share. What differs between two recordings of the
    same program is not in it. ``paired``: both hold the same steps, so that what a schedule changes at the same step of
    both is no noise: the spread is that of the residuals b - r a of the ratio r (Cochran, Sampling Techniques, 1977,
    section 6.4).
    """
    if min(len(before_ms), len(after_ms)) < LEAST_STEPS or float(before_ms.mean()) <= 0:
        return None
    if paired:
        return _of_pairs(before_ms, after_ms)
    a, b = _batches(before_ms), _batches(after_ms)
    part_a, part_b = (float(each.var(ddof=1)) / len(each) / float(each.mean()) ** 2 for each in (a, b))
    ratio, spread = float(after_ms.mean() / before_ms.mean()), sqrt(part_a + part_b)
    freedom = np.inf
    if spread > 0:
        freedom = (part_a + part_b) ** 2 / (part_a**2 / (len(a) - 1) + part_b**2 / (len(b) - 1))
    half = ratio * spread * student_quantile(freedom)
    return ChangeInterval(*(100.0 * (each - 1.0) for each in (ratio, ratio - half, ratio + half)))


def _of_pairs(before_ms: NDArray[np.float64], after_ms: NDArray[np.float64]) -> ChangeInterval:
    ratio = float(after_ms.mean() / before_ms.mean())
    residuals = _batches(after_ms - ratio * before_ms)
    error = float(residuals.std(ddof=1)) / sqrt(len(residuals)) / float(before_ms.mean())
    half = error * student_quantile(len(residuals) - 1)
    return ChangeInterval(*(100.0 * (each - 1.0) for each in (ratio, ratio - half, ratio + half)))


def _steps(profile: Profile, recorded: bool) -> StepSeries:
    """The steps whose mean the comparison shows: unprofiled ones of the records, else the longest rank of each."""
    if recorded and profile.series is not None:
        return step_series_of(profile.series)
    longest = profile.breakdown.groupby("number")["wall_ns"].max() / 1e6
    return StepSeries(longest.index.to_numpy(dtype=np.int64), longest.to_numpy(dtype=np.float64))


def _batches(steps_ms: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(steps_ms) < BATCHED_FROM:
        return steps_ms
    size = isqrt(len(steps_ms))
    whole = steps_ms[: len(steps_ms) // size * size].reshape(-1, size)
    return np.asarray(whole.mean(axis=1), dtype=np.float64)
