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
# Two stamps of whole seconds are cut by less than 1 s each, so the time between them is known to 1 s either way; twice
# that, so that neither the clock's seconds nor when a line is flushed look like time outside of the timer.
STAMPED_S = 2.0
RESAMPLES, MOST_BLOCKS = 2000, 200
COVERED = 0.8  # as of all intervals of predictions


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
    """Mean of the lines of which at most a tenth is wait for data, but for those with a long rest, which may be a wait
    for another rank's data; UsageError where there are none."""
    rows = waiting_rows(profile, rank)
    usual = rows["rest_ms"] <= LONG_REST * rows["rest_ms"].median()
    rows = rows[usual & (rows["data_wait_ms"] <= SPARED * rows["wall_ms"])]
    if rows.empty:
        raise UsageError("every line states a wait for data of more than a tenth of its step")
    return _of(profile, float(np.average(rows["wall_ms"], weights=rows["span"])), rows)


@metric("ms", "time of a step outside of the job's own timer", "How much of a step does the job's timer leave out?")
def logged_outside_ms(profile: Profile, rank: int) -> Measurement:
    """Time between the stamps of neighbouring lines less what the later ones state, over all of their steps.

    Stamps may count whole seconds: only the first and the last of lines in a row are known to that, and UsageError says
    so where the whole is no more than ``STAMPED_S`` for each such row, or than ``SPARED`` of what a step takes without
    its wait. Pauses, as for an evaluation, are left out: ``LONG_REST`` times the median and more than ``STAMPED_S``.
    UsageError as well where the lines are no means since the line before or state no date.
    """
    rows, log = waiting_rows(profile, rank), job_log(profile)
    between = rows["step"].diff()
    stamped = ((between == rows["span"]) & rows["written_ns"].diff().notna()).to_numpy(dtype=bool)
    if log.step_time not in ("mean", "block") or not stamped.any():
        raise UsageError("the time between step lines is not known next to what they state")
    outside_ms = (rows["written_ns"].diff() / 1e6 - rows["wall_ms"] * rows["span"]).to_numpy()
    pause_ms = max(LONG_REST * float(np.median(outside_ms[stamped])), 1e3 * STAMPED_S)
    kept = stamped & (np.nan_to_num(outside_ms) <= pause_ms)
    in_a_row = int((np.diff(kept.astype(np.int64), prepend=0) == 1).sum())
    whole_ms, steps = float(outside_ms[kept].sum()), int(rows["span"][kept].sum())
    if whole_ms <= 1e3 * STAMPED_S * in_a_row or whole_ms <= SPARED * float(rows["rest_ms"].mean()) * steps:
        raise UsageError("the job's timer leaves out no more of a step than time stamps can show")
    return _of(profile, whole_ms / steps, rows[kept])


def resampled_shares(rows: pd.DataFrame) -> tuple[float, float]:
    """The least and the most share of the time that such lines spend waiting: the middle 80 % of resamples of them
    (percentile bootstrap, Efron and Tibshirani 1993, chapter 13), neighbouring lines together where there are many.

    For the most what a line has over ``LONG_REST`` times the median rest counts as a wait for another rank's data.
    """
    usual = float(rows["rest_ms"].median())
    long = rows["rest_ms"].where(rows["rest_ms"] > LONG_REST * usual, usual) - usual
    spans = rows["span"].to_numpy(dtype=np.float64)
    begins = np.unique(np.linspace(0, len(rows), min(len(rows), MOST_BLOCKS), endpoint=False).astype(np.int64))
    walls, least, most = (
        np.add.reduceat(np.asarray(column, dtype=np.float64) * spans, begins)
        for column in (rows["wall_ms"], rows["data_wait_ms"], rows["data_wait_ms"] + long)
    )
    drawn = np.random.default_rng(0).integers(0, len(begins), (RESAMPLES, len(begins)))  # the same for the same lines
    whole = walls[drawn].sum(axis=1)
    low, high = (1.0 - COVERED) / 2.0, (1.0 + COVERED) / 2.0
    return (
        float(np.quantile(least[drawn].sum(axis=1) / whole, low)),
        float(np.quantile(most[drawn].sum(axis=1) / whole, high)),
    )


@metric("ms", "wait for data in the longest line", "How long does the longest step wait for data by its own line?")
def logged_longest_wait_ms(profile: Profile, rank: int) -> Measurement:
    """The wait that the line with the longest step states."""
    rows = waiting_rows(profile, rank)
    longest = rows.loc[[rows["wall_ms"].idxmax()]]
    return _of(profile, float(longest["data_wait_ms"].iloc[0]), longest)


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
