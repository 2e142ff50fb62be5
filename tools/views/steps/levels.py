"""Stretches of a run whose step times lie at levels of their own."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tools.views.steps.shape import KENDALL_Z, LEAST_STEPS, PETTITT_P, TREND_STEPS, ChangePoint, StepSeries

LEAST_POINTS = 5  # values of a level, where each is the mean over several steps
LEAST_SHIFT = 0.1  # of the level before: what the live monitor calls a slow step too
QUARTILES = (0.25, 0.75)  # of the levels: where these overlap, steps fluctuate


@dataclass(frozen=True)
class Level:
    """A stretch of the run: ``since`` is its first step, ``until`` the first one after it; None where the run ends."""

    since: int | None = None
    until: int | None = None

    @property
    def whole(self) -> bool:
        """True where it is all of the run."""
        return self.since is None and self.until is None

    def holds(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """True for the steps that are of it."""
        since = numbers.min(initial=0) if self.since is None else self.since
        return (numbers >= since) & ((numbers < self.until) if self.until is not None else True)


def clear_change(steps: StepSeries, least_pct: float) -> ChangePoint | None:
    """The change between two levels that hardly overlap and differ by so much: each of ``LEAST_STEPS`` steps and
    ``LEAST_POINTS`` values, which may be means over several steps."""
    change = steps.change_point()
    if change is None or abs(change.shift_pct) < least_pct or not _clear(steps, change):
        return None
    later = int((steps.numbers >= change.step).sum())
    points = min(later, len(steps) - later)
    span = max(1.0, float(np.median(np.diff(steps.numbers))))
    return change if points >= LEAST_POINTS and points * span >= LEAST_STEPS else None


def level_at(steps: StepSeries, step: int) -> Level:
    """The level around a step: since the last clear change before it, until the next one (``LEAST_STEPS`` at least)."""
    level = Level()
    while (change := steps.change_point()) is not None and _clear(steps, change):
        nearer = Level(change.step, level.until) if change.step <= step else Level(level.since, change.step)
        held = nearer.holds(steps.numbers)
        if held.sum() < LEAST_STEPS:
            break
        level, steps = nearer, StepSeries(steps.numbers[held], steps.ms[held])
    return level


def _clear(steps: StepSeries, change: ChangePoint) -> bool:
    """True where two levels lie side by side, apart by more than their steps fluctuate, and no slow drift."""
    return apart(steps, change) and steps.jumps()


def apart(steps: StepSeries, change: ChangePoint) -> bool:
    """True where most steps before the change are on the same side of most steps after it, and not by chance."""
    if change.p > PETTITT_P or abs(change.shift_pct) < 100.0 * LEAST_SHIFT:
        return False
    before, after = steps.ms[steps.numbers < change.step], steps.ms[steps.numbers >= change.step]
    low, high = sorted((before, after), key=lambda ms: float(np.median(ms)))
    return bool(np.quantile(low, QUARTILES[1]) < np.quantile(high, QUARTILES[0]))


MOST_LEVELS = 6  # of a run that is described by them; more are a drift or another pattern
FLAT = 0.25  # of the smaller change next to a level: what its steps may grow or fall from its first to its last one


@dataclass(frozen=True)
class Plateau:
    """Steps from ``first`` to ``last`` at one level, their median ``ms``."""

    first: int
    last: int
    ms: float


def plateaus(steps: StepSeries) -> tuple[Plateau, ...]:
    """Three or more levels one after another, each flat in itself, that describe the series better than a line; none
    where it has fewer or more than ``MOST_LEVELS``.

    Each of k levels has a height and, but for the first, a first step: 2 k - 1 parameters. By Schwarz's criterion with
    absolute deviations they must save ln(n) (2 k - 3) / (2 n) in the logarithm of these over a line with two.
    """
    parts = _joined(_split(steps, MOST_LEVELS + 1))
    if not 3 <= len(parts) <= MOST_LEVELS:
        return ()
    found = tuple(Plateau(int(each.numbers[0]), int(each.numbers[-1]), each.usual_ms) for each in parts)
    changes = [abs(after.ms - before.ms) for before, after in pairwise(found)]
    nearest = [min(changes[max(at - 1, 0) : at + 1]) for at in range(len(found))]
    if not all(_flat(each, FLAT * change) for each, change in zip(parts, nearest, strict=True)):
        return ()
    count, deviations = len(steps), sum(float(np.abs(each.ms - each.usual_ms).sum()) for each in parts)
    saved = float(np.exp(np.log(count) * (2 * len(parts) - 3) / (2.0 * count)))
    return found if steps.off_line_ms() > deviations * saved else ()


def _split(steps: StepSeries, most: int) -> list[StepSeries]:
    """The series cut at its clearest change of level, and so on in both parts, as long as levels lie apart."""
    change = steps.change_point()
    if most < 2 or change is None or not apart(steps, change):
        return [steps]
    later = steps.numbers >= change.step
    span = max(1.0, float(np.median(np.diff(steps.numbers))))
    points = min(int(later.sum()), int((~later).sum()))
    if points < LEAST_POINTS or points * span < TREND_STEPS:
        return [steps]
    before = _split(StepSeries(steps.numbers[~later], steps.ms[~later]), most - 1)
    return [*before, *_split(StepSeries(steps.numbers[later], steps.ms[later]), most - len(before))]


def _joined(parts: list[StepSeries]) -> list[StepSeries]:
    """The parts, neighbours of one level as one, each beginning where the deviations from both levels are smallest."""
    found = parts[:1]
    for part in parts[1:]:
        last = found.pop()
        both = StepSeries(np.concatenate((last.numbers, part.numbers)), np.concatenate((last.ms, part.ms)))
        if abs(part.usual_ms - last.usual_ms) < LEAST_SHIFT * last.usual_ms:
            found.append(both)
            continue
        nearer = np.abs(both.ms - last.usual_ms) - np.abs(both.ms - part.usual_ms)
        at = int(np.argmin(np.cumsum(nearer)[:-1])) + 1
        found += [StepSeries(both.numbers[:at], both.ms[:at]), StepSeries(both.numbers[at:], both.ms[at:])]
    return found


def _flat(steps: StepSeries, most_ms: float) -> bool:
    trend = steps.trend()
    if trend is None or abs(trend.z) < KENDALL_Z:
        return True
    return abs(trend.total_pct) / 100.0 * steps.usual_ms <= most_ms
