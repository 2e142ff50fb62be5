"""Why the time of a line in a job's output is not that of one step, in words."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.run.recorded.job_log import SINGLE, JobLog, StepTime

IN_WORDS: dict[StepTime, str] = {
    "step": "only one step of several is printed, and the mean of all may be another",
    "unstated": "a line stands for several steps, and does not state whether its time is their mean or that of one",
    "sum": "only one step of several is printed, as timers of its parts, and the mean of all may be another",
    "mean": "each line gives the mean over the steps since the one before it",
    "window": "each line gives a mean over steps up to it, over how many is not stated, maybe all since the start",
    "epoch": "each line gives the mean over the steps of its epoch",
    "block": "the time since the line before is divided by the steps between, evaluations and saves there included",
    "unwound": "the lines give running means, from which the mean of the steps between two lines is computed",
    "bar": "the time between two updates of a progress bar is divided by the steps between",
    "smoothed": "a progress bar shows a smoothed rate",
    "running": "each line gives a running mean over more steps than those since the one before it",
    "stamps": "step times are differences of the time stamps or clocks of the lines, evaluations and saves between them"
    " included",
}
# The same of lines that count the steps of each epoch, of which none says how many there are.
WITHIN_EPOCHS: dict[StepTime, str] = {
    "block": "the time since the line before is divided by the steps between; what lies across the end of an epoch is"
    " left out",
    "stamps": "step times are differences of the time stamps or clocks of the lines; those across the end of an epoch"
    " are left out",
}
MISSING_LINES = "each line gives the mean over the {} steps up to it, and some steps are in none, such as {} to {}"
GAP = 1.5  # times the steps of a line: two lines further apart have had others between them
HIDDEN_SHARE = 0.05  # of the steps in lines of several: more, and the p95 of lines is not that of steps


def why_averaged(log: JobLog) -> str:
    """Why a line is not the time of one step; "" where it is, but for too few lines to matter."""
    if log.step_time in ("smoothed", "running", "window"):
        return IN_WORDS[log.step_time]
    spans = log.steps["span"].to_numpy()
    if log.span == 1 and (log.step_time in SINGLE or spans[spans > 1].sum() <= HIDDEN_SHARE * spans.sum()):
        return ""
    counted = log.epochs is None or log.epochs.length_stated
    if log.step_time == "mean" and counted and (gap := _gap(log.steps)) is not None:
        return MISSING_LINES.format(log.span, *gap)
    return IN_WORDS[log.step_time] if counted else WITHIN_EPOCHS.get(log.step_time, IN_WORDS[log.step_time])


def _gap(steps: pd.DataFrame) -> tuple[int, int] | None:
    """The first and the last of the most steps in a row of a rank that no line is of; None where each is in one."""
    between = steps.groupby("rank")["step"].diff().to_numpy()
    wide = np.flatnonzero(between > GAP * steps["span"].to_numpy())
    if not len(wide):
        return None
    at = wide[np.argmax(between[wide])]
    after = int(steps["step"].iloc[at])
    return after - int(between[at]) + 1, after - int(steps["span"].iloc[at])
