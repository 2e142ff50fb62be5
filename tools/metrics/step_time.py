"""Step time, its parts, and the critical path by family (by replay of the dependency graph)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, as_pct, choice, metric, of_ranks, over_steps
from tools.run.steps import OutsideSteps
from tools.views.parts import PARTS
from tools.views.profile import Profile
from tools.views.steps.coarse import own_ms, spread_pct, step_series
from tools.views.steps.shape import ENDS
from tools.whatif.critical_path import FAMILIES, REMOVABLE, critical_path, family_savings
from tools.whatif.predict import unchanged

RANK_TIMES = ("wall", "own")
SHOWN_PARTS = (*PARTS, "overlapped_communication", "wall")


def _chosen(profile: Profile, rank: int | None, step: int | None) -> pd.DataFrame:
    table = profile.breakdown
    if rank is not None:
        table = table[table["rank"] == profile.rank(rank).rank.rank]
    if step is not None:
        table = table[table["number"] == step]
    if table.empty:
        raise UsageError(f"there is no step {step}" + ("" if rank is None else f" on rank {rank}"))
    return table


def _measured(profile: Profile, value: float, table: pd.DataFrame, selector: str) -> Measurement:
    ranks, steps = (sorted(int(number) for number in table[name].unique()) for name in ("rank", "number"))
    return of_ranks(profile, value, table, selector, ranks, steps)


@metric("ms", "{statistic} step time", "How long does a step take?")
def step_time_ms(profile: Profile, statistic: str = "median", rank: int | None = None) -> Measurement:
    """Step time over steps (median, mean, max or p95) of one rank, or of the slowest rank of each step."""
    table = _chosen(profile, rank, None)
    walls = table.groupby("number")["wall_ns"].max() / 1e6
    return _measured(profile, over_steps(walls.to_numpy(), statistic), table, "steps of the run, longest rank of each")


def slowest_on_average(profile: Profile) -> int:
    """The rank with the longest mean step."""
    return int(str(profile.breakdown.groupby("rank")["wall_ns"].mean().idxmax()))


@metric("steps/s", "steps per second", "How many steps does the run make per second?")
def steps_per_s(profile: Profile, rank: int | None = None) -> Measurement:
    """One over the mean traced step of one rank, or of the rank with the longest: ranks that take turns in being slow
    do not add up."""
    mean = step_time_ms(profile, "mean", slowest_on_average(profile) if rank is None else rank)
    return replace(mean, value=1e3 / mean.value)


@metric("steps/h", "steps per hour", "How many steps does the run make per hour?")
def steps_per_h(profile: Profile, rank: int | None = None) -> Measurement:
    """3,600 s over the mean traced step of one rank, or of the rank with the longest."""
    rate = steps_per_s(profile, rank)
    return replace(rate, value=3600.0 * rate.value)


@metric("ms", "time from the first recorded step to the end of the last", "How long was recorded?")
def recorded_ms(profile: Profile, rank: int) -> Measurement:
    """From the begin of the rank's first step to the end of its last one."""
    steps = profile.rank(rank).steps
    value = float(steps["end_ns"].max() - steps["start_ns"].min()) / 1e6
    return _measured(profile, value, _chosen(profile, rank, None), "recorded steps")


@metric("ms", "device backlog at the first recorded step", "How far behind the host was the device at first?")
def device_backlog_ms(profile: Profile, rank: int) -> Measurement:
    """Lag of the device behind the host when the recorded steps began; the last step's end holds as much more."""
    table, selector = _chosen(profile, rank, None), "device work of steps before the first recorded one"
    return _measured(profile, profile.rank(rank).backlog_ns / 1e6, table, selector)


OUTSIDE = ("before", "between", "after")


def _outside_steps(profile: Profile, rank: int) -> OutsideSteps:
    outside = profile.rank(rank).outside_steps
    if outside is None:
        raise UsageError(f"the steps of rank {rank} are not inferred from annotations or optimizer calls")
    return outside


