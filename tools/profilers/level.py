"""The level of step time to which the traced steps belong, in a run that got slower or faster on its way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.profilers.step_shape import PETTITT_P, ChangePoint, StepSeries

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
