"""Figures of the wait for data that a job's own step lines state: ``data_time``, ``reader_cost`` and their like."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.metrics.recorded.job_log import job_log, of_lines
from tools.metrics.recorded.series import run_series
from tools.views.profile import Profile

SPARED = 0.1  # of a line's time at most is wait: what a step takes without one
LONG_REST = 3.0  # times the median of what is not waiting


def waiting_rows(profile: Profile, rank: int) -> pd.DataFrame:
    """The usual rows of a rank that state its wait, with ``rest_ms``; UsageError where the output states none."""
    series = run_series(profile)
    if series.origin != "job_log" or "data_wait_ms" not in series.usual:
        raise UsageError("the job's output does not state how long its steps wait for data")
    own = series.of(rank)
    own = own[own["data_wait_ms"].notna()]
    if own.empty:
        raise UsageError(f"the output of rank {rank} does not state how long its steps wait for data")
    waits = np.minimum(own["data_wait_ms"], own["wall_ms"])
    return own.assign(data_wait_ms=waits, rest_ms=own["wall_ms"] - waits)


@metric("ms", "wait for data per step by the job's own timer", "How long does a step wait for data by its own timer?")
def logged_data_wait_ms(profile: Profile, rank: int) -> Measurement:
    """Mean over the usual steps of what the lines of a rank state, each line for the steps that it stands for."""
    return _mean(profile, rank, "data_wait_ms")


@metric("%", "share of the wait for data by the job's own timer", "How much of a step is wait for data by its timer?")
def logged_data_wait_pct(profile: Profile, rank: int) -> Measurement:
    """The same, of the time of these steps."""
    rows = waiting_rows(profile, rank)
    value = 100.0 * float((rows["data_wait_ms"] * rows["span"]).sum() / (rows["wall_ms"] * rows["span"]).sum())
    return _of(profile, value, rows)


@metric("ms", "step with hardly any wait for data", "How long is a step that does not wait for data?")
def logged_spared_step_ms(profile: Profile, rank: int) -> Measurement:
    """Mean of the lines of which at most a tenth is wait for data; UsageError where there are none."""
    rows = waiting_rows(profile, rank)
    rows = rows[rows["data_wait_ms"] <= SPARED * rows["wall_ms"]]
    if rows.empty:
        raise UsageError("every line states a wait for data of more than a tenth of its step")
    return _of(profile, float(np.average(rows["wall_ms"], weights=rows["span"])), rows)


@metric("ms", "{what} of the step with the longest rest", "How long is the step that is long without waiting for data?")
def logged_long_rest_ms(profile: Profile, rank: int, what: str) -> Measurement:
    """``wall`` or ``data_wait`` of the line with the most time that is no wait for data, where that is over three times
    the median of it; UsageError where there is none."""
    rows = waiting_rows(profile, rank)
    longest = rows.loc[[rows["rest_ms"].idxmax()]]
    if float(longest["rest_ms"].iloc[0]) <= LONG_REST * float(rows["rest_ms"].median()):
        raise UsageError("no step is long without waiting for data")
    column = f"{choice('part', what, ('wall', 'data_wait'))}_ms"
    return _of(profile, float(longest[column].iloc[0]), longest)


def _mean(profile: Profile, rank: int, column: str) -> Measurement:
    rows = waiting_rows(profile, rank)
    return _of(profile, float(np.average(rows[column], weights=rows["span"])), rows)


def _of(profile: Profile, value: float, rows: pd.DataFrame) -> Measurement:
    return of_lines(job_log(profile), value, rows, "data times of step lines", tuple(map(int, rows["step"])))
