"""Figures of a series that changes its level: both levels, the change, and what the longer level costs."""

from __future__ import annotations

from functools import lru_cache

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.metrics.recorded.series import measured_of, run_series, step_series_of
from tools.views.profile import Profile
from tools.views.steps.levels import Plateau, plateaus
from tools.views.steps.series import RunSeries
from tools.views.steps.shape import ChangePoint

SIDES = ("before", "after")


def level_change(profile: Profile, rank: int | None = None) -> ChangePoint:
    """The clearest change of level in the whole run, of the slowest rank when none is named; UsageError without one."""
    change = step_series_of(run_series(profile).whole, rank).change_point()
    if change is None:
        raise UsageError("the series has too few steps, or too equal ones, for a change of level")
    return change


@metric("%", "unprofiled step time level shift", "Does the unprofiled step time jump to another level?")
def series_shift_pct(profile: Profile, rank: int | None = None) -> Measurement:
    """Change of the median step time at the clearest change of level in the whole run."""
    return measured_of(run_series(profile).whole, level_change(profile, rank).shift_pct, rank, "usual steps")


@metric("ms", "median step time {side} the change of level", "How long are steps before or after the change?")
def series_level_ms(profile: Profile, side: str, rank: int | None = None) -> Measurement:
    """Median step time before or after the clearest change of level in the whole run."""
    choice("side", side, SIDES)
    change = level_change(profile, rank)
    value = change.before_ms if side == "before" else change.after_ms
    return measured_of(run_series(profile).whole, value, rank, f"usual steps {side} step {change.step}")


@metric("ms", "mean cost of the longer level", "How much do the steps at the longer level add to the mean step?")
def series_level_cost_ms(profile: Profile, rank: int | None = None) -> Measurement:
    """Difference of the two median step times, times the share of the steps that are at the longer level."""
    steps, change = step_series_of(run_series(profile).whole, rank), level_change(profile, rank)
    later = float((steps.numbers >= change.step).mean())
    longer = later if change.after_ms > change.before_ms else 1.0 - later
    value = abs(change.after_ms - change.before_ms) * longer
    return measured_of(run_series(profile).whole, value, rank, f"usual steps, level changes at step {change.step}")


@metric("%", "cost of the longer level in the mean step", "Which share of the mean step is due to the longer level?")
def series_level_cost_pct(profile: Profile, rank: int | None = None) -> Measurement:
    """The cost of the longer level, of the mean step of the whole run."""
    cost = series_level_cost_ms(profile, rank)
    mean_ms = float(step_series_of(run_series(profile).whole, rank).ms.mean())
    return measured_of(run_series(profile).whole, 100.0 * cost.value / mean_ms, rank, cost.selector)


@lru_cache(maxsize=2)
def several_levels(series: RunSeries, rank: int | None = None) -> tuple[Plateau, ...]:
    """The levels of a rank's steps, of the slowest rank when none is named; none with fewer than three."""
    return plateaus(step_series_of(series, rank))


def levels_of(profile: Profile, rank: int | None = None) -> tuple[Plateau, ...]:
    """The three or more levels of the whole run, of the slowest rank when none is named; UsageError without them."""
    found = several_levels(run_series(profile).whole, rank)
    if not found:
        raise UsageError("the step times do not lie at three or more levels")
    return found


@metric("ms", "median step time at level {level}", "How long are steps at one of several levels?")
def series_plateau_ms(profile: Profile, level: int, rank: int | None = None) -> Measurement:
    """Median step time at one of three or more levels, 1 for the first."""
    levels = levels_of(profile, rank)
    if not 1 <= level <= len(levels):
        raise UsageError(f"the step times lie at {len(levels)} levels; give one from 1 to {len(levels)}")
    found = levels[level - 1]
    selector = f"usual steps from {found.first} to {found.last}"
    return measured_of(run_series(profile).whole, found.ms, rank, selector)


@metric("ms", "mean cost of the longer levels", "How much do the steps above the shortest level add to the mean step?")
def series_plateaus_cost_ms(profile: Profile, rank: int | None = None) -> Measurement:
    """Median of each step's level less that of the shortest level, over all steps."""
    series, levels = run_series(profile).whole, levels_of(profile, rank)
    numbers = step_series_of(series, rank).numbers
    steps = [int(((numbers >= each.first) & (numbers <= each.last)).sum()) for each in levels]
    least_ms = min(each.ms for each in levels)
    above_ms = sum((each.ms - least_ms) * count for each, count in zip(levels, steps, strict=True))
    return measured_of(series, above_ms / len(numbers), rank, "usual steps at several levels")


@metric("%", "cost of the longer levels in the mean step", "Which share of the mean step is above the shortest level?")
def series_plateaus_cost_pct(profile: Profile, rank: int | None = None) -> Measurement:
    """The cost of the longer levels, of the mean step of the whole run."""
    cost, series = series_plateaus_cost_ms(profile, rank), run_series(profile).whole
    mean_ms = float(step_series_of(series, rank).ms.mean())
    return measured_of(series, 100.0 * cost.value / mean_ms, rank, cost.selector)
