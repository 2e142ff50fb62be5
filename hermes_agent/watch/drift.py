"""Notices a slow rise of the step time over hundreds of steps, by a trend test over block medians."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import sqrt
from statistics import median

from hermes_agent.watch.anomaly import AnomalyKind, Deviation
from hermes_agent.watch.thresholds import DEFAULT, WatchThresholds

MOST_BLOCKS = 40


class DriftWatch:
    """Fed with one value per step; begins anew after each drift that it told."""

    def __init__(self, thresholds: WatchThresholds = DEFAULT) -> None:
        self._at = thresholds
        self._block: list[float] = []
        self._medians: list[float] = []

    def feed(self, step: int, value_ms: float) -> list[Deviation]:
        """What is noticed with this step."""
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
        """Forgets: the level changed at once, which is no drift."""
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
