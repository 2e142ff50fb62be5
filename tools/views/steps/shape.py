"""The shape of a series of step times: level, spikes, drift, a jump, a rhythm, periodic stalls."""

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
FITTED = 400  # points of a line that a jump is held against
COMPARED = 2000  # pairs of steps grow with the square; longer series are thinned to this many points
ENDS = ("first", "last")
NEXT_TO, ABRUPT = 3, 0.5  # steps next to a change at least, and their part of the difference of the levels


def change_at(ms: NDArray[np.float64], before_ms: float, after_ms: float) -> int:
    """The place from which on steps belong to the level after: the deviations from both levels are smallest."""
    nearer = np.abs(ms - before_ms) - np.abs(ms - after_ms)
    return int(np.argmin(np.cumsum(nearer)[:-1])) + 1


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
    """Long steps that recur at equal distance."""

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

    def usual_share(self, limit_pct: float) -> float:
        """Share of the steps within ``limit_pct`` of the median: small where the steps fall into groups."""
        return float((np.abs(self.ms - self.usual_ms) <= limit_pct / 100.0 * self.usual_ms).mean())

    def trend(self) -> Trend | None:
        """The drift, None with fewer than ``TREND_STEPS`` steps."""
        if len(self.ms) < TREND_STEPS:
            return None
        place = np.unique(np.linspace(0, len(self.ms) - 1, min(len(self.ms), COMPARED)).astype(np.int64))
        values = self.ms[place]
        first, second = np.triu_indices(len(place), k=1)
        difference = values[second] - values[first]
        slope = float(np.median(difference / (place[second] - place[first])))
        count = len(values)
        spread = np.sqrt(count * (count - 1) * (2 * count + 5) / 18.0)
        score = float(np.sign(difference).sum())
        return Trend(100.0 * slope * (len(self.ms) - 1) / self.usual_ms, score / float(spread))

    def quarter_ms(self, end: str) -> float:
        """The median of the first or the last quarter of the steps, of one step at least."""
        count = max(len(self.ms) // 4, 1)
        return float(np.median(self.ms[:count] if end == "first" else self.ms[-count:]))

    def change_point(self) -> ChangePoint | None:
        """The clearest change of level, None with fewer than ``TREND_STEPS`` steps or when the series is constant."""
        count = len(self.ms)
        if count < TREND_STEPS or np.ptp(self.ms) == 0:
            return None
        ranks = pd.Series(self.ms).rank().to_numpy()
        split = np.arange(1, count)
        score = np.abs(2.0 * np.cumsum(ranks)[:-1] - split * (count + 1))
        at = int(np.argmax(score)) + 1
        p = min(1.0, 2.0 * float(np.exp(-6.0 * score[at - 1] ** 2 / (count**3 + count**2))))
        at = change_at(self.ms, float(np.median(self.ms[:at])), float(np.median(self.ms[at:])))
        before, after = float(np.median(self.ms[:at])), float(np.median(self.ms[at:]))
        return ChangePoint(int(self.numbers[at]), before, after, p)

    def jumps(self) -> bool:
        """True where two levels describe the series better than a line, which single long steps do not bend, and the
        steps next to the change differ by half of what the levels do, so that it is no slope between them.

        Levels have three parameters (both and the step of the change), a line has two, so that the levels must save
        more than one costs by Schwarz's criterion: 2 n ln(deviations of the line / of the levels) > ln n, with
        absolute deviations, as of Laplace's distribution.
        """
        change = self.change_point()
        if change is None or not self._abrupt(change):
            return False
        levels = np.where(self.numbers < change.step, change.before_ms, change.after_ms)
        of_levels = float(np.abs(self.ms - levels).sum())
        return self.off_line_ms() > of_levels * float(np.exp(np.log(len(self.ms)) / (2.0 * len(self.ms))))

    def _abrupt(self, change: ChangePoint) -> bool:
        before, after = self.ms[self.numbers < change.step], self.ms[self.numbers >= change.step]
        last, first = before[-max(len(before) // 4, NEXT_TO) :], after[: max(len(after) // 4, NEXT_TO)]
        near = float(np.median(first) - np.median(last))
        return near / (change.after_ms - change.before_ms) >= ABRUPT if change.after_ms != change.before_ms else False

    def off_line_ms(self) -> float:
        """Sum of the absolute deviations from the line of the median slope, ms."""
        line = self._slope(FITTED) * np.arange(len(self.ms))
        line += float(np.median(self.ms - line))
        return float(np.abs(self.ms - line).sum())

    def _slope(self, points: int) -> float:
        """Change per place, the median over all pairs of so many points (Theil-Sen)."""
        place = np.unique(np.linspace(0, len(self.ms) - 1, min(len(self.ms), points)).astype(np.int64))
        first, second = np.triu_indices(len(place), k=1)
        return float(np.median((self.ms[place[second]] - self.ms[place[first]]) / (place[second] - place[first])))

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


LEAST_STEPS = 20  # fewer show no level
LEAST_STALLS = 3
ROBUST_SPREADS = 4.0  # of the usual step's scatter: a long step is no chance
LONG_SHARE = 0.25  # of the largest excess: what is shorter is not one of the same kind
REGULAR_SHARE = 0.8  # of the gaps must be of the period or a multiple of it; of four gaps all: three fit by chance
BEATS = 0.5  # of the places at that distance must be long: a few long steps are multiples of some number by chance
LEAST_PERIOD = 3  # steps; shorter rhythms are two kinds of steps in turn, not stalls
FOLDED_STALLS, LONGEST_PERIOD = 5, 200  # stalls that show a rhythm, and the longest one that is looked for
BY_CHANCE = 0.01  # how likely as many long steps may fall into one phase of some period by chance
AROUND, LOWER = 11, 0.4  # steps that show what is usual around one, and their quantile: every second may be long
HITS, OTHERS, CLEARER = (
    0.8,
    0.25,
    0.1,
)  # of the steps of a phase that are long, of all others, and to prefer a longer period
SCALE = 1.4826  # from the median absolute deviation to a standard deviation


@dataclass(frozen=True)
class Stalls:
    """Long steps of one rhythm; times in ms."""

    period: int  # steps between them
    steps: tuple[int, ...]
    excess_ms: float  # mean excess of a stall, which is one long step or two neighbours, over the usual step
    cost_ms: float  # what they add to the mean step of the series
    summed: tuple[int, ...]  # places in the series whose excess makes up both: also of short steps where one is due
    excesses_ms: tuple[float, ...]  # of each of these over what is usual
    stalls: int  # how many stalls they are


def periodic_stalls(series: StepSeries, limit_pct: float) -> Stalls | None:
    """The long steps when they come at one distance; None otherwise. ``limit_pct``: excess that makes a step long.

    Each step is held against the steps around it, so that a slow stretch or single long steps do not hide the rhythm;
    where no phase of a fixed period stands out, long steps that come at about one distance count as well.
    """
    if len(series) < LEAST_STALLS * LEAST_PERIOD:
        return None
    return _folded(series, limit_pct) or _spaced(series, limit_pct)


def _folded(series: StepSeries, limit_pct: float) -> Stalls | None:
    """The phase of a period in which nearly all steps are long, and hardly any other is: too often for chance."""
    around = pd.Series(series.ms).rolling(AROUND, center=True, min_periods=AROUND // 2).quantile(LOWER).to_numpy()
    excess = series.ms - around
    calm = excess[excess <= np.median(excess)]
    spread = SCALE * float(np.median(np.abs(calm - np.median(calm)))) if len(calm) else 0.0
    high = excess > np.maximum(limit_pct / 100.0 * around, ROBUST_SPREADS * spread)
    chosen: NDArray[np.bool_] | None = None
    best, period = 0.0, 0
    tried = range(LEAST_PERIOD, min(len(series) // FOLDED_STALLS, LONGEST_PERIOD) + 1)
    rate, phases_tried = float(high.mean()), sum(tried)
    for candidate in tried if high.any() else ():
        phases = series.numbers % candidate
        of_phase, long = np.bincount(phases, minlength=candidate), np.bincount(phases[high], minlength=candidate)
        phase = int(np.argmax(np.where(of_phase >= FOLDED_STALLS, long, -1)))
        hits = int(long[phase])
        sides = (phase + 1) % candidate, phase - 1  # a pause may reach into the next step
        rest = len(series) - int(of_phase[[phase, *sides]].sum())
        others = (int(high.sum()) - int(long[[phase, *sides]].sum())) / max(rest, 1)
        share = hits / max(int(of_phase[phase]), 1)
        enough = hits >= FOLDED_STALLS and share >= HITS and others <= OTHERS * share
        if enough and share - others > best + CLEARER and rate**hits * phases_tried < BY_CHANCE:
            best, period, chosen = share - others, candidate, phases == phase
    if chosen is None:
        return None
    long_rows = high & (chosen | _reached(chosen, high))
    return _stalls(series, period, excess, long_rows, chosen | long_rows, int(chosen.sum()))


def long_excess_ms(series: StepSeries, limit_pct: float) -> NDArray[np.float64]:
    """What each step that is long by itself takes over the median of the steps around it, ms; 0 for all others.

    Long is over ``limit_pct`` of that median and beyond the scatter of the series; a level or a drift makes none.
    """
    around = pd.Series(series.ms).rolling(AROUND, center=True, min_periods=AROUND // 2).median().to_numpy()
    excess = np.asarray(series.ms - around, dtype=np.float64)
    spread = SCALE * float(np.median(np.abs(excess - np.median(excess))))
    long = excess > np.maximum(limit_pct / 100.0 * around, ROBUST_SPREADS * spread)
    return np.where(long, excess, 0.0)


def _reached(due: NDArray[np.bool_], high: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The neighbours that stalls reach into: a side where most of them do, and the long one of a due step that is not.

    Any other long neighbour is a step that is long by itself.
    """
    reached = np.zeros(len(due), dtype=np.bool_)
    for aside in (-1, 1):
        side = np.zeros(len(due), dtype=np.bool_)
        places = np.flatnonzero(due) + aside
        places = places[(places >= 0) & (places < len(due))]
        side[places] = True
        moved = side & ~np.roll(high, aside)
        reached |= side if high[side].mean() >= BEATS else moved
    return reached


def _spaced(series: StepSeries, limit_pct: float) -> Stalls | None:
    """Long steps most of which come at one distance, give or take a tenth."""
    usual = series.usual_ms
    excess = series.ms - usual
    spread = SCALE * float(np.median(np.abs(excess)))
    high = excess > max(limit_pct / 100.0 * usual, ROBUST_SPREADS * spread)
    if not high.any():
        return None
    # A single step may be much longer than all others by chance; the second longest shows what is usual among them.
    reference = np.sort(excess[high])[-2:][0]
    long = np.flatnonzero(high & (excess >= LONG_SHARE * reference))
    # A rank that waits for another one's pause may do so in the step after: neighbours are one stall.
    begins = long[np.diff(long, prepend=-2) > 1]
    if len(begins) < LEAST_STALLS:
        return None
    period, share = _period(np.diff(series.numbers[begins]))
    if period < LEAST_PERIOD or share < REGULAR_SHARE:
        return None
    beats = 1 + round(int(series.numbers[begins[-1]] - series.numbers[begins[0]]) / period)
    if len(begins) < BEATS * beats:
        return None
    rows = np.isin(np.arange(len(series)), long)
    return _stalls(series, period, excess, rows, rows, len(begins))


def _stalls(
    series: StepSeries,
    period: int,
    excess: NDArray[np.float64],
    long: NDArray[np.bool_],
    summed: NDArray[np.bool_],
    count: int,
) -> Stalls:
    total = float(excess[summed].sum())
    places, excesses_ms = tuple(np.flatnonzero(summed).tolist()), tuple(excess[summed].tolist())
    numbers = tuple(series.numbers[long].tolist())
    return Stalls(period, numbers, total / count, total / len(series), places, excesses_ms, count)


def _period(gaps: NDArray[np.int64]) -> tuple[int, float]:
    """The distance that most gaps are a multiple of, exactly or off by a tenth, and the share of those that are."""
    best, best_share = 0, 0.0
    for candidate in sorted({int(gap) for gap in gaps}, reverse=True):
        times = np.maximum(np.round(gaps / candidate), 1)
        share = float(np.mean(np.abs(gaps - times * candidate) <= candidate // 10))
        if share > best_share:
            best, best_share = candidate, share
    return best, best_share
