"""A rank whose own time grows while the others' does not, noticed by the difference between them.

What slows all ranks alike (another job on the machine, a longer batch) is in neither side of the difference. Each
rank's difference to the median of the others is summed up in units of its own noise (CUSUM: Page, 1954).
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import NamedTuple

from hermes_agent.watch.series import DEFAULT, ROBUST, WatchThresholds


class Growth(NamedTuple):
    """A rank's own time grew from step ``since`` on by ``excess_ms`` per step over that of the other ranks."""

    rank: int
    since: int
    excess_ms: float


class ContrastWatch:
    """One rank's difference to the others, one value in ms per step; both directions are noise, one is a fault."""

    def __init__(self, thresholds: WatchThresholds = DEFAULT) -> None:
        self._at = thresholds
        self._history: deque[float] = deque(maxlen=thresholds.history)
        self._since: deque[tuple[int, float]] = deque(maxlen=thresholds.history)
        self._sum = 0.0

    def feed(self, step: int, contrast_ms: float, wall_ms: float) -> tuple[int, float] | None:
        """Return the step of the begin and the rise in ms where this step makes a rise clear."""
        at = self._at
        if len(self._history) < at.least_history:
            self._history.append(contrast_ms)
            return None
        usual = median(self._history)
        noise = max(ROBUST * median(abs(each - usual) for each in self._history), at.least_spread_share * wall_ms)
        deviation = (contrast_ms - usual) / noise
        self._sum += max(-at.cusum_clip, min(deviation, at.cusum_clip)) - at.contrast_slack
        if self._sum <= 0.0:
            self._history.extend(value for _, value in self._since)
            self._history.append(contrast_ms)
            self._sum = 0.0
            self._since.clear()
            return None
        self._since.append((step, contrast_ms))
        begin, rise_ms = self._since[0][0], median(value for _, value in self._since) - usual
        if len(self._since) == self._since.maxlen:
            self._restart()  # such a long excursion below the threshold has become the usual
        if self._sum < at.contrast_limit or len(self._since) < at.window or rise_ms < at.rank_share * wall_ms:
            return None
        self._restart()
        return begin, rise_ms

    def _restart(self) -> None:
        """Take the values since the begin of the rise for the usual ones."""
        self._history.clear()
        self._history.extend(value for _, value in self._since)
        self._since.clear()
        self._sum = 0.0


class RankWatch:
    """All ranks of a group."""

    def __init__(self, thresholds: WatchThresholds = DEFAULT) -> None:
        self._at = thresholds
        self._series: dict[int, ContrastWatch] = {}

    def feed(self, step: int, contrasts_ms: dict[int, float], wall_ms: float) -> list[Growth]:
        """Return the ranks whose own time this step shows to have grown."""
        found: list[Growth] = []
        for rank, contrast_ms in contrasts_ms.items():
            series = self._series.setdefault(rank, ContrastWatch(self._at))
            if (rise := series.feed(step, contrast_ms, wall_ms)) is not None:
                found.append(Growth(rank, *rise))
        return found

    def leave(self, rank: int) -> None:
        """The rank has ended; what the others were compared with has changed."""
        self._series.clear()
