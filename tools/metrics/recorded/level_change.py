"""Figures of a series that changes its level: both levels, the change, and what the longer level costs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.metrics.recorded.series import mean_ms, measured_of, run_series, step_series_of, step_weights
from tools.views.profile import Profile
from tools.views.steps.levels import Plateau, level_cost_ms, plateaus, stretches
from tools.views.steps.series import RunSeries
from tools.views.steps.shape import ChangePoint, StepSeries

SIDES = ("before", "after")
STRETCHES = ("shortest", "longest", "last")


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
    series, change = run_series(profile).whole, level_change(profile, rank)
    steps = step_series_of(series, rank)
    long = (steps.numbers >= change.step) == (change.after_ms > change.before_ms)
    value = level_cost_ms(steps.ms, long, step_weights(series, rank))
    return measured_of(series, value, rank, f"usual steps, level changes at step {change.step}")


@metric("%", "cost of the longer level in the mean step", "Which share of the mean step is due to the longer level?")
def series_level_cost_pct(profile: Profile, rank: int | None = None) -> Measurement:
    """The cost of the longer level, of the mean step of the whole run."""
    cost, series = series_level_cost_ms(profile, rank), run_series(profile).whole
    return measured_of(series, 100.0 * cost.value / mean_ms(series, rank), rank, cost.selector)


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
    numbers, weights = step_series_of(series, rank).numbers, step_weights(series, rank)
    steps = [float(weights[(numbers >= each.first) & (numbers <= each.last)].sum()) for each in levels]
    least_ms = min(each.ms for each in levels)
    above_ms = sum((each.ms - least_ms) * count for each, count in zip(levels, steps, strict=True))
    return measured_of(series, above_ms / float(weights.sum()), rank, "usual steps at several levels")


@metric("%", "cost of the longer levels in the mean step", "Which share of the mean step is above the shortest level?")
def series_plateaus_cost_pct(profile: Profile, rank: int | None = None) -> Measurement:
    """The cost of the longer levels, of the mean step of the whole run."""
    cost, series = series_plateaus_cost_ms(profile, rank), run_series(profile).whole
    return measured_of(series, 100.0 * cost.value / mean_ms(series, rank), rank, cost.selector)


@lru_cache(maxsize=2)
def _stretches(series: RunSeries, rank: int | None = None) -> tuple[StepSeries, ...]:
    return tuple(stretches(step_series_of(series, rank)))


def turning(profile: Profile) -> tuple[StepSeries, ...]:
    """The stretches of the whole run where they get longer and shorter in turn, apart by ``fluctuation_pct``; else
    none, and none where the run is described by a few levels."""
    series = run_series(profile).whole
    found = () if several_levels(series) else _stretches(series)
    ms = np.array([each.usual_ms for each in found])
    if len(found) < 3 or 100.0 * np.ptp(ms) / ms.min() < profile.thresholds["fluctuation_pct"]:
        return ()
    return found if (np.diff(ms) > 0).any() and (np.diff(ms) < 0).any() else ()


def _turning(profile: Profile) -> tuple[StepSeries, ...]:
    found = turning(profile)
    if not found:
        raise UsageError("no stretches of steps get longer and shorter in turn")
    return found


@metric("count", "stretches of steps of one level each", "How often does the step time change its level?")
def series_stretches(profile: Profile) -> Measurement:
    """Number of stretches of about one level each, of steps that get longer and shorter in turn."""
    return measured_of(run_series(profile).whole, float(len(_turning(profile))), None, "stretches of usual steps")


@metric("ms", "median step of the {which} stretch", "How long are steps where they are short, long, or at the end?")
def series_stretch_ms(profile: Profile, which: str) -> Measurement:
    """Median of the stretch with the shortest, the longest or the last steps."""
    found = _turning(profile)
    by_ms = sorted(found, key=lambda each: each.usual_ms)
    chosen = {"shortest": by_ms[0], "longest": by_ms[-1], "last": found[-1]}[choice("which", which, STRETCHES)]
    selector = f"usual steps from {chosen.numbers[0]} to {chosen.numbers[-1]}"
    return measured_of(run_series(profile).whole, chosen.usual_ms, None, selector)
