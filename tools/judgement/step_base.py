"""Which steps a mean step is of: the profiled ones by the slowest rank of each, or those of one rank by the records."""

from __future__ import annotations

from dataclasses import dataclass

from tools.analyzers.steps.step_time import untouched
from tools.views.profile import Profile


@dataclass(frozen=True)
class StepBase:
    """A mean step in ms, the number of steps that it is the mean of, and which these are.

    ``metric`` with the statistic ``mean`` measures it again.
    """

    step_ms: float
    steps: int
    metric: str
    said: str


def profiled_base(profile: Profile) -> StepBase:
    """The mean of the profiled steps, the slowest rank of each; without a trace that of the records."""
    if not profile.traced:
        return recorded_base(profile)
    steps, ranks = len(profile.step_ms), len(profile.ranks)
    said = f"mean of {steps} profiled step{'s' * (steps != 1)}"
    if all(view.rank.step_origin == "window" for view in profile.ranks):
        said = "the whole recording, in which no steps are marked"
    elif ranks > 1:
        said += ", by the slowest rank of each"
    return StepBase(profile.mean_step_ms, steps, "step_time_ms", said)


def recorded_base(profile: Profile) -> StepBase:
    """The mean of the records' steps of the rank with the longest mean step."""
    series = profile.series
    assert series is not None
    steps, words = len(series.slowest_ms), untouched(profile)
    rank = f" of rank {series.slowest_rank}" if len(series.ranks) > 1 else ""
    lines = f"{steps} lines, each of several steps" if series.averaged else f"{steps} step{'s' * (steps != 1)}"
    said = f"mean of {lines}{rank} {words}".rstrip()
    return StepBase(series.mean_ms, steps, "series_step_ms", said)


def step_base(profile: Profile, step_ms: float | None) -> StepBase:
    """The steps that a mean step of this length is of; None for the mean step that a replay starts from."""
    if step_ms is not None and profile.series is not None and step_ms == profile.series.mean_ms:
        return recorded_base(profile)
    return profiled_base(profile)
