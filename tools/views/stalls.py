"""Long steps that come again at one distance: what saves, evaluates, logs or collects every so many steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.views.step_shape import StepSeries

LEAST_STALLS = 3
ROBUST_SPREADS = 4.0  # of the usual step's scatter: a long step is no chance
LONG_SHARE = 0.25  # of the largest excess: what is shorter is not one of the same kind
REGULAR_SHARE = 0.8  # of the gaps must be of the period or a multiple of it; of four gaps all: three fit by chance
LEAST_PERIOD = 3  # steps; shorter rhythms are two kinds of steps in turn, not stalls
SCALE = 1.4826  # from the median absolute deviation to a standard deviation


@dataclass(frozen=True)
class Stalls:
    """Long steps of one rhythm; times in ms."""

    period: int  # steps between them
    steps: tuple[int, ...]
    excess_ms: float  # mean excess of a stall, which is one long step or two neighbours, over the usual step
    cost_ms: float  # what they add to the mean step of the series
    regular_share: float  # of the gaps between them


def periodic_stalls(series: StepSeries, limit_pct: float) -> Stalls | None:
    """The long steps when they come at one distance; None otherwise. ``limit_pct``: excess that makes a step long."""
    if len(series) < LEAST_STALLS * LEAST_PERIOD:
        return None
    usual = series.usual_ms
    spread = SCALE * float(np.median(np.abs(series.ms - usual)))
    excess = series.ms - usual
    high = excess > max(limit_pct / 100.0 * usual, ROBUST_SPREADS * spread)
    if not high.any():
        return None
    # A single step may be much longer than all others by chance; the second longest tells what is usual among them.
    reference = float(np.sort(excess[high])[-min(2, int(high.sum()))])
    long = np.flatnonzero(high & (excess >= LONG_SHARE * reference))
    if not len(long):
        return None
    # A rank that waits for another one's pause may do so in the step after: neighbours are one stall.
    begins = np.flatnonzero(np.diff(long, prepend=-2) > 1)
    if len(begins) < LEAST_STALLS:
        return None
    period, share = _period(np.diff(series.numbers[long[begins]]))
    if period < LEAST_PERIOD or share < REGULAR_SHARE:
        return None
    total = float(excess[long].sum())
    numbers = tuple(int(each) for each in series.numbers[long])
    return Stalls(period, numbers, total / len(begins), total / len(series), share)


def _period(gaps: NDArray[np.int64]) -> tuple[int, float]:
    """The distance that most gaps are a multiple of, exactly or off by a tenth, and the share of those that are."""
    best, best_share = 0, 0.0
    for candidate in sorted({int(gap) for gap in gaps}, reverse=True):
        times = np.maximum(np.round(gaps / candidate), 1)
        share = float(np.mean(np.abs(gaps - times * candidate) <= candidate // 10))
        if share > best_share:
            best, best_share = candidate, share
    return best, best_share
