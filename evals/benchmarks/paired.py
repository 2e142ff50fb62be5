"""The median of paired differences, and how sure it is."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

RESAMPLES = 2000
OUTSIDE = 0.025  # on each side of a 95 % interval


@dataclass(frozen=True)
class Median:
    """A median with its bootstrap interval of 95 %."""

    value: float
    low: float
    high: float

    def plus(self, more: float) -> Median:
        """With what is known for certain added."""
        return Median(self.value + more, self.low + more, self.high + more)

    def times(self, factor: float) -> Median:
        """In another unit; the factor is not negative."""
        return Median(self.value * factor, self.low * factor, self.high * factor)

    def text(self, digits: int) -> str:
        """As it is shown."""
        return f"{self.value:+.{digits}f} ({self.low:+.{digits}f} to {self.high:+.{digits}f})"


def median_with_interval(differences: Sequence[float]) -> Median:
    """Resamples the differences, the same way each time."""
    random = Random(1)
    count = len(differences)
    medians = sorted(statistics.median(random.choices(differences, k=count)) for _ in range(RESAMPLES))
    low, high = medians[int(OUTSIDE * RESAMPLES)], medians[RESAMPLES - 1 - int(OUTSIDE * RESAMPLES)]
    return Median(statistics.median(differences), low, high)
