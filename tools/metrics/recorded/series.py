"""Figures of the series: steps from monitor records or step logs, without a profiler."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import CutError, UsageError
from tools.metrics.measurement import Measurement, choice, metric, over_steps
from tools.views.profile import ONLY_CUT, Profile
from tools.views.steps.series import RunSeries
from tools.views.steps.shape import ENDS, Stalls, StepSeries, periodic_stalls

PARTS = ("wall", "data_wait", "own", "waiting", "gc", "thread_cpu", "rest")
NEAR = 30  # usual steps around the profiled ones that are held against them
SHOWN = (
    *("rank", "step", "profiled", "wall_ms", "usual_ms", "excess_ms", "span", "line"),
    *("data_wait_ms", "own_ms", "waiting_ms", "gc_ms", "thread_cpu_ms"),
)


def run_series(profile: Profile) -> RunSeries:
    """The run's series; UsageError when it has none."""
    if profile.run.cut and not profile.measured:
        raise CutError(ONLY_CUT)
    if profile.series is None:
        raise UsageError("the run has no monitor records, step logs or job output with enough steps")
    return profile.series


def step_series_of(series: RunSeries, rank: int | None = None) -> StepSeries:
    """Steps of one rank, of the slowest one when none is named, for the tests of the coarse view."""
    own = _rank_table(series, series.slowest_rank if rank is None else rank)
    return StepSeries(own["step"].to_numpy(dtype=np.int64), own["wall_ms"].to_numpy(dtype=np.float64))


def step_weights(series: RunSeries, rank: int | None = None) -> NDArray[np.float64]:
    """Of each value of ``step_series_of`` the number of steps that it stands for in a mean."""
    own = _rank_table(series, series.slowest_rank if rank is None else rank)
    return own["span"].to_numpy(dtype=np.float64) if series.spans else np.ones(len(own))


def mean_ms(series: RunSeries, rank: int | None = None) -> float:
    """The mean step of a rank, of the slowest one when none is named."""
    return series.mean_of(series.slowest_rank if rank is None else rank)


@metric("ms", "{statistic} unprofiled step time", "How long does a step take without a profiler?")
def series_step_ms(profile: Profile, statistic: str = "mean", rank: int | None = None) -> Measurement:
    """Step time without a profiler: mean, median, p95 or max over the usual steps of a rank, else of the slowest."""
    series = run_series(profile)
    value = mean_ms(series, rank) if statistic == "mean" else over_steps(step_series_of(series, rank).ms, statistic)
    return measured_of(series, value, rank, "usual steps")


@metric("steps/s", "unprofiled steps per second", "How many steps does the run make per second without a profiler?")
def series_steps_per_s(profile: Profile, rank: int | None = None) -> Measurement:
    """One over the mean usual step of a rank, else of the slowest, without a profiler."""
    mean = series_step_ms(profile, "mean", rank)
    return replace(mean, value=1e3 / mean.value)


@metric("steps/h", "unprofiled steps per hour", "How many steps does the run make per hour without a profiler?")
def series_steps_per_h(profile: Profile, rank: int | None = None) -> Measurement:
    """3,600 s over the mean usual step of a rank, else of the slowest, without a profiler."""
    mean = series_step_ms(profile, "mean", rank)
    return replace(mean, value=3.6e6 / mean.value)


@metric("ms", "{statistic} {part} per unprofiled step", "How much of an unprofiled step goes into this part?")
def series_part_ms(profile: Profile, part: str, rank: int, statistic: str = "mean") -> Measurement:
    """Time of a rank's usual step in one part; ``own`` ends with the last gradient, ``rest`` is what follows."""
    series = run_series(profile)
    if statistic == "mean" and series.spans:
        known = _part(series, part, rank).dropna()
        value = float(np.average(known, weights=_rank_table(series, rank).loc[known.index, "span"]))
    else:
        value = over_steps(part_ms(series, part, rank), statistic)
    return measured_of(series, value, rank, f"{part} time of usual steps")


