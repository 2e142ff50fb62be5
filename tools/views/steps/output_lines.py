"""The steps of a job's output: what a line is the time of, and which lines are of the start."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.model import Run
from tools.run.recorded.job_log import DIFFERENCES, MEANS, SINGLE, JobLog, StepTime
from tools.views.steps.averages import why_averaged
from tools.views.steps.series import OF_TRACKERS, RunSeries
from tools.views.steps.usual_rows import in_order, settling

LEAST_LINES = 2  # of a job's output, which may print few lines of long steps


def from_output(run: Run) -> RunSeries | None:
    """Step lines of the job's output, where no trace shows its steps."""
    log = run.job_log
    if log is None or log.steps.empty or run.ranks:
        return None
    table, notes = in_order(log.steps, [])
    averaged = why_averaged(log)
    if log.step_time in SINGLE and averaged:
        table, long = _without_long(table)
        notes = (*notes, *long)
    table = table.drop(columns="data_wait_ms") if table["data_wait_ms"].isna().all() else table
    walls = table["wall_ms"]
    if len(table) == LEAST_LINES and walls.max() >= LONG_START * walls.min():  # either may be the usual one
        return None
    started = _resumed(table) if _excerpt(log) else _of_start(table)
    start = ""
    if started.any():
        count = int(started.sum())
        rows = ROWS.get(log.step_time, "step lines")
        start = FIRST.format(len(table), rows) if count == 1 else START.format(count, len(table), rows)
        notes = (*notes, start)
    if log.epochs is not None and not log.epochs.length_stated:
        notes = (*notes, UNCOUNTED)
    return RunSeries(
        table[~started],
        table.iloc[:0],
        "job_log",
        notes,
        averaged=averaged,
        spans=log.step_time in (*MEANS, "stamps"),
        start=start,
        window=log.step_time == "window",
    )


# What a row is, where it is no line of a step.
ROWS: Mapping[StepTime, str] = {
    **dict.fromkeys(DIFFERENCES, "intervals between recorded steps"),
    "bar": "groups of updates of the progress bar",
    "smoothed": "updates of the progress bar",
}
FIRST = "the first of {} {} is left out as start-up"
START = "the first {} of {} {} are left out as start-up"
UNCOUNTED = (
    "steps are counted in each epoch, and no line states how many an epoch has: the numbers of steps after the first "
    "epoch are not exact"
)
# A job that begins or is resumed prints more lines than that before its steps; the first steps warm up.
EXCERPT_LINES, EXCERPT_STEP = 20, 10
MEAN_OF_MANY = 100  # steps: a mean over so many is none of the start


def _excerpt(log: JobLog) -> bool:
    """Whether the text begins in the middle of a job, so that none of its steps is of a start: its first step line is
    among the first lines and of a late step."""
    tracked = set(log.grammars) & {*OF_TRACKERS, "trainer_state.json"}
    first = log.steps.iloc[int(log.steps["line"].to_numpy().argmin())]
    if log.step_time == "bar" and first["span"] >= MEAN_OF_MANY:
        return True
    later_epoch = log.epochs is not None and log.epochs.first > 1
    if tracked:
        return False
    return late_excerpt(log.steps) or (later_epoch and bool(first["line"] <= EXCERPT_LINES))


def late_excerpt(table: pd.DataFrame) -> bool:
    """Whether the first line (columns line, step, span) is among the first ones of a text and of a late step."""
    first = table.iloc[int(table["line"].to_numpy().argmin())]
    return bool(first["line"] <= EXCERPT_LINES and first["step"] - first["span"] >= EXCERPT_STEP)


LONG_LINE = 50  # steps: a mean over so many holds the start of a job as one of its steps
LONG_START = 2.0  # times the median of the later lines: the start is all that such a mean shows


def _of_start(table: pd.DataFrame) -> NDArray[np.bool_]:
    """The lines of the start of each rank: the first tenth; of means over many steps the first one where it is long."""
    early, first = settling(table), (table.groupby("rank").cumcount() == 0).to_numpy()
    usual = table["wall_ms"].mask(first).groupby(table["rank"]).transform("median")
    many = (table["span"] >= LONG_LINE).to_numpy()
    long = (table["wall_ms"] >= LONG_START * usual).to_numpy()
    kept: NDArray[np.bool_] = early & (~many | (first & long))
    return kept


RESUMED = 5.0  # times the median of the others: so long a first line in the middle of a run is of a job that resumed
RESUMED_LINES = 10  # of a rank: of fewer the median is not sure


def _resumed(table: pd.DataFrame) -> NDArray[np.bool_]:
    """The first line of each rank where the text begins at a late step and this line is far longer than the others."""
    first = (table.groupby("rank").cumcount() == 0).to_numpy()
    others = table["wall_ms"].mask(first).groupby(table["rank"])
    enough = (others.transform("count") >= RESUMED_LINES).to_numpy()
    long = (table["wall_ms"] >= RESUMED * others.transform("median")).to_numpy()
    chosen: NDArray[np.bool_] = first & enough & long
    return chosen


LONG_OF_PRINTED = (
    3.0  # times the median: a step that was evaluated in or saved in, which is printed more often than run
)


def _without_long(table: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The steps without long ones where one of several is printed: these are the steps at which programs also evaluate
    and save, so that their share of the printed steps is not that of all."""
    usual = table.groupby("rank")["wall_ms"].transform("median")
    long = (table["wall_ms"] > LONG_OF_PRINTED * usual).to_numpy()
    if not long.any():
        return table, ()
    count = int(long.sum())
    text = "1 printed step is" if count == 1 else f"{count} printed steps are"
    return table[~long], (
        f"only one step of several is printed, and {text} over {LONG_OF_PRINTED:g} times as long as the median, as "
        "where a program also evaluates or saves: left out, since how many steps are so long is not known",
    )