@metric("ms", "recorded time {where} the steps", "How much of the recording is in no step?")
def outside_steps_ms(profile: Profile, rank: int, where: str) -> Measurement:
    """Recorded time of a rank before, between or after its steps, which were inferred."""
    outside = _outside_steps(profile, rank)
    value = {"before": outside.before_ns, "between": outside.between_ns, "after": outside.after_ns}
    table, selector = _chosen(profile, rank, None), f"recording {choice('where', where, OUTSIDE)} the steps"
    return _measured(profile, value[where] / 1e6, table, selector)


@metric("%", "recorded time outside of the steps", "Which share of the recording is in no step?")
def outside_steps_pct(profile: Profile, rank: int) -> Measurement:
    """Share of a rank's recording that lies in none of its steps, which were inferred."""
    outside = _outside_steps(profile, rank)
    value = 100.0 * outside.total_ns / max(outside.recorded_ns, 1)
    return _measured(profile, value, _chosen(profile, rank, None), "recording outside of the steps")


@metric("ms", "mean {part} per step", "How much of a step goes into this part?")
def part_ms(profile: Profile, part: str, rank: int | None = None, step: int | None = None) -> Measurement:
    """Mean time per step in one part of the breakdown, over the chosen ranks and steps."""
    table = _chosen(profile, rank, step)
    value = float(table[f"{choice('part', part, SHOWN_PARTS)}_ns"].mean()) / 1e6
    return _measured(profile, value, table, f"breakdown part {part}")


@metric("%", "{part} share of the step", "Which share of a step goes into this part?")
def part_pct(profile: Profile, part: str, rank: int | None = None, step: int | None = None) -> Measurement:
    """Share of the chosen steps' wall time in one part of the breakdown."""
    whole_ms = float(_chosen(profile, rank, step)["wall_ns"].mean()) / 1e6
    return as_pct(part_ms(profile, part, rank, step), whole_ms)


@metric("%", "step time variation", "How much does the step time vary?")
def step_variation_pct(profile: Profile, rank: int | None = None) -> Measurement:
    """Standard deviation of the step time over its mean."""
    return _of_series(profile, rank, step_series(profile, rank).variation_pct)


@metric("count", "long steps", "How many steps are much longer than the usual one?")
def fluctuating_steps(profile: Profile, rank: int | None = None) -> Measurement:
    """Number of steps are over the usual one by more than the threshold ``fluctuation_pct``."""
    limit = profile.thresholds["fluctuation_pct"]
    return _of_series(profile, rank, float(len(step_series(profile, rank).fluctuating(limit))))


@metric("ms", "time beyond the usual step", "How much longer than usual was this step?")
def step_excess_ms(profile: Profile, step: int, rank: int | None = None) -> Measurement:
    """Extra time of one step over the usual one."""
    series = step_series(profile, rank)
    if step not in series.numbers:
        raise UsageError(f"there is no step {step}; the run has {series.numbers[0]} to {series.numbers[-1]}")
    value = float(series.ms[series.numbers == step][0]) - series.usual_ms
    return replace(_of_series(profile, rank, value), steps=(step,))


@metric("ms", "{part} beyond its median", "How much longer than usual was this part of the step?")
def step_part_excess_ms(profile: Profile, part: str, step: int, rank: int) -> Measurement:
    """Extra time of one part of a rank's step over the median of that part over the rank's steps."""
    column = f"{choice('part', part, PARTS)}_ns"
    own = _chosen(profile, rank, step)[column].iloc[0]
    table = profile.rank(rank).breakdown
    value = float(own - table[column].median()) / 1e6
    return of_ranks(profile, value, table, f"breakdown part {part}", rank, (step,))


@metric("%", "step time drift", "Does the step time drift?")
def step_trend_pct(profile: Profile, rank: int | None = None) -> Measurement:
    """Drift of the step time from the first to the last step, of the median step."""
    trend = step_series(profile, rank).trend()
    return _of_series(profile, rank, None if trend is None else trend.total_pct, " for a trend")


