"""Figures of single ranks by a job's own output: its timers of each rank, its step lines, and straggler reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.metrics.recorded.job_log import job_log, of_lines, stages
from tools.views.profile import Profile

FEWEST_RANKS = 3  # of two ranks none stands out
# By what the timer of a rank holds: its computation alone, or where the ranks are no stages of a pipeline all of
# forward and backward; the wait for other stages and for gradients is in other timers.
OWN_TIMERS = (("forward-compute", "backward-compute"), ("forward", "backward"), ("forward-backward",))
WITHOUT_STAGES = ("forward-backward",)


@dataclass(frozen=True, eq=False)
class OwnTimes:
    """The mean time per step of each rank in the timers of its own work, the rows that it is of, and of how many of the
    steps each rank is the longest, as a share."""

    names: tuple[str, ...]
    ms: pd.Series[float]
    rows: pd.DataFrame
    longest: dict[int, float]


def own_times(profile: Profile) -> OwnTimes:
    """The own times of all ranks that the timers list in the usual steps; UsageError where they list too few."""
    return profile.memo("own times by timers", lambda: _own_times(profile))


def _own_times(profile: Profile) -> OwnTimes:
    log = job_log(profile)
    rows = log.rank_timers
    if profile.series is not None:
        rows = rows[rows["step"].isin(set(profile.series.usual["step"]))]
    named = set(rows["name"])
    kinds = [tuple(name for name in kind if name in named) for kind in OWN_TIMERS]
    names = next((kind for kind in kinds if kind and (kind != WITHOUT_STAGES or stages(log) is None)), ())
    own = rows[rows["name"].isin(names)]
    if own["rank"].nunique() < FEWEST_RANKS:
        raise UsageError("the job's output lists no timers of forward and backward by rank")
    per_step = own.groupby(["rank", "step"])["time_ms"].sum()
    return OwnTimes(names, per_step.groupby("rank").mean(), own, _longest(per_step))


def _longest(per_step: pd.Series[float]) -> dict[int, float]:
    """Of each rank the share of the steps in which it takes longest; the index holds rank and step."""
    ranks = per_step.unstack("rank").idxmax(axis=1)
    return {int(str(rank)): float(share) for rank, share in ranks.value_counts(normalize=True).items()}


def stage_ranks(profile: Profile) -> tuple[tuple[int, ...], ...]:
    """The ranks of each pipeline stage: neighbours, as Megatron-LM numbers them by default; none where the number of
    stages is not stated, or not every rank of the job is listed."""
    log = job_log(profile)
    count, ranks = stages(log), sorted(own_times(profile).ms.index)
    if count is None or len(ranks) != log.whole("world_size") or len(ranks) % count:
        return ()
    size = len(ranks) // count
    return tuple(tuple(map(int, ranks[at : at + size])) for at in range(0, len(ranks), size))


def _known(what: str, number: int, numbers: Iterable[int]) -> int:
    """The number where it is one of these; UsageError with all of them where it is none."""
    return int(choice(what, str(number), [str(each) for each in sorted(numbers)]))


@metric("ms", "time per step of rank {rank} in its timers", "How long does a rank take by the job's timers?")
def rank_timers_ms(profile: Profile, rank: int) -> Measurement:
    """Mean over the usual steps of the timers of forward and backward on a rank."""
    own = own_times(profile)
    ms = float(own.ms[_known("rank", rank, own.ms.index)])
    rows = own.rows[own.rows["rank"] == rank]
    return of_lines(job_log(profile), ms, rows, f"timers of rank {rank}")


@metric(
    "ms", "time per step of the other ranks in their timers", "How long do the other ranks take by the job's timers?"
)
def other_ranks_timers_ms(profile: Profile, rank: int) -> Measurement:
    """Median over all ranks but one of the mean time in the timers of forward and backward."""
    own = own_times(profile)
    _known("rank", rank, own.ms.index)
    rows = own.rows[own.rows["rank"] != rank]
    return of_lines(job_log(profile), float(own.ms.drop(rank).median()), rows, "timers of the other ranks")


@metric("ms", "time per step of stage {stage} in its timers", "How long does a stage take by the job's timers?")
def stage_timers_ms(profile: Profile, stage: int) -> Measurement:
    """Mean over the ranks of a stage of their time in the timers of forward and backward."""
    own, groups = own_times(profile), stage_ranks(profile)
    ranks = groups[_known("stage", stage, range(len(groups)))]
    rows = own.rows[own.rows["rank"].isin(ranks)]
    return of_lines(job_log(profile), float(own.ms[list(ranks)].mean()), rows, f"timers of stage {stage}")


@metric("ms", "time per step of the mean stage in its timers", "How long does a mean stage take by the job's timers?")
def mean_stage_timers_ms(profile: Profile) -> Measurement:
    """Mean over all ranks of their time in the timers of forward and backward, where they are stages of equal size."""
    own = own_times(profile)
    if not stage_ranks(profile):
        raise UsageError("the job's output does not show which ranks a pipeline stage has")
    return of_lines(job_log(profile), float(own.ms.mean()), own.rows, "timers of all stages")


def line_times(profile: Profile) -> OwnTimes:
    """The mean step of each rank by its own lines; UsageError where the lines name fewer than three ranks."""
    log = job_log(profile)
    series = profile.series
    rows = log.steps if series is None or series.origin != "job_log" else series.usual
    if not log.ranks_stated or log.steps["rank"].nunique() < FEWEST_RANKS:
        raise UsageError("the step lines of the job's output name fewer than three ranks")
    per_step = rows.groupby(["rank", "step"])["wall_ms"].mean()
    return OwnTimes((), per_step.groupby("rank").mean(), log.steps, _longest(per_step))


@metric("ms", "step of rank {rank} by its own lines", "How long is a step by the lines of one rank?")
def rank_lines_ms(profile: Profile, rank: int) -> Measurement:
    """Mean over the usual steps that the lines of a rank state."""
    means = line_times(profile).ms
    ms = float(means[_known("rank", rank, means.index)])
    steps = job_log(profile).steps
    return of_lines(job_log(profile), ms, steps[steps["rank"] == rank], f"step lines of rank {rank}")


@metric("ms", "step of the other ranks by their own lines", "How long is a step by the lines of the other ranks?")
def other_ranks_lines_ms(profile: Profile, rank: int) -> Measurement:
    """Median over all ranks but one of the mean step that their lines state."""
    means = line_times(profile).ms
    _known("rank", rank, means.index)
    steps = job_log(profile).steps
    others = float(means.drop(rank).median())
    return of_lines(job_log(profile), others, steps[steps["rank"] != rank], "step lines of the other ranks")


def report_rank(profile: Profile, figure: str, most: bool) -> int | None:
    """The rank that has the most or the least of a figure in more than half of the straggler reports; None where no
    rank has."""
    rows = _reported(profile, figure, most)
    ranks = rows["rank"].value_counts()
    return int(str(ranks.index[0])) if len(ranks) and 2 * int(ranks.iloc[0]) > len(rows) else None


def _reported(profile: Profile, figure: str, most: bool) -> pd.DataFrame:
    table = job_log(profile).rank_reports
    return table[(table["figure"] == figure) & (table["most"] == most) & (table["value"] > 0)]


def _median(profile: Profile, figure: str, most: bool) -> Measurement:
    rows = _reported(profile, figure, most)
    if rows.empty:
        raise UsageError("the job's output holds no straggler reports")
    return of_lines(job_log(profile), float(rows["value"].median()), rows, f"{len(rows)} straggler reports")


@metric(
    "ms",
    "{most} time per step of a rank by the straggler report",
    "How long does the fastest or slowest rank take by the report?",
)
def reported_rank_ms(profile: Profile, most: int = 1) -> Measurement:
    """Median over the reports of the longest time per step, or the shortest one (``most=0``)."""
    return _median(profile, "time", bool(most))


@metric("MHz", "{most} clock by the straggler report", "How high are the clocks by the straggler report?")
def reported_clock_mhz(profile: Profile, most: int = 0) -> Measurement:
    """Median over the reports of the lowest clock, or the highest one (``most=1``)."""
    return _median(profile, "clock", bool(most))


@metric("C", "{most} temperature by the straggler report", "How warm are devices by the straggler report?")
def reported_temperature_c(profile: Profile, most: int = 1) -> Measurement:
    """Median over the reports of the highest temperature, or the lowest one (``most=0``)."""
    return _median(profile, "temperature", bool(most))


@metric("W", "{most} power by the straggler report", "How much power do devices draw by the straggler report?")
def reported_power_w(profile: Profile, most: int = 0) -> Measurement:
    """Median over the reports of the least power, or the most (``most=1``)."""
    return _median(profile, "power", bool(most))


@metric("lines", "straggler reports", "How often does the output report stragglers?")
def straggler_reports(profile: Profile) -> Measurement:
    """Lines of Megatron-LM's straggler detector."""
    log = job_log(profile)
    if log.rank_reports.empty:
        raise UsageError("the job's output holds no straggler reports")
    rows = log.rank_reports.drop_duplicates(["file", "line"])
    return of_lines(log, float(len(rows)), rows, "straggler reports")