@metric("ms", "mean {part} of steps near the profiled ones", "How long is this part near the profiled steps?")
def series_near_part_ms(profile: Profile, part: str, rank: int) -> Measurement:
    """The same over the ``NEAR`` usual steps nearest to the profiled ones, all where none is known."""
    series = run_series(profile)
    values, own = _part(series, part, rank), _rank_table(series, rank)
    if not series.captured.empty:
        profiled = series.captured[series.captured["rank"] == rank]
        middle = float((series.captured if profiled.empty else profiled)["step"].median())
        own = own.loc[(own["step"] - middle).abs().sort_values(kind="stable").index[:NEAR]].sort_values("step")
    selector = f"{part} time of the unprofiled steps nearest to the profiled ones"
    return _of_steps(series, float(values.loc[own.index].mean()), own, selector, (rank,), own["step"])


def part_ms(series: RunSeries, part: str, rank: int) -> NDArray[np.float64]:
    """The part of every usual step of a rank; UsageError when it is not recorded."""
    return np.asarray(_part(series, part, rank).dropna(), dtype=np.float64)


def _part(series: RunSeries, part: str, rank: int) -> pd.Series[float]:
    choice("part", part, PARTS)
    own = _rank_table(series, rank)
    column = "own_ms" if part == "rest" else f"{part}_ms"
    if column not in own or own[column].isna().all():
        raise UsageError(f"the records of rank {rank} do not hold {part}")
    return own["wall_ms"] - own[column] if part == "rest" else own[column]


@metric("%", "extra time of profiled steps", "How much longer do steps take while they are profiled?")
def profiled_excess_pct(profile: Profile) -> Measurement:
    """Extra time of the profiled steps over the usual ones: medians of the slowest rank of each step."""
    series = run_series(profile)
    ranks = sorted(set(series.captured["rank"]) & set(series.usual["rank"]))
    profiled, usual = (_slowest_of_each(table, ranks) for table in (series.captured, series.usual))
    if profiled.empty or usual.empty:
        raise UsageError("no profiled step is among the recorded ones")
    value = 100.0 * (float(profiled.median()) / float(usual.median()) - 1.0)
    both = (series.captured.assign(profiled="yes"), series.usual.assign(profiled="no"))
    table = pd.concat([each[each["rank"].isin(ranks)] for each in both])
    selector = "medians of profiled and of usual steps, longest rank of each"
    return _of_steps(series, value, table, selector, tuple(map(int, ranks)), profiled.index)


def _slowest_of_each(table: pd.DataFrame, ranks: Collection[int]) -> pd.Series[float]:
    """Time of the slowest of these ranks by step, of the steps that are there of all of them."""
    own = table[table["rank"].isin(ranks)].groupby("step")["wall_ms"]
    return own.max()[own.count() == len(ranks)]


@metric("%", "unprofiled step time variation", "How much does the unprofiled step time vary?")
def series_variation_pct(profile: Profile, rank: int | None = None) -> Measurement:
    """Standard deviation of the step time over its mean."""
    series = run_series(profile)
    return measured_of(series, step_series_of(series, rank).variation_pct, rank, "usual steps")


@metric("steps", "long unprofiled steps", "How many unprofiled steps are much longer than the usual one?")
def series_long_steps(profile: Profile, rank: int | None = None) -> Measurement:
    """Number of usual steps over the median one by more than the threshold ``fluctuation_pct``."""
    series = run_series(profile)
    long = step_series_of(series, rank).fluctuating(profile.thresholds["fluctuation_pct"])
    return measured_of(series, float(len(long)), rank, "usual steps")


@metric("%", "unprofiled step time drift", "Does the unprofiled step time drift?")
def series_trend_pct(profile: Profile, rank: int | None = None) -> Measurement:
    """Drift of the step time from the first to the last usual step, of the median step."""
    series = run_series(profile)
    trend = step_series_of(series, rank).trend()
    if trend is None:
        raise UsageError("the series has too few steps for a trend")
    return measured_of(series, trend.total_pct, rank, "usual steps")


@metric("ms", "median step of the {end} quarter", "How long do the first or the last recorded steps take?")
def series_quarter_ms(profile: Profile, end: str) -> Measurement:
    """Median of the first or the last quarter of the usual steps of the slowest rank."""
    series = run_series(profile)
    steps = step_series_of(series)
    return measured_of(series, steps.quarter_ms(choice("end", end, ENDS)), None, f"{end} quarter of the usual steps")