@metric("ms", "median step of the {end} quarter", "How long do the first or the last traced steps take?")
def step_quarter_ms(profile: Profile, end: str, rank: int | None = None) -> Measurement:
    """Median of the first or the last quarter of the steps."""
    return _of_series(profile, rank, step_series(profile, rank).quarter_ms(choice("end", end, ENDS)))


@metric("%", "step time level shift", "Does the step time jump to another level?")
def level_shift_pct(profile: Profile, rank: int | None = None) -> Measurement:
    """Change of the median step time at the clearest change point."""
    change = step_series(profile, rank).change_point()
    return _of_series(
        profile, rank, None if change is None else change.shift_pct, ", or too equal ones, for a change point"
    )


@metric("count", "distance between long steps", "How many steps lie between long steps?")
def long_step_period(profile: Profile, rank: int | None = None) -> Measurement:
    """Distance in steps at which long steps recur."""
    rhythm = step_series(profile, rank).rhythm()
    return _of_series(profile, rank, None if rhythm is None else rhythm.period, ", or too equal ones, for a period")


@metric("ms", "mean {of} step time", "How long is this rank's step, with or without exposed communication?")
def rank_time_ms(profile: Profile, of: str, rank: int) -> Measurement:
    """Mean step time of one rank: ``wall``, or ``own`` without exposed communication."""
    table = _rank_times(profile, of)
    value = float(table.loc[profile.rank(rank).rank.rank])
    return _by_rank(profile, value, table, f"mean {of} time per step", rank)


@metric("%", "spread of mean {of} step time over ranks", "How far apart are the ranks?")
def rank_spread_pct(profile: Profile, of: str = "own") -> Measurement:
    """(max - min)/mean over ranks of the mean step time, ``wall`` or ``own`` (without exposed communication)."""
    table = _rank_times(profile, of)
    return _by_rank(profile, spread_pct(table), table, f"mean {of} time per step by rank")


@metric("%", "extra {of} step time against the other ranks", "How much longer is this rank's step?")
def rank_excess_pct(profile: Profile, rank: int, of: str = "own") -> Measurement:
    """Extra mean step time of a rank, ``wall`` or ``own``, over the median of the other ranks."""
    table = _rank_times(profile, of)
    own, others = _beyond_others(profile, table, rank)
    return _by_rank(profile, 100.0 * (own / others - 1.0), table, f"mean {of} time per step by rank")


@metric("ms", "{part} per step beyond the other ranks' median", "Which part takes longer on this rank?")
def part_excess_ms(profile: Profile, part: str, rank: int) -> Measurement:
    """Mean time per step in one part on a rank, minus the median of that over the other ranks."""
    table = profile.breakdown.groupby("rank")[f"{choice('part', part, PARTS)}_ns"].mean() / 1e6
    own, others = _beyond_others(profile, table, rank)
    return _by_rank(profile, own - others, table, f"breakdown part {part} by rank")


@metric("ms", "start lag of the first recorded step", "Did this rank start later than the others?")
def step_start_lag_ms(profile: Profile, rank: int) -> Measurement:
    """Delay of the rank's first recorded step against the median of the other ranks."""
    starts = pd.Series({view.rank.rank: view.rank.window()[0] / 1e6 for view in profile.ranks})
    own, others = _beyond_others(profile, starts, rank)
    return _by_rank(profile, own - others, starts, "start of the first step by rank, ms")


def _rank_times(profile: Profile, of: str) -> pd.Series[float]:
    if choice("rank time", of, RANK_TIMES) == "own":
        return own_ms(profile)
    return profile.breakdown.groupby("rank")["wall_ns"].mean() / 1e6


def _of_series(profile: Profile, rank: int | None, value: float | None, few: str = "") -> Measurement:
    """A figure of the series of steps; UsageError with what there are too few steps for where there is none."""
    if value is None:
        raise UsageError(f"the run has too few steps{few}")
    series = step_series(profile, rank)
    which = "longest rank of each" if rank is None else f"rank {rank}"
    table = pd.DataFrame({"number": series.numbers, "step_ms": series.ms})
    return of_ranks(profile, value, table, f"steps of the run, {which}", rank, series.numbers.tolist())


