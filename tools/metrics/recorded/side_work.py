"""Evaluations and saves that a job's output names between its step lines, and what these steps take longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric, over_steps
from tools.metrics.recorded.job_log import job_log, of_lines
from tools.metrics.recorded.series import run_series
from tools.run.recorded.job_log import DIFFERENCES, SINGLE, JobLog, StepNote, StepTime
from tools.views.profile import Profile
from tools.views.steps.series import RunSeries

Work = Literal["evaluation", "save"]
WORKS: tuple[Work, ...] = ("evaluation", "save")
BETWEEN_LINES: tuple[StepTime, ...] = (*DIFFERENCES, "bar")  # such a time holds whatever is done between two lines
OF_A_STEP: tuple[StepTime, ...] = (*SINGLE, "mean")  # where every step is printed
LEAST_WITHOUT = 5  # lines: of fewer what a step takes without such work is not known
MOST_WITH = 0.5  # of the lines: where more hold it, the others are not the usual ones
OUTSTANDING = 95  # percentile of the lines without such work that the median one with it has to pass


def side_rows(profile: Profile) -> pd.DataFrame:
    """The usual lines of the slowest rank, in order, with two columns for the work that they hold by the output:
    ``evaluation``, ``save`` (True or False). UsageError where a line does not hold it, as a mean over several steps.

    Where a step is known by the time between two lines, it holds what is named between them; so may the mean that a
    line states of the steps since the line before, and those lines that take longer do. Where lines state the time of
    their step, it may be named before or after it: the side counts that takes longer.
    """
    log, series = job_log(profile), run_series(profile)
    if series.origin != "job_log":
        raise UsageError("the steps are not those of the job's output")
    own = log.steps[log.steps["rank"] == series.slowest_rank].sort_values(["file", "line", "step"])
    own = own.reset_index(drop=True)
    if log.step_time in BETWEEN_LINES or (log.step_time == "mean" and (own["span"] > 1).all()):
        columns = {work: _behind(own, notes) for work, notes in _notes(log).items()}
    elif log.step_time in OF_A_STEP and (own["span"] == 1).all():
        columns = {work: _longer_side(own, notes) for work, notes in _notes(log).items()}
    else:
        raise UsageError("the lines state means, which do not show what single steps hold")
    used = own.assign(**columns)
    return used[used["step"].isin(series.of(series.slowest_rank)["step"])].reset_index(drop=True)


def _notes(log: JobLog) -> dict[Work, Sequence[StepNote]]:
    return {"evaluation": log.evaluations, "save": log.saves}


def _behind(own: pd.DataFrame, notes: Sequence[StepNote], side: int = 0) -> NDArray[np.bool_]:
    """The first lines after the notes of the same file; with ``side`` -1 the last ones before them."""
    held = np.zeros(len(own), dtype=bool)
    for file, rows in own.groupby("file"):
        places, lines = rows.index.to_numpy(), rows["line"].to_numpy()
        named = np.array([each.line for each in notes if each.file == file], dtype=np.int64)
        at = np.searchsorted(lines, named[named > lines[0]]) + side
        held[places[at[at < len(lines)]]] = True
    return held


def _longer_side(own: pd.DataFrame, notes: Sequence[StepNote]) -> NDArray[np.bool_]:
    """The lines after the notes, or those before them, whichever take longer in the median."""
    after, before = _behind(own, notes), _behind(own, notes, side=-1)
    walls = own["wall_ms"]
    return before if before.any() and not walls[before].median() <= walls[after].median() else after


def held_rows(profile: Profile) -> pd.DataFrame:
    """``side_rows`` where lines with such work are some, and stand out from the others; else UsageError."""
    rows = profile.memo("side_work", lambda: _outstanding(side_rows(profile)))
    if not _held(rows).any():
        raise UsageError("the output names no evaluation or save at step lines that stand out from the others")
    return rows


def _outstanding(rows: pd.DataFrame) -> pd.DataFrame:
    """Without the work whose lines do not stand out."""
    free = rows[~_held(rows)]
    enough = len(free) >= max(LEAST_WITHOUT, (1.0 - MOST_WITH) * len(rows))
    least = float(np.percentile(free["wall_ms"], OUTSTANDING)) if enough else np.inf
    kept = {work: rows[work] & (rows.loc[rows[work], "wall_ms"].median() > least) for work in WORKS}
    return rows.assign(**kept)


def series_without(profile: Profile) -> RunSeries | None:
    """The series without the lines that hold evaluations or saves; None where it is not known which do."""
    try:
        rows = held_rows(profile)
    except UsageError:
        return None
    series = run_series(profile)
    return replace(series, usual=series.usual[~series.usual["step"].isin(rows.loc[_held(rows), "step"])])


def _held(rows: pd.DataFrame) -> pd.Series[bool]:
    return rows["evaluation"] | rows["save"]


def _of(rows: pd.DataFrame, work: str) -> pd.Series[bool]:
    """The lines of that work: evaluations also where a save is named with them, saves only where none is."""
    choice("work", work, WORKS)
    found = rows["evaluation"] if work == "evaluation" else rows["save"] & ~rows["evaluation"]
    if not found.any():
        raise UsageError(f"no step line that stands out holds a {work} alone")
    return found


def _mean(rows: pd.DataFrame) -> float:
    return float(np.average(rows["wall_ms"], weights=rows["span"]))


def _figure(profile: Profile, value: float, rows: pd.DataFrame, what: str) -> Measurement:
    shown = rows[["step", "span", "line", "file", "wall_ms", "evaluation", "save"]]
    found = of_lines(job_log(profile), value, shown, what, tuple(map(int, rows["step"])))
    return replace(found, ranks=(run_series(profile).slowest_rank,))


def _excess(rows: pd.DataFrame) -> pd.Series[float]:
    """What each line takes longer than as many steps without such work, over all of its steps."""
    return (rows["wall_ms"] - _mean(rows[~_held(rows)])) * rows["span"]


@metric("step lines", "step lines that hold {work}", "How many step lines hold an evaluation or a save?")
def side_work_lines(profile: Profile, work: str) -> Measurement:
    """Usual step lines next to which the output names it; a save with an evaluation counts as that."""
    rows = held_rows(profile)
    held = _of(rows, work)
    return _figure(profile, float(held.sum()), rows[held], f"step lines that hold {work}")


@metric("step lines", "step lines that hold an evaluation and a save", "How many step lines hold both?")
def both_works_lines(profile: Profile) -> Measurement:
    """Usual step lines next to which the output names an evaluation and a save."""
    rows = held_rows(profile)
    both = rows["evaluation"] & rows["save"]
    if not both.any():
        raise UsageError("no step line that stands out holds both")
    return _figure(profile, float(both.sum()), rows[both], "step lines that hold an evaluation and a save")


@metric("ms", "{statistic} step without evaluations and saves", "How long is a step without evaluations and saves?")
def side_work_free_ms(profile: Profile, statistic: str = "mean") -> Measurement:
    """Over the usual step lines that hold neither; a mean weighs a line by its steps."""
    rows = held_rows(profile)
    free = rows[~_held(rows)]
    walls = free["wall_ms"].to_numpy(dtype=np.float64)
    value = _mean(free) if statistic == "mean" else over_steps(walls, statistic)
    return _figure(profile, value, free, "step lines without evaluations and saves")


@metric("ms", "{work} per mean step", "What do evaluations, or saves, add to the mean step?")
def side_work_cost_ms(profile: Profile, work: str) -> Measurement:
    """What the lines that hold it take longer than as many steps without, over all usual steps."""
    rows = held_rows(profile)
    value = float(_excess(rows)[_of(rows, work)].sum()) / float(rows["span"].sum())
    return _figure(profile, value, rows, "usual step lines")


@metric("%", "share of {work} in the mean step", "How much of the time are evaluations, or saves?")
def side_work_pct(profile: Profile, work: str) -> Measurement:
    """What they add to the mean step, over the mean step."""
    cost = side_work_cost_ms(profile, work)
    return replace(cost, value=100.0 * cost.value / _mean(held_rows(profile)))


@metric("ms", "time of a step line with {work} beyond the others", "How long does an evaluation, or a save, take?")
def side_work_each_ms(profile: Profile, work: str) -> Measurement:
    """Mean over the lines that hold it of what they take longer than as many steps without."""
    rows = held_rows(profile)
    held = _of(rows, work)
    return _figure(profile, float(_excess(rows)[held].mean()), rows[held], f"step lines that hold {work}")


def _stated(profile: Profile) -> pd.DataFrame:
    """The times of evaluations that lines state between the step lines, where the steps do not hold them."""
    log, series = job_log(profile), run_series(profile)
    if series.origin != "job_log" or log.step_time in BETWEEN_LINES:
        raise UsageError("what evaluations take next to the steps is not known: the time of a step may hold them")
    rows = log.steps[(log.steps["rank"] == series.slowest_rank) & log.steps["wall_ms"].notna()].sort_values("line")
    parts = rows.groupby("file")["line"]
    # The job may begin again in the same file: what follows the last of these lines is as near as they are.
    places = {file: (lines.iloc[0], lines.iloc[-1] + lines.diff().max()) for file, lines in parts}
    found = [
        {"seconds": float(each.value), "line": each.line, "file": each.file}
        for each in log.evaluation_times
        if each.file in places and places[each.file][0] < each.line <= places[each.file][1]
    ]
    if not found:
        raise UsageError("no line behind the first step states the time of an evaluation")
    return pd.DataFrame(found)


@metric("evaluations", "evaluations next to the steps", "How many evaluations state their time?")
def evaluations_apart(profile: Profile) -> Measurement:
    """Lines that state the time of an evaluation behind the first step line."""
    rows = _stated(profile)
    return of_lines(job_log(profile), float(len(rows)), rows, "lines of evaluations")


@metric("s", "time of evaluations next to the steps", "How long do evaluations take together?")
def evaluations_apart_s(profile: Profile) -> Measurement:
    """The sum of these times."""
    rows = _stated(profile)
    return of_lines(job_log(profile), float(rows["seconds"].sum()), rows, "lines of evaluations")


@metric("%", "share of evaluations in the time of steps and evaluations", "How much of the time are evaluations?")
def evaluations_apart_pct(profile: Profile) -> Measurement:
    """Their sum over itself and the time of all steps that the lines of the slowest rank stand for."""
    evaluated = evaluations_apart_s(profile)
    log = job_log(profile)
    own = log.steps[log.steps["rank"] == run_series(profile).slowest_rank]
    steps_s = float((own["wall_ms"] * own["span"]).sum()) / 1e3
    return replace(evaluated, value=100.0 * evaluated.value / (evaluated.value + steps_s))
