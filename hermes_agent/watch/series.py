"""Anomalies in a series of step times: once (spike), for good (change), regularly (stall), or slowly (drift)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import sqrt
from statistics import median
from typing import NamedTuple

from hermes_agent.watch.anomaly import AnomalyKind, Deviation


@dataclass(frozen=True)
class WatchThresholds:
    """Shares are of the usual step time; windows in steps."""

    slow_share: float = 0.10  # Hermes (USENIX ATC'25) counts a step as fluctuating above 10 % over the usual one
    slow_spreads: float = 4.0  # and beyond noise: that many robust standard deviations
    least_spread_share: float = 0.01  # a very even run must not make a percent look like ten deviations
    history: int = 100  # steps that make the usual one
    least_history: int = 20
    window: int = 8  # a change is called when most of the last steps are slow, hence within a window of its begin
    window_slow: int = 6
    cusum_slack: float = 0.5  # of a standard deviation per step: half the smallest shift of interest (Page, 1954)
    cusum_limit: float = 18.0  # eight steps at the clip: a shorter run of slow steps is left to the window above
    cusum_clip: float = 3.0  # no single step may decide
    contrast_slack: float = 0.5  # of a deviation per step: a rank's fault of 10 % is one deviation in noise of 10 %
    # With independent normal noise one false alarm in 6e7 steps of a rank (Siegmund, 1985: exp(2 k b) / 2 k^2, with
    # b = limit + 1.166); correlated noise counts as what it adds to a sum, and ``rank_share`` comes on top.
    contrast_limit: float = 16.0
    contrast_history: int = 200  # the noise is known to a tenth, its autocorrelation of 10 steps to a third
    least_contrasts: int = 40  # with fewer the noise of the usual itself would be half of the slack
    contrast_refresh: int = 10  # steps after which the noise is estimated again
    contrast_lags: int = 10  # steps over which the autocorrelation of own time fades on shared machines
    cpu_share: float = 0.08  # of the step that a rank's CPU time must grow by: it is less noisy than own time
    cpu_window: int = 24  # steps that it must last: its noise comes in bursts of up to 16 steps
    cpu_core_wait_share: float = 0.10  # of the step: with less waiting for a core nothing makes it the better measure
    spike_stretch: int = 100  # steps whose spikes are reported in one line
    core_wait_share: float = 0.5  # of an excess: so much waiting for a core explains it, and no capture is spent on it
    confirm: int = 20  # steps that a change without a suspect must last before a capture is spent on it, and that what
    # is suspected must be gone for before it counts as over
    least_change_share: float = 0.05  # smaller shifts are not worth a capture
    drift_block: int = 50
    drift_blocks: int = 6
    drift_share: float = 0.05  # rise from the first to the last blocks
    drift_jump: float = 0.6  # a rise that is mostly one jump is a change, not a drift
    drift_z: float = 2.58  # Mann-Kendall, 99 %
    stall_count: int = 5  # spikes at one distance; four even gaps hardly come by chance
    stall_tolerance: float = 0.1  # of the distance, rounded down: below 10 steps it must be exact
    # Of the step: a rank is named above it, a change without a suspect captured; a trace is judged at 5 %, what costs a
    # capture only well above it.
    rank_share: float = 0.10
    rank_window: int = 40  # a rank that was slow from the start; one that gets slow is noticed sooner by its change
    rank_constancy: float = 0.8  # share of steps in which the same rank was the slowest
    hang_times: float = 20.0  # usual steps without one ending
    hang_least_s: float = 30.0  # an evaluation or a checkpoint between two steps is no standstill
    suspect_share: float = 0.5  # of the excess that one rank must explain
    suspect_lead: float = 2.0  # times the excess of any other rank
    suspect_noises: float = 3.0  # of a median of n steps: sqrt(pi / 2 n) of the noise of one, where it is normal


DEFAULT = WatchThresholds()


MOST_BLOCKS = 40  # medians that a drift is looked for in
ROBUST = 1.4826  # median absolute deviation to standard deviation, for normal noise
TAIL = 0.85  # quantile; a stall in fewer than one of seven steps stays noticeable
TAIL_DEVIATIONS = 1.036  # where that quantile of a normal distribution lies


class Usual(NamedTuple):
    """The usual step in ms: median, and standard deviation estimated by the median absolute deviation or the tail."""

    middle_ms: float
    spread_ms: float


def usual_of(values_ms: Sequence[float], all_ms: Sequence[float], thresholds: WatchThresholds = DEFAULT) -> Usual:
    """Return the usual of some values; the spread is at least that of a normal with the upper tail of ``all_ms``."""
    middle = median(values_ms)
    spread = ROBUST * median(abs(each - middle) for each in values_ms)
    tail = 0.0
    if len(all_ms) >= thresholds.least_history:
        tail = (sorted(all_ms)[int(TAIL * (len(all_ms) - 1))] - middle) / TAIL_DEVIATIONS
    return Usual(middle, max(spread, tail, thresholds.least_spread_share * middle))


class SeriesWatch:
    """Takes one value per step. Slow steps do not enter the usual level until they have become it."""

    def __init__(self, thresholds: WatchThresholds = DEFAULT) -> None:
        self._at = thresholds
        self._history: deque[float] = deque(maxlen=thresholds.history)
        self._recent: deque[tuple[int, float]] = deque(maxlen=thresholds.window)
        self._older: deque[float] = deque(maxlen=thresholds.history)  # all that came before the recent ones
        self._sum = 0.0
        self._since: list[tuple[int, float]] = []
        self._spikes: deque[tuple[int, float]] = deque(maxlen=thresholds.stall_count)
        self._slow_before = False
        self._reported_every = 0

    @property
    def usual(self) -> Usual | None:
        """The usual step; None while too few were seen."""
        known = len(self._history) >= self._at.least_history
        return usual_of(self._history, self._older, self._at) if known else None

    def feed(self, step: int, value_ms: float) -> list[Deviation]:
        """Deviations that this step makes clear."""
        usual = self.usual
        if usual is None:
            self._history.append(value_ms)
            self._older.append(value_ms)
            return []
        if len(self._recent) == self._at.window:
            self._older.append(self._recent[0][1])
        self._recent.append((step, value_ms))
        found = self._level(step, usual) or self._shift(step, value_ms, usual)
        if found:
            return [found]
        slow = value_ms > self._limit(usual)
        spike = self._spike(step, value_ms, usual) if slow and not self._slow_before else []
        self._slow_before = slow
        if not slow:
            self._history.append(value_ms)
        return spike

    def _limit(self, usual: Usual) -> float:
        return usual.middle_ms + max(self._at.slow_share * usual.middle_ms, self._at.slow_spreads * usual.spread_ms)

    def _level(self, step: int, usual: Usual) -> Deviation | None:
        """Most of the last steps are slow, or fast."""
        limit = self._limit(usual)
        slow = [each for each in self._recent if each[1] > limit]
        fast = [each for each in self._recent if each[1] < 2 * usual.middle_ms - limit]
        for kind, steps in ((AnomalyKind.CHANGE, slow), (AnomalyKind.RECOVERY, fast)):
            if len(steps) >= self._at.window_slow:
                return self._new_level(kind, steps, step, usual)
        return None

    def _shift(self, step: int, value_ms: float, usual: Usual) -> Deviation | None:
        """A rise too small for one step to show: the cumulative sum of what is above the usual (CUSUM)."""
        if len(self._older) < 2 * self._at.least_history:
            return None  # the noise is not known well enough to add it up
        deviation = (value_ms - usual.middle_ms) / usual.spread_ms
        self._sum += max(-self._at.cusum_clip, min(deviation, self._at.cusum_clip)) - self._at.cusum_slack
        if self._sum <= 0:
            self._sum, self._since = 0.0, []
            return None
        self._since.append((step, value_ms))
        self._since = self._since[-self._at.history :]
        rise = median(value for _, value in self._since) / usual.middle_ms - 1
        clear = self._sum >= self._at.cusum_limit and rise >= self._at.least_change_share
        if not clear or len(self._since) < self._at.window_slow:
            return None
        return self._new_level(AnomalyKind.CHANGE, self._since, step, usual)

    def _new_level(self, kind: AnomalyKind, steps: list[tuple[int, float]], now: int, usual: Usual) -> Deviation:
        values = [value for _, value in steps]
        for levels in (self._history, self._older):
            levels.clear()
            levels.extend(values)
        self._recent.clear()
        self._sum, self._since, self._slow_before = 0.0, [], False
        return Deviation(kind, steps[0][0], now, usual.middle_ms, median(values))

    def _spike(self, step: int, value_ms: float, usual: Usual) -> list[Deviation]:
        self._spikes.append((step, value_ms))
        found = [Deviation(AnomalyKind.SPIKE, step, step, usual.middle_ms, value_ms)]
        every = self._period()
        if every and abs(every - self._reported_every) > self._at.stall_tolerance * every:
            self._reported_every = every
            seen = median(value for _, value in self._spikes)
            found.append(Deviation(AnomalyKind.STALL, step, step, usual.middle_ms, seen, every))
        return found

    def _period(self) -> int:
        """The steps between the last spikes when they are even, else 0."""
        if len(self._spikes) < self._at.stall_count:
            return 0
        steps = [step for step, _ in self._spikes]
        gaps = [b - a for a, b in pairwise(steps)]
        middle = median(gaps)
        even = all(abs(gap - middle) <= int(self._at.stall_tolerance * middle) for gap in gaps)
        return round(middle) if even and middle > 2 else 0


class DriftWatch:
    """Takes one value per step; starts again after each drift that it reported."""

    def __init__(self, thresholds: WatchThresholds = DEFAULT) -> None:
        self._at = thresholds
        self._block: list[float] = []
        self._medians: list[float] = []

    def feed(self, step: int, value_ms: float) -> list[Deviation]:
        """Deviations that this step makes clear."""
        self._block.append(value_ms)
        if len(self._block) < self._at.drift_block:
            return []
        self._medians = [*self._medians, median(self._block)][-MOST_BLOCKS:]
        self._block = []
        if len(self._medians) < self._at.drift_blocks or not self._drifts():
            return []
        before, now = median(self._medians[:2]), median(self._medians[-2:])
        self._medians = []
        return [Deviation(AnomalyKind.DRIFT, step, step, before, now)]

    def restart(self) -> None:
        """Forget: the level changed at once, which is no drift."""
        self._block, self._medians = [], []

    def _drifts(self) -> bool:
        values = self._medians
        rise = median(values[-2:]) - median(values[:2])
        steepest = max(b - a for a, b in pairwise(values))
        enough = rise > self._at.drift_share * median(values[:2])
        return enough and steepest < self._at.drift_jump * rise and mann_kendall(values) > self._at.drift_z


def mann_kendall(values: list[float]) -> float:
    """The z value of the Mann-Kendall trend test, without correction for ties; positive when values rise."""
    score = sum((b > a) - (b < a) for a, b in combinations(values, 2))
    count = len(values)
    variance = count * (count - 1) * (2 * count + 5) / 18
    return (score - (score > 0) + (score < 0)) / sqrt(variance)
