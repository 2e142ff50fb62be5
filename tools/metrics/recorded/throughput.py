"""Figures of the throughput that a job's output states where it states no time of a step."""

from __future__ import annotations

import numpy as np

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric, over_steps
from tools.metrics.recorded.job_log import job_log, of_lines
from tools.metrics.recorded.level_change import SIDES
from tools.views.profile import Profile
from tools.views.steps.shape import ChangePoint, Stalls, periodic_stalls
from tools.views.steps.throughput import RateSeries, rate_series


def stated_rates(profile: Profile) -> RateSeries:
    """The series of the throughput; UsageError without one."""
    found = rate_series(profile.run)
    if found is None:
        raise UsageError("the job's output states no throughput, or states the time of its steps as well")
    return found


@metric("/s", "{statistic} stated throughput", "Which throughput does the job's output state?")
def stated_throughput(profile: Profile, statistic: str = "median") -> Measurement:
    """Samples, tokens or what the lines count per second, without the first lines."""
    rates = stated_rates(profile)
    return _of(profile, over_steps(rates.table["per_s"].to_numpy(dtype=np.float64), statistic), rates)


@metric("/s", "{statistic} throughput of single steps", "How far do single steps differ by what lines count in them?")
def single_step_rate(profile: Profile, statistic: str) -> Measurement:
    """The lowest or the highest throughput of one step, where the times of the lines are means of several."""
    log = job_log(profile)
    if log.single_rates is None:
        raise UsageError("the job's output states no throughput of single steps next to means of their times")
    rows = log.single_rates.table
    low = choice("statistic", statistic, ["max", "min"]) == "min"
    return of_lines(log, float(rows["per_s"].min() if low else rows["per_s"].max()), rows, "lines with a throughput")


def rate_change(profile: Profile) -> ChangePoint:
    """The clearest change of level of one over the throughput; UsageError without one."""
    change = stated_rates(profile).inverse.change_point()
    if change is None:
        raise UsageError("the output states the throughput of too few steps, or too equal ones, for a change of level")
    return change


@metric("/s", "median stated throughput {side} the change of level", "What is the throughput before or after it?")
def throughput_level(profile: Profile, side: str) -> Measurement:
    """Median throughput before or after the clearest change of level."""
    choice("side", side, SIDES)
    change = rate_change(profile)
    each_s = change.before_ms if side == "before" else change.after_ms
    return _of(profile, 1.0 / each_s, stated_rates(profile))


@metric("%", "cost of the lower throughput in the mean time of a sample", "How much does the lower throughput cost?")
def throughput_level_cost_pct(profile: Profile) -> Measurement:
    """Difference of the times per sample or token at both levels, times the share of the lines at the lower throughput,
    of the mean time: of the mean step, as long as steps hold equally much."""
    rates, change = stated_rates(profile), rate_change(profile)
    steps = rates.inverse
    later = float((steps.numbers >= change.step).mean())
    lower = later if change.after_ms > change.before_ms else 1.0 - later
    return _of(profile, 100.0 * abs(change.after_ms - change.before_ms) * lower / float(steps.ms.mean()), rates)


@metric("%", "drift of the time by stated throughput", "Does the throughput drift over the run?")
def throughput_drift_pct(profile: Profile) -> Measurement:
    """Drift of one over the throughput from the first to the last line, of its median: positive where it falls."""
    rates = stated_rates(profile)
    trend = rates.inverse.trend()
    if trend is None:
        raise UsageError("the output states the throughput of too few steps for a drift")
    return _of(profile, trend.total_pct, rates)


@metric("steps", "steps with a low stated throughput", "In how many steps is the throughput much lower than usual?")
def throughput_long_steps(profile: Profile) -> Measurement:
    """Steps in which one over the throughput is over its median by more than the threshold ``fluctuation_pct``."""
    rates = stated_rates(profile)
    long = rates.inverse.fluctuating(profile.thresholds["fluctuation_pct"])
    return _of(profile, float(len(long)), rates)


def rate_stalls(profile: Profile) -> Stalls | None:
    """Steps of a low throughput at one distance; None without them, or where not each step is printed."""
    rates = stated_rates(profile)
    return periodic_stalls(rates.inverse, profile.thresholds["fluctuation_pct"]) if rates.every_step else None


@metric("steps", "period of the low throughput", "How many steps lie between falls of the throughput?")
def throughput_stall_period(profile: Profile) -> Measurement:
    """Distance in steps at which the throughput falls for a step."""
    return _of(profile, float(_stalls(profile).period), stated_rates(profile))


@metric("%", "cost of the recurring low throughput in the mean time of a sample", "How much do these falls cost?")
def throughput_stall_cost_pct(profile: Profile) -> Measurement:
    """What the steps at one distance add to the mean of one over the throughput."""
    rates = stated_rates(profile)
    return _of(profile, 100.0 * _stalls(profile).cost_ms / float(rates.inverse.ms.mean()), rates)


def _stalls(profile: Profile) -> Stalls:
    found = rate_stalls(profile)
    if found is None:
        raise UsageError("no low throughput recurs at one distance, or not each step is printed")
    return found


def _of(profile: Profile, value: float, rates: RateSeries) -> Measurement:
    table = rates.table
    return of_lines(job_log(profile), value, table, f"throughput in {rates.unit}", tuple(map(int, table["step"])))
