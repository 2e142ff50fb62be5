"""A rank whose own time grows while the others' does not, noticed by the difference between them.

What slows all ranks alike (another job on the machine, a longer batch) is in neither side of the difference. Each
rank's difference to the median of the others is summed up in units of its own noise (CUSUM: Page, 1954), of which
noise that lasts over several steps counts as much as it adds to a sum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from math import sqrt
from statistics import median
from typing import NamedTuple

from hermes_agent.watch.parts import above_others
from hermes_agent.watch.series import DEFAULT, ROBUST, Usual, WatchThresholds


class Growth(NamedTuple):
    """A rank's time grew from step ``since`` on by ``excess_ms`` per step over that of the other ranks.

    ``usual_ms`` and ``seen_ms`` are the rank's own medians before and since.
    """

    rank: int
    since: int
    excess_ms: float
    usual_ms: float
    seen_ms: float


def lasting_noise(values_ms: Sequence[float], thresholds: WatchThresholds = DEFAULT) -> Usual:
    """Return the median of some differences in ms, and the standard deviation that counts when they are summed up.

    The robust deviation of a single one, times the root of what autocorrelation multiplies the variance of a long sum
    by, 1 + 2 sum w(k) r(k) with Bartlett's weights (Newey and West, 1987, equation 5); at least 1.
    """
    middle = median(values_ms)
    spread = ROBUST * median(abs(each - middle) for each in values_ms)
    if spread <= 0.0:
        return Usual(middle, 0.0)
    clip, lags = thresholds.cusum_clip, thresholds.contrast_lags
    scores = [max(-clip, min((each - middle) / spread, clip)) for each in values_ms]
    variance = sum(each * each for each in scores)
    lasting = 1.0
    for lag in range(1, lags + 1):
        together = sum(a * b for a, b in zip(scores, scores[lag:], strict=False))
        lasting += 2 * (1 - lag / (lags + 1)) * together / variance
    return Usual(middle, spread * sqrt(max(lasting, 1.0)))


class ContrastWatch:
    """One rank's difference to the others, one value in ms per step; both directions are noise, one is a fault.

    A rise that was reported and passed by itself shows what is usual in this run: each one raises the limit.
    """

    def __init__(self, thresholds: WatchThresholds = DEFAULT) -> None:
        self._at = thresholds
        self._history: deque[float] = deque(maxlen=thresholds.contrast_history)
        self._since: deque[tuple[int, float]] = deque(maxlen=thresholds.history)
        self._sum = 0.0
        self._usual: Usual | None = None
        self.noise_ms: float | None = None  # of a step as it counts in a sum, when last estimated
        self._new = 0  # values in the history since the usual was taken from it
        self._reported: tuple[float, float] | None = None  # the levels in ms before and after the last rise
        self._passed = 0  # reported rises that passed by themselves

    def feed(self, step: int, contrast_ms: float, wall_ms: float) -> tuple[int, float] | None:
        """Return the step of the begin and the rise in ms where this step makes a rise clear."""
        at = self._at
        if len(self._history) < at.least_contrasts:
            self._history.append(contrast_ms)
            return None
        if self._usual is None or self._new >= at.contrast_refresh:
            self._usual, self._new = lasting_noise(self._history, at), 0
            self.noise_ms = self._usual.spread_ms
            self._look_back(self._usual.middle_ms)
        usual = self._usual.middle_ms
        deviation = (contrast_ms - usual) / max(self._usual.spread_ms, at.least_spread_share * wall_ms)
        self._sum += max(-at.cusum_clip, min(deviation, at.cusum_clip)) - at.contrast_slack
        if self._sum <= 0.0:
            self._history.extend(value for _, value in self._since)
            self._history.append(contrast_ms)
            self._new += len(self._since) + 1
            self._sum = 0.0
            self._since.clear()
            return None
        self._since.append((step, contrast_ms))
        if self._sum >= at.contrast_limit * (1 + self._passed) and len(self._since) >= at.window:
            begin, rise_ms = self._rise(usual)
            if rise_ms >= at.rank_share * wall_ms:
                self._restart([])
                self._reported = usual, usual + rise_ms
                return begin, rise_ms
        if len(self._since) == self._since.maxlen:  # such a long excursion below the threshold has become the usual
            self._restart([value for _, value in self._since])
        return None

    def _rise(self, usual_ms: float) -> tuple[int, float]:
        """Return the step since which the rise explains most of the excursion's variance, and the rise in ms.

        An excursion may begin in noise some steps before the fault; a rise has at least a window of steps.
        """
        steps, values = zip(*self._since, strict=True)
        sums = [0.0, *accumulate(value - usual_ms for value in reversed(values))]  # of the last 0, 1, ... steps
        counts = range(min(self._at.window, len(values)), len(values) + 1)
        count = max(counts, key=lambda last: sums[last] * abs(sums[last]) / last)
        return steps[-count], median(values[-count:]) - usual_ms

    def _restart(self, values_ms: Sequence[float]) -> None:
        """Learn the usual again, from these values on."""
        self._history.clear()
        self._history.extend(values_ms)
        self._since.clear()
        self._sum = 0.0
        self._usual = None

    def _look_back(self, level_ms: float) -> None:
        """Count the last reported rise where the level after it is nearer to the one before."""
        if self._reported is None:
            return
        before_ms, after_ms = self._reported
        self._passed += level_ms < (before_ms + after_ms) / 2
        self._reported = None


class RankWatch:
    """All ranks of a group."""

    def __init__(self, thresholds: WatchThresholds = DEFAULT) -> None:
        self._at = thresholds
        self._series: dict[int, ContrastWatch] = {}
        self._values: dict[int, deque[tuple[int, float]]] = {}

    def feed(self, step: int, values_ms: dict[int, float], wall_ms: float) -> list[Growth]:
        """Return the ranks whose time this step shows to have grown over that of the others."""
        found: list[Growth] = []
        for rank, contrast_ms in above_others(values_ms).items():
            series = self._series.setdefault(rank, ContrastWatch(self._at))
            values = self._values.setdefault(rank, deque(maxlen=2 * self._at.history))
            values.append((step, values_ms[rank]))
            if (rise := series.feed(step, contrast_ms, wall_ms)) is not None:
                since, excess_ms = rise
                usual_ms = median(value for at, value in values if at < since)
                seen_ms = median(value for at, value in values if at >= since)
                found.append(Growth(rank, since, excess_ms, usual_ms, seen_ms))
        return found

    def noise_ms(self, rank: int) -> float | None:
        """Return the noise of a rank's difference to the others; None before it is known."""
        return self._series[rank].noise_ms if rank in self._series else None

    def leave(self, rank: int) -> None:
        """The rank has ended; what the others were compared with has changed."""
        self._series.clear()
        self._values.clear()
