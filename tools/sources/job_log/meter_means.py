"""What the values and means of meters are of, judged over all lines of a start.

A meter prints its last value and a mean of its values. Where a line is printed every few batches, the last value is of
one batch and the mean of all of them, so that the time between two lines is known: n m - n' m'. Programs that update a
meter only where they print have a mean of the printed values, and their value may be of all batches between two lines.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.recorded.job_log import StepTime
from tools.sources.job_log.grammars.step_figures import Meter
from tools.sources.job_log.running_means import taken_apart

COLUMNS = ("time", "time_mean", "data", "data_mean", "other", "other_mean")
FITS = 0.95  # of the lines: the rest are lines of a restart or damaged ones
LEAST_AGREEING = 2  # lines after the first whose mean is that of the printed values: of one alone it may be by chance
DIGITS = 0.00101  # of a printed mean in its own unit: half of the last of three digits of each side, twice


def meter_row(meters: tuple[Meter | None, Meter | None, Meter | None]) -> tuple[float, ...]:
    """The values of ``COLUMNS``; NaN where a line has no such meter."""
    return tuple(figure for each in meters for figure in (each or (np.nan, np.nan)))


def of_meters(start: pd.DataFrame, meters: pd.DataFrame, rounding_ms: float) -> tuple[pd.DataFrame, StepTime]:
    """The rows with the times of their steps, and what they are of.

    Every step is printed: its own. Means of all batches: the steps between two lines, "unwound". Means of the printed
    values: the time of all batches between two lines where another meter takes every batch, "block"; else "unstated".
    """
    gap = float(np.median(np.diff(start["counted"]))) if len(start) > 1 else 1.0
    if gap <= 1.0:
        return start, "step"
    first = _first_of_epochs(start)
    if _of_printed(meters["time"], meters["time_mean"], first):
        return _between_lines(start, meters, first)
    counts = start["counted"].to_numpy() + _from_zero(start, meters)
    if not _of_all(counts, meters, first):
        return start, "step"
    means = start.assign(counted=counts, wall_ms=1e3 * meters["time_mean"].to_numpy())
    found = taken_apart(means.assign(data_wait_ms=1e3 * meters["data_mean"].to_numpy()), rounding_ms)
    return (found, "unwound") if len(found) else (start, "step")


def _first_of_epochs(start: pd.DataFrame) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.append(True, np.diff(start["counted"]) <= 0)
    return found


def _from_zero(start: pd.DataFrame, meters: pd.DataFrame) -> float:
    """1 where batches are counted from 0; 0 where the first, with its mean its own value, is number 1."""
    row, own = start.iloc[0], meters.iloc[0]
    return 0.0 if row["counted"] == 1 and abs(own["time"] - own["time_mean"]) < DIGITS else 1.0


def _of_printed(values: pd.Series[float], means: pd.Series[float], first: NDArray[np.bool_]) -> bool:
    """Whether the means are those of the values of the lines so far, since the first or since the epoch began."""
    table = pd.DataFrame({"value": values.to_numpy(), "mean": means.to_numpy()})
    if not np.isfinite(table.to_numpy()).all() or abs(table["value"].iloc[0] - table["mean"].iloc[0]) > DIGITS:
        return False
    by_epoch = table.groupby(np.cumsum(first))["value"].expanding().mean().to_numpy()
    for so_far, later in (
        (table["value"].expanding().mean().to_numpy(), np.arange(len(table)) > 0),
        (by_epoch, ~first),
    ):
        agrees = np.abs(so_far - table["mean"].to_numpy()) <= DIGITS
        if later.sum() >= LEAST_AGREEING and agrees[later].mean() >= FITS:
            return True
    return False


def _between_lines(
    start: pd.DataFrame, meters: pd.DataFrame, first: NDArray[np.bool_]
) -> tuple[pd.DataFrame, StepTime]:
    known = {name: meters[[name, f"{name}_mean"]].notna().all(axis=None) for name in ("data", "other")}
    every = {
        name: there and not _of_printed(meters[name], meters[f"{name}_mean"], first) for name, there in known.items()
    }
    if not any(every.values()):
        return start, "unstated"
    spans = np.where(first, start["counted"] + 1, start["counted"].diff()).astype(np.int64)
    counts = start["counted"].to_numpy() + 1
    if every["data"]:
        sums = counts * meters["data_mean"].to_numpy()
        waited = np.where(first, sums, np.diff(sums, prepend=0.0)) / spans
    else:
        waited = meters["data"].to_numpy() / spans
    walls = 1e3 * meters["time"].to_numpy() / spans
    return start.assign(span=spans, wall_ms=walls, data_wait_ms=1e3 * np.maximum(waited, 0.0)), "block"


def _of_all(counts: NDArray[np.float64], meters: pd.DataFrame, first: NDArray[np.bool_]) -> bool:
    """Whether the means can be those of all batches since the epoch began: the time between two lines is no shorter
    than that of the batch that the later one gives, and the first batch has itself as its mean."""
    values, means = meters["time"].to_numpy(), meters["time_mean"].to_numpy()
    if not np.isfinite(means).all():
        return False
    alone = first & (counts == 1)
    if (np.abs(values - means)[alone] > DIGITS).any():
        return False
    sums = counts * means
    passed = np.where(first, sums, np.diff(sums, prepend=0.0))
    within = passed >= values - DIGITS * counts
    return bool(within[~first].any() and within[~first].mean() >= FITS)