def _by_rank(
    profile: Profile, value: float, values: pd.Series[float], selector: str, rank: int | None = None
) -> Measurement:
    return of_ranks(profile, value, values.rename("ms").rename_axis("rank").reset_index(), selector, rank)


def _beyond_others(profile: Profile, table: pd.Series[float], rank: int) -> tuple[float, float]:
    """The rank's value of the table, and the median of the other ranks'."""
    others = table.drop(index=profile.rank(rank).rank.rank)
    if others.empty:
        raise UsageError("the run has one rank only: there is nothing to compare with")
    return float(table.loc[rank]), float(others.median())


SHOWN = 200  # rows of the path that are shown, longest first


@metric("ms", "{family} time per step on the critical path", "How much of the critical path is this family?")
def critical_path_ms(profile: Profile, family: str, rank: int | None = None) -> Measurement:
    """Time per step on the critical path that one family's work (or idleness) takes, on one rank or on all."""
    choice("family", family, FAMILIES)
    number = None if rank is None else profile.rank(rank).rank.rank
    value = critical_path(profile).ms(number)[family]
    return _on_path(profile, value, lambda: _path_rows(profile, family, number), f"critical path, {family}", number)


@metric("ms", "length of the critical path per step", "How long is the critical path of a step?")
def critical_path_step_ms(profile: Profile) -> Measurement:
    """Mean length of the path inside the steps of the rank where it ends: what its families add up to.

    The steps of that rank, without what drains behind the last one; the slowest rank's mean step may be longer.
    """
    path = critical_path(profile)
    steps = profile.rank(path.rank).steps
    steps = steps[steps["number"].isin(path.steps)].reset_index(drop=True)
    value = sum(path.ms().values())
    return _on_path(profile, value, lambda: steps, f"steps of rank {path.rank} on the critical path", None)


@metric("ms", "unexplained idle time on the critical path", "How much of the path is unexplained?")
def critical_path_unexplained_ms(profile: Profile) -> Measurement:
    """Idle time per step on the critical path for which no reason was recorded or could be inferred."""
    value = critical_path(profile).unexplained_ms
    return _on_path(
        profile, value, lambda: _path_rows(profile, "idle", None), "critical path, unexplained delays", None
    )


@metric("ms", "step time saved without any {family} work", "What does the step lose without this family?")
def family_saving_ms(profile: Profile, family: str) -> Measurement:
    """Time that a step would lose if all work of the family took no time, everything else staying as it is."""
    choice("family", family, REMOVABLE)
    table = pd.DataFrame(list(family_savings(profile)))[["family", "path_ms", "saving_ms"]]
    value = table.set_index("family")["saving_ms"].fillna(0.0)[family]
    return _on_path(profile, value, lambda: table, f"replay without {family}", None)


def _path_rows(profile: Profile, family: str, rank: int | None) -> pd.DataFrame:
    segments = critical_path(profile).segments
    chosen = segments[segments["what"] == family]
    chosen = chosen if rank is None else chosen[chosen["rank"] == rank]
    longest = (chosen["end_ns"] - chosen["start_ns"]).sort_values(ascending=False, kind="stable").index[:SHOWN]
    table = chosen.loc[longest].reset_index(drop=True)
    rows = zip(table["rank"].tolist(), table["row"].tolist(), strict=True)
    return table.assign(
        name=[profile.rank(number).names(np.array([row]))[0] if row >= 0 else "" for number, row in rows]
    )


def _on_path(
    profile: Profile, value: float, rows: Callable[[], pd.DataFrame], selector: str, rank: int | None
) -> Measurement:
    window = unchanged(profile).graph.window
    ranks = window.ranks if rank is None else (rank,)
    span = (window.origin_ns, int(window.end_ns.max()))
    return Measurement(float(value), rows, selector, ranks, window.steps, span)