@metric("steps", "period of the long steps", "How many steps lie between periodic stalls?")
def stall_period_steps(profile: Profile, rank: int) -> Measurement:
    """Distance in steps at which long steps of a rank recur."""
    stalls = _stalls(profile, rank)
    return _of_stalls(profile, rank, stalls, float(stalls.period), "long steps of a rhythm")


@metric("ms", "extra time of a periodic stall", "How much longer than usual is a periodic stall?")
def stall_excess_ms(profile: Profile, rank: int) -> Measurement:
    """Extra time of a periodic stall over the steps around it: one long step, or neighbours together."""
    stalls = _stalls(profile, rank)
    selector = f"sum of excess_ms over {stalls.stalls} stalls"
    return _of_stalls(profile, rank, stalls, stalls.excess_ms, selector)


@metric("ms", "mean cost per step of periodic stalls", "How much do periodic stalls cost the mean step?")
def stall_cost_ms(profile: Profile, rank: int) -> Measurement:
    """Cost of periodic stalls per mean step: mean with them minus mean with usual steps in their place."""
    stalls, steps = _stalls(profile, rank), len(run_series(profile).of(rank))
    return _of_stalls(profile, rank, stalls, stalls.cost_ms, f"sum of excess_ms over {steps} steps")


@metric(
    "ms", "mean step time with a periodic stall every {every} steps", "How long would a step take with rarer stalls?"
)
def spaced_stalls_step_ms(profile: Profile, every: int, rank: int) -> Measurement:
    """Mean usual step of a rank with a stall as long as now every so many steps: mean - cost * (1 - period/every)."""
    if every < 1:
        raise UsageError(f"a stall every {every} steps is not possible; name a positive number of steps")
    stalls, own = _stalls(profile, rank), step_series_of(run_series(profile), rank)
    value = float(own.ms.mean()) - stalls.cost_ms * (1.0 - stalls.period / every)
    return _of_stalls(profile, rank, stalls, value, "long steps of a rhythm")


@metric("steps", "least distance of stalls that cost {pct} %", "How rare must periodic stalls be to cost so little?")
def stall_spacing_steps(profile: Profile, pct: int, rank: int) -> Measurement:
    """Least whole distance N with excess / N <= p (T + excess / N), T the mean usual step without its stalls."""
    if not 0 < pct < 100:
        raise UsageError(f"a share of {pct} % is not possible; name one between 0 and 100")
    stalls, own = _stalls(profile, rank), step_series_of(run_series(profile), rank)
    without_ms, share = float(own.ms.mean()) - stalls.cost_ms, pct / 100.0
    value = math.ceil(stalls.excess_ms * (1.0 - share) / (share * without_ms))
    return _of_stalls(profile, rank, stalls, float(value), "long steps of a rhythm")


@metric("%", "extra own time against the other ranks", "How much longer does this rank itself take?")
def own_excess_pct(profile: Profile, rank: int) -> Measurement:
    """Extra own time of a rank over the median of the other ranks, mean per usual step, of the step."""
    series = run_series(profile)
    own = own_means(series)
    others = own.drop(index=rank)
    if others.empty:
        raise UsageError("one rank only is recorded: there is nothing to compare with")
    value = 100.0 * float(own.loc[rank] - others.median()) / series.mean_ms
    table = own.rename_axis("rank").reset_index()
    return _of_steps(series, value, table, "own time by rank", series.ranks, series.numbers(rank))


def own_means(series: RunSeries) -> pd.Series[float]:
    """Mean own time per rank; UsageError when it is not recorded for every rank."""
    if "own_ms" not in series.usual or series.usual.groupby("rank")["own_ms"].count().min() == 0:
        raise UsageError("the records do not hold the ranks' own time")
    return series.usual.groupby("rank")["own_ms"].mean()


@metric("ms", "step time lost to garbage collection", "How long do steps wait for garbage collection?")
def collector_cost_ms(profile: Profile) -> Measurement:
    """Time per usual step in Python's collector on the rank that collects longest in that step: the others wait."""
    series = _collecting(profile)
    longest = series.usual.groupby("step")["gc_ms"].max()
    selector = "longest collecting rank of each usual step"
    return _of_steps(series, float(longest.mean()), longest.reset_index(), selector, series.ranks, series.numbers())


