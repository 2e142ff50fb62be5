"""Stretches of a run whose step times lie at levels of their own."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tools.views.steps.shape import (
    KENDALL_Z,
    LEAST_STEPS,
    PETTITT_P,
    SCALE,
    TREND_STEPS,
    ChangePoint,
    StepSeries,
    Trend,
    change_at,
)

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
    ``LEAST_POINTS`` values, which may be means over several steps; None where the steps come back."""
    change = steps.change_point()
    if change is None or abs(change.shift_pct) < least_pct or not _clear(steps, change) or comes_back(steps, change):
        return None
    later = int((steps.numbers >= change.step).sum())
    points = min(later, len(steps) - later)
    span = max(1.0, float(np.median(np.diff(steps.numbers))))
    return change if points >= LEAST_POINTS and points * span >= LEAST_STEPS else None


def comes_back(steps: StepSeries, change: ChangePoint) -> bool:
    """True where a stretch of the steps after the change lies nearer to the level before it, or the other way round."""
    middle_ms, rises = (change.before_ms + change.after_ms) / 2.0, change.after_ms > change.before_ms
    return any(
        (each.usual_ms > middle_ms) == (rises != bool(each.numbers[len(each) // 2] >= change.step))
        for each in stretches(steps)
    )


def steady_trend(steps: StepSeries, least_pct: float) -> Trend | None:
    """A drift by so much at least that a line describes better than levels, and that no stretch of steps turns back."""
    trend = steps.trend()
    if trend is None or abs(trend.z) < KENDALL_Z or abs(trend.total_pct) < least_pct:
        return None
    ms = np.array([each.usual_ms for each in stretches(steps)])
    if steps.jumps() or plateaus(steps) or (np.diff(ms) * trend.total_pct < 0).any():
        return None
    return trend


def level_cost_ms(ms: NDArray[np.float64], long: NDArray[np.bool_], weights: NDArray[np.float64]) -> float:
    """What the steps at the longer of two levels add to the mean, ms: the difference of the medians, and of steps that
    are nearer to the shorter level what they take over it. ``weights``: steps that each value stands for."""
    short_ms, long_ms = float(np.median(ms[~long])), float(np.median(ms[long]))
    above = np.where(ms >= (short_ms + long_ms) / 2.0, long_ms - short_ms, np.maximum(ms - short_ms, 0.0))
    return float((above * weights)[long].sum() / weights.sum())


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


CUT_POINTS = 400  # values of a series that is cut: the work grows with the square
CUT_PARAMETERS = 3.0  # of a cut: its place, and the mean of one more part with its scatter
LEAST_NOISE, TINY_MS = 1e-3, 1e-9  # of equal values, as stamps of whole seconds give them
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
    parts = stretches(steps)
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


def stretches(steps: StepSeries) -> list[StepSeries]:
    """The series cut into stretches of about one level each, in order; one where it has none."""
    return _joined(_split(steps))


def _split(steps: StepSeries) -> list[StepSeries]:
    """The series cut where the logarithms lie nearest to the means of the parts, each cut at the price of Schwarz's
    criterion: by the best of all cuts (optimal partitioning, Jackson et al. 2005), of medians of equal numbers of steps
    where there are more than ``CUT_POINTS``."""
    each = -(-len(steps) // CUT_POINTS)
    count = len(steps) // each
    if count < 2 * LEAST_POINTS:
        return [steps]
    logs = np.log(np.maximum(np.median(steps.ms[: count * each].reshape(count, each), axis=1), TINY_MS))
    noise = SCALE * float(np.median(np.abs(np.diff(logs)))) / np.sqrt(2.0)
    price = CUT_PARAMETERS * max(noise, LEAST_NOISE) ** 2 * np.log(count)
    sums, squares = (np.concatenate(([0.0], np.cumsum(values))) for values in (logs, logs**2))
    least = max(LEAST_POINTS, -(-TREND_STEPS // (each * max(1, round(float(np.median(np.diff(steps.numbers))))))))
    best, cut = np.full(count + 1, np.inf), np.zeros(count + 1, dtype=np.int64)
    best[0] = 0.0
    for end in range(least, count + 1):
        begins = np.arange(end - least + 1)
        spread = squares[end] - squares[begins] - (sums[end] - sums[begins]) ** 2 / (end - begins)
        costs = best[begins] + spread + price
        cut[end] = int(np.argmin(costs))
        best[end] = costs[cut[end]]
    bounds = [count]
    while bounds[-1] > 0:
        bounds.append(int(cut[bounds[-1]]))
    edges = [*(at * each for at in reversed(bounds[1:])), len(steps)]
    return [StepSeries(steps.numbers[at:end], steps.ms[at:end]) for at, end in pairwise(edges)]


def _joined(parts: list[StepSeries]) -> list[StepSeries]:
    """The parts, neighbours of one level as one, each beginning where the deviations from both levels are smallest."""
    found = parts[:1]
    for part in parts[1:]:
        last = found.pop()
        both = StepSeries(np.concatenate((last.numbers, part.numbers)), np.concatenate((last.ms, part.ms)))
        low, high = sorted((last, part), key=lambda each: each.usual_ms)
        overlap = np.quantile(low.ms, QUARTILES[1]) >= np.quantile(high.ms, QUARTILES[0])
        if overlap or high.usual_ms - low.usual_ms < LEAST_SHIFT * last.usual_ms:
            found.append(both)
            continue
        at = change_at(both.ms, last.usual_ms, part.usual_ms)
        found += [StepSeries(both.numbers[:at], both.ms[:at]), StepSeries(both.numbers[at:], both.ms[at:])]
    return found


def _flat(steps: StepSeries, most_ms: float) -> bool:
    trend = steps.trend()
    if trend is None or abs(trend.z) < KENDALL_Z:
        return True
    return abs(trend.total_pct) / 100.0 * steps.usual_ms <= most_ms
