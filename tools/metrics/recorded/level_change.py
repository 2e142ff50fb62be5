"""Figures of a series that changes its level: both levels, the change, and what the longer level costs."""

from __future__ import annotations

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.metrics.recorded.series import measured_of, run_series, step_series_of
from tools.views.profile import Profile
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