@metric("ms", "time in garbage collection per step on one rank", "How long does one rank collect garbage?")
def collector_rank_ms(profile: Profile, rank: int) -> Measurement:
    """Mean time per usual step in Python's collector on one rank."""
    series = _collecting(profile)
    return measured_of(series, float(_rank_table(series, rank)["gc_ms"].mean()), rank, "collections in usual steps")


@metric("ms", "longest garbage collection", "How long is the longest garbage collection?")
def collector_longest_ms(profile: Profile, rank: int) -> Measurement:
    """The longest pause of Python's collector in the usual steps of a rank."""
    series = _collecting(profile)
    value = float(_rank_table(series, rank)["gc_longest_ms"].max())
    return measured_of(series, value, rank, "collections in usual steps")


@metric("/step", "garbage collections per step", "How often does Python collect garbage?")
def collector_runs_per_step(profile: Profile, rank: int) -> Measurement:
    """Collections per usual step of a rank, of all generations."""
    series = _collecting(profile)
    return measured_of(series, float(_rank_table(series, rank)["gc_runs"].mean()), rank, "collections in usual steps")


@metric("ms", "mean single garbage collection", "How long does one garbage collection take?")
def collector_each_ms(profile: Profile, rank: int) -> Measurement:
    """Time in Python's collector in the usual steps of a rank over the number of its collections there."""
    series = _collecting(profile)
    own = _rank_table(series, rank)
    known = own[own["gc_ms"].notna() & own["gc_runs"].notna()]
    runs = float(known["gc_runs"].sum())
    if not runs > 0:
        raise UsageError(f"rank {rank} collected no garbage in its usual steps")
    return measured_of(series, float(known["gc_ms"].sum()) / runs, rank, "collections in usual steps")


def _collecting(profile: Profile) -> RunSeries:
    series = run_series(profile)
    if "gc_ms" not in series.usual:
        raise UsageError("step logs do not record garbage collections")
    return series


def rank_stalls(profile: Profile) -> dict[int, Stalls]:
    """The long steps at one distance of every rank that has some."""
    series, limit_pct = run_series(profile), profile.thresholds["fluctuation_pct"]
    found = {rank: periodic_stalls(step_series_of(series, rank), limit_pct) for rank in series.ranks}
    return {rank: stalls for rank, stalls in found.items() if stalls is not None}


def _stalls(profile: Profile, rank: int) -> Stalls:
    found = rank_stalls(profile)
    if rank not in found:
        raise UsageError(f"no long steps of rank {rank} recur at one distance")
    return found[rank]


def _of_stalls(profile: Profile, rank: int, stalls: Stalls, value: float, selector: str) -> Measurement:
    """With the rows that the figure sums: each one's excess over what is usual around it."""
    series = run_series(profile)
    rows, excesses_ms = series.of(rank).iloc[list(stalls.summed)], np.array(stalls.excesses_ms)
    rows = rows.assign(usual_ms=rows["wall_ms"] - excesses_ms, excess_ms=excesses_ms)
    return _of_steps(series, value, rows, selector, (rank,), rows["step"])


def _rank_table(series: RunSeries, rank: int) -> pd.DataFrame:
    own = series.of(rank)
    if own.empty:
        have = ", ".join(str(each) for each in series.ranks)
        raise UsageError(f"no step of rank {rank} is recorded; the ranks are {have}")
    return own


def measured_of(series: RunSeries, value: float, rank: int | None, selector: str) -> Measurement:
    """A figure of the usual steps of a rank, else of the slowest, with these steps as its rows."""
    number = series.slowest_rank if rank is None else rank
    return _of_steps(series, value, series.of(number), selector, (number,), series.numbers(number))


def _of_steps(
    series: RunSeries, value: float, table: pd.DataFrame, selector: str, ranks: tuple[int, ...], steps: Iterable[int]
) -> Measurement:
    if series.origin == "job_log" and not table.empty:
        selector += f", lines {int(table['line'].min())} to {int(table['line'].max())}"
    shown = table[[name for name in SHOWN if name in table]].reset_index(drop=True)
    return Measurement(value, lambda: shown, selector, ranks, tuple(map(int, steps)), source=series.source)
