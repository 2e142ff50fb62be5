"""Step time of a scenario, and what the fix brought, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.lab.fault import Statistic

RESAMPLES = 4000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate (median or mean over steps, as asked) and the bounds of its bootstrap percentile interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """Step time before and after a fix, in ms, the speedup (before over after), and the share of the step saved."""

    before_ms: Interval
    after_ms: Interval
    speedup: Interval
    saving_pct: Interval


def compare(
    before: Sequence[Sequence[float]], after: Sequence[Sequence[float]], statistic: Statistic = "median"
) -> Comparison:
    """Over all steps of all launches; each launch is resampled by itself, so launches keep their weight.

    The mean is for what hits some steps only. The interval covers the scatter of steps within these launches, not
    another machine or another day.
    """
    rng = np.random.default_rng(0)
    drawn_before, drawn_after = _resampled(before, statistic, rng), _resampled(after, statistic, rng)
    step_before, step_after = _estimate(before, statistic), _estimate(after, statistic)
    return Comparison(
        before_ms=_interval(step_before, drawn_before),
        after_ms=_interval(step_after, drawn_after),
        speedup=_interval(step_before / step_after, drawn_before / drawn_after),
        saving_pct=_interval(100 * (1 - step_after / step_before), 100 * (1 - drawn_after / drawn_before)),
    )


def _estimate(launches: Sequence[Sequence[float]], statistic: Statistic) -> float:
    together = np.concatenate([np.asarray(steps, dtype=float) for steps in launches])
    return float(np.median(together) if statistic == "median" else np.mean(together))


def _resampled(
    launches: Sequence[Sequence[float]], statistic: Statistic, rng: np.random.Generator
) -> NDArray[np.float64]:
    drawn = [rng.choice(np.asarray(steps, dtype=float), (RESAMPLES, len(steps))) for steps in launches]
    together = np.concatenate(drawn, axis=1)
    result: NDArray[np.float64] = np.median(together, axis=1) if statistic == "median" else np.mean(together, axis=1)
    return result


def _interval(estimate: float, drawn: NDArray[np.float64]) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(median=round(estimate, 3), low=round(float(low), 3), high=round(float(high), 3))
