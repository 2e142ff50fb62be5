"""The shape of a series of step times: level, spikes, drift, a jump, a rhythm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

TREND_STEPS = 10  # fewer points than this carry no drift or jump worth naming
PERIOD_STEPS = 20
ROUNDS = 3  # how often a rhythm must have come round to be one
KENDALL_Z = 2.58  # two-sided 1 %
PETTITT_P = 0.1  # ten points split into two clean halves reach 0.07
COMPARED = 2000  # pairs of steps grow with the square; longer series are thinned to this many points


@dataclass(frozen=True)
class Trend:
    """A drift over the whole series."""

    total_pct: float  # change from first to last step by the median slope (Theil-Sen), of the median step
    z: float  # Mann-Kendall statistic


@dataclass(frozen=True)
class ChangePoint:
    """The place at which the level of the series changes most clearly."""

    step: int  # first step of the new level
    before_ms: float
    after_ms: float
    p: float  # Pettitt's test

    @property
    def shift_pct(self) -> float:
        """Change of the median from before to after."""
        return 100.0 * (self.after_ms - self.before_ms) / self.before_ms


@dataclass(frozen=True)
class Rhythm:
    """Long steps that come again at equal distance."""

    period: int  # steps
    excess_pct: float  # of the long steps over the usual one
    correlation: float  # of the series with itself shifted by the period


@dataclass(frozen=True, eq=False)
class StepSeries:
    """Step times in order of steps, ms."""

    numbers: NDArray[np.int64]
    ms: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ms)

    @property
    def usual_ms(self) -> float:
        """The median step."""
        return float(np.median(self.ms))

    @property
    def variation_pct(self) -> float:
        """Standard deviation over mean; 0 for a single step."""
        return 100.0 * float(self.ms.std(ddof=1) / self.ms.mean()) if len(self.ms) > 1 else 0.0

    def fluctuating(self, limit_pct: float) -> NDArray[np.int64]:
        """Numbers of the steps more than ``limit_pct`` over the usual one, longest first."""
        over = np.flatnonzero(self.ms > self.usual_ms * (1.0 + limit_pct / 100.0))
        return self.numbers[over[np.argsort(-self.ms[over], kind="stable")]]

    def trend(self) -> Trend | None:
        """The drift, None with fewer than ``TREND_STEPS`` steps."""
        if len(self.ms) < TREND_STEPS:
            return None
        place = _thinned(len(self.ms))
        values = self.ms[place]
        first, second = np.triu_indices(len(place), k=1)
        difference = values[second] - values[first]
        slope = float(np.median(difference / (place[second] - place[first])))
        count = len(values)
        spread = np.sqrt(count * (count - 1) * (2 * count + 5) / 18.0)
        score = float(np.sign(difference).sum())
        return Trend(100.0 * slope * (len(self.ms) - 1) / self.usual_ms, score / float(spread))

    def change_point(self) -> ChangePoint | None:
        """Where the level changes most, None with fewer than ``TREND_STEPS`` steps or when the series is constant."""
        count = len(self.ms)
        if count < TREND_STEPS or np.ptp(self.ms) == 0:
            return None
        ranks = pd.Series(self.ms).rank().to_numpy()
        split = np.arange(1, count)
        score = np.abs(2.0 * np.cumsum(ranks)[:-1] - split * (count + 1))
        at = int(np.argmax(score)) + 1
        p = min(1.0, 2.0 * float(np.exp(-6.0 * score[at - 1] ** 2 / (count**3 + count**2))))
        before, after = float(np.median(self.ms[:at])), float(np.median(self.ms[at:]))
        return ChangePoint(int(self.numbers[at]), before, after, p)

    def jumps(self) -> bool:
        """Whether two levels describe the series better than a straight line."""
        change = self.change_point()
        if change is None:
            return False
        levels = np.where(self.numbers < change.step, change.before_ms, change.after_ms)
        place = np.arange(len(self.ms))
        line = np.polyval(np.polyfit(place, self.ms, 1), place)
        return float(np.abs(self.ms - levels).sum()) < float(np.abs(self.ms - line).sum())

    def rhythm(self) -> Rhythm | None:
        """The clearest period, None with fewer than ``PERIOD_STEPS`` steps or without any."""
        count = len(self.ms)
        if count < PERIOD_STEPS or np.ptp(self.ms) == 0:
            return None
        centred = self.ms - self.ms.mean()
        spectrum = np.abs(np.fft.rfft(centred, 2 * count)) ** 2
        correlation = np.fft.irfft(spectrum)[:count] / float((centred**2).sum())
        unbiased = correlation * count / (count - np.arange(count))
        lags = np.arange(2, count // ROUNDS + 1)
        best = float(unbiased[lags].max())
        if best <= 0:
            return None
        period = int(lags[unbiased[lags] >= 0.95 * best][0])
        phases = [np.median(self.ms[phase::period]) for phase in range(period)]
        excess = 100.0 * (float(max(phases)) - self.usual_ms) / self.usual_ms
        return Rhythm(period, excess, float(unbiased[period]))


def _thinned(count: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, count - 1, min(count, COMPARED)).astype(np.int64))


LEAST_STEPS = 20  # fewer tell no level, and no shares of it
LEAST_SHIFT = 0.1  # of the level before: what the live monitor calls a slow step too
QUARTILES = (0.25, 0.75)  # of the levels: where these overlap, steps fluctuate


@dataclass(frozen=True)
class Level:
    """A stretch of the run: ``since`` is its first step, ``until`` the first one after it; None where the run ends."""

    since: int | None = None
    until: int | None = None

    @property
    def whole(self) -> bool:
        """Whether it is all of the run."""
        return self.since is None and self.until is None

    def holds(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these steps are of it."""
        held = np.ones(len(numbers), dtype=bool)
        if self.since is not None:
            held &= numbers >= self.since
        if self.until is not None:
            held &= numbers < self.until
        return held


def level_at(steps: StepSeries, step: int) -> Level:
    """The level around a step: since the last clear change before it, until the next one.

    A stretch of fewer than ``LEAST_STEPS`` steps is no level of its own.
    """
    level = Level()
    while (change := steps.change_point()) is not None and _clear(steps, change):
        nearer = Level(change.step, level.until) if change.step <= step else Level(level.since, change.step)
        held = nearer.holds(steps.numbers)
        if held.sum() < LEAST_STEPS:
            break
        level, steps = nearer, StepSeries(steps.numbers[held], steps.ms[held])
    return level


def _clear(steps: StepSeries, change: ChangePoint) -> bool:
    """Whether two levels lie side by side, apart by more than their steps fluctuate, and no slow drift."""
    if change.p > PETTITT_P or abs(change.shift_pct) < 100.0 * LEAST_SHIFT or not steps.jumps():
        return False
    before, after = steps.ms[steps.numbers < change.step], steps.ms[steps.numbers >= change.step]
    low, high = sorted((before, after), key=lambda ms: float(np.median(ms)))
    return bool(np.quantile(low, QUARTILES[1]) < np.quantile(high, QUARTILES[0]))
