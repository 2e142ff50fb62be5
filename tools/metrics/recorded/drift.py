"""Figures of a series that grows steadily: its slope, both ends of the line, and what the growth costs."""

from __future__ import annotations

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.metrics.recorded.series import mean_ms, measured_of, run_series, step_series_of
from tools.views.profile import Profile
from tools.views.steps.shape import StepSeries

ENDS = ("first", "last")
LINE = "usual steps, median slope of all pairs"


def _grown_ms(steps: StepSeries) -> float:
    """Growth of the line from the first to the last step; UsageError with too few steps."""
    trend = steps.trend()
    if trend is None:
        raise UsageError("the series has too few steps for a trend")
    return trend.total_pct / 100.0 * steps.usual_ms


@metric("ms", "growth of the step time per 100 steps", "How much longer does a step get in 100 steps?")
def series_slope_ms(profile: Profile, rank: int | None = None) -> Measurement:
    """Median slope of all pairs of steps (Theil-Sen), for 100 steps."""
    series = run_series(profile)
    steps = step_series_of(series, rank)
    value = 100.0 * _grown_ms(steps) / float(steps.numbers[-1] - steps.numbers[0])
    return measured_of(series, value, rank, LINE)


@metric("ms", "{end} step of the line through the step times", "How long are the first and the last step?")
def series_line_ms(profile: Profile, end: str, rank: int | None = None) -> Measurement:
    """The line with that slope through the median of the series, at its first or last step."""
    series = run_series(profile)
    half = _grown_ms(step_series_of(series, rank)) / 2.0
    middle = step_series_of(series, rank).usual_ms
    return measured_of(series, middle + (half if choice("end", end, ENDS) == "last" else -half), rank, LINE)


@metric("ms", "mean cost of the growing step", "How much does the growth add to the mean step?")
def series_growth_cost_ms(profile: Profile, rank: int | None = None) -> Measurement:
    """What the line is above its first step on average: half of the growth."""
    series = run_series(profile)
    return measured_of(series, _grown_ms(step_series_of(series, rank)) / 2.0, rank, LINE)


@metric("%", "cost of the growing step in the mean step", "Which share of the mean step is due to its growth?")
def series_growth_cost_pct(profile: Profile, rank: int | None = None) -> Measurement:
    """The cost of the growth, of the mean step."""
    series = run_series(profile)
    cost = series_growth_cost_ms(profile, rank)
    return measured_of(series, 100.0 * cost.value / mean_ms(series, rank), rank, LINE)
