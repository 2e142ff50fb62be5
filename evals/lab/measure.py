"""Step time of a world, and what the fix brought, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 4000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate and the bounds of its bootstrap percentile interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """Step time before and after a fix, in ms, and the speedup (before over after)."""

    before_ms: Interval
    after_ms: Interval
    speedup: Interval


def compare(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> Comparison:
    """Medians over all steps of all launches; each launch is resampled by itself, so launches keep their weight.

    The interval covers the scatter of steps within these launches, not another machine or another day.
    """
    rng = np.random.default_rng(0)
    drawn_before, drawn_after = _medians(before, rng), _medians(after, rng)
    median_before, median_after = _median(before), _median(after)
    return Comparison(
        before_ms=_interval(median_before, drawn_before),
        after_ms=_interval(median_after, drawn_after),
        speedup=_interval(median_before / median_after, drawn_before / drawn_after),
    )


def _median(launches: Sequence[Sequence[float]]) -> float:
    return float(np.median(np.concatenate([np.asarray(steps, dtype=float) for steps in launches])))


def _medians(launches: Sequence[Sequence[float]], rng: np.random.Generator) -> NDArray[np.float64]:
    drawn = [rng.choice(np.asarray(steps, dtype=float), (RESAMPLES, len(steps))) for steps in launches]
    medians: NDArray[np.float64] = np.median(np.concatenate(drawn, axis=1), axis=1)
    return medians


def _interval(estimate: float, drawn: NDArray[np.float64]) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(median=round(estimate, 3), low=round(float(low), 3), high=round(float(high), 3))
