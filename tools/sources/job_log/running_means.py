"""Means that run on from line to line, since an epoch or the job began, taken apart into those between the lines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.recorded.job_log import StepTime
from tools.sources.job_log.grammars.step_figures import Average
from tools.sources.job_log.prefixes import Stamp, after

MOST_ROUNDED = 0.05  # of a difference of two sums: lines are joined until their last digits matter less
LEAST_WINDOW = 10  # steps: MMEngine's default; lines further apart share none
FITS = 0.1  # of the time between two lines by their stamps
MOSTLY = 0.8  # of the lines must fit
LEAST_COMPARED = 3
CLOSER = 0.5  # of the error of the means as they are: both fit the stamps of steps that hardly differ
JUMPS, TOO_SHORT = 1.3, 0.5  # of the mean: a mean that began again, taken for one over all steps, gives both in turn
WINDOW = 20  # values over which MetricLogger's meters take their mean (SmoothedValue)


def apart(
    start: pd.DataFrame, stamps: Sequence[Stamp | None], average: Average, rounding_ms: float, window: int = 0
) -> tuple[pd.DataFrame, StepTime]:
    """The rows with the mean over the steps since the row before, and "unwound"; or as they are, and "window" or
    "running".

    n m - n' m' is the time of the steps between two lines of which one states the mean m over n steps, the other m'
    over n' since the same start. Where the library does not say that its means are since the start, the time stamps
    must show it; lines so far apart that they share no steps are means of their own. Means over some of the last steps
    (of all epochs) are since the start of the job as long as it has no more than ``window`` of them (0: not stated).
    """
    stated = np.isfinite(start["wall_ms"].to_numpy())
    start, stamps = start[stated], [stamp for stamp, timed in zip(stamps, stated, strict=True) if timed]
    if average == "window":
        gap = float(np.median(np.diff(start["step"]))) if len(start) > 1 else 0.0
        whole = start.assign(counted=start["step"])
        if not _of_whole_job(whole, stamps, window):
            return start, "window" if gap >= (window or LEAST_WINDOW) else "running"
        start = whole
    fresh: NDArray[np.bool_] = np.zeros(len(start), dtype=bool)
    if average == "job":
        counted, fresh = _since_process(start)
        start = start.assign(counted=counted)
    known = average in ("epoch", "window") or _by_stamps(start, stamps)
    if not known:
        gap = float(np.median(np.diff(start["counted"]))) if len(start) > 1 else 0.0
        if average in ("start", "job"):  # of a process that goes on from a checkpoint the first mean is over few steps
            return start[~fresh], "running"
        return start, "window" if gap >= LEAST_WINDOW else "running"
    taken = taken_apart(start, rounding_ms)
    if average == "job":  # its data times are of the last steps alone
        taken = taken.assign(data_wait_ms=start["data_wait_ms"].loc[taken.index])
    return (taken, "unwound") if len(taken) > 1 else (start, "running")


def _since_process(start: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Steps counted from where each mean began, and the lines at which one begins again, as that of a process which
    goes on from a checkpoint does: one mean over all steps would have taken no time at all for those before the line,
    or far more for these and hardly any for those after it. Such a line is of as many steps as usual."""
    count, walls = start["counted"].to_numpy(), start["wall_ms"].to_numpy()
    fresh: NDArray[np.bool_] = np.zeros(len(count), dtype=bool)
    if len(count) <= LEAST_COMPARED or (np.diff(count) <= 0).any():
        return count, fresh
    usual, began = float(np.median(np.diff(count))), 0.0
    offsets = np.zeros(len(count))
    counts, means = count.tolist(), walls.tolist()

    def between(row: int) -> float:
        """The mean of the steps since the row before, as a share of the mean at the row."""
        before, whole = (counts[row - 1] - began) * means[row - 1], (counts[row] - began) * means[row]
        return float((whole - before) / (counts[row] - counts[row - 1]) / means[row])

    for row in range(1, len(count)):
        own = between(row)
        longer = own > JUMPS and row + 1 < len(count) and between(row + 1) < TOO_SHORT
        if own <= 0.0 or longer:
            fresh[row], began = True, count[row] - usual
        offsets[row] = began
    return count - offsets, fresh


def taken_apart(start: pd.DataFrame, rounding_ms: float) -> pd.DataFrame:
    """Rows far enough apart that rounding does not matter, with the mean time and data wait of the steps between.

    A wait may be below zero by what its digits leave open: cut at zero, such rows would make the mean too long.
    """
    count, walls = start["counted"].to_numpy(), start["wall_ms"].to_numpy()
    usual = float(np.median(np.diff(count))) if len(count) > 1 else 1.0
    rows, last = [], -1
    values: list[tuple[float, float, float]] = []
    waits = start["data_wait_ms"].to_numpy()
    for row in range(len(count)):
        before, whole, waited = (count[last], count[last] * walls[last], count[last] * waits[last])
        if last < 0 or count[row] <= before:  # the first line, or that of another epoch
            before, whole, waited = 0.0, 0.0, 0.0
            if count[row] > usual:  # its mean is over many more steps than the others
                last = row
                continue
        passed = count[row] * walls[row] - whole
        if rounding_ms * (count[row] + before) > MOST_ROUNDED * passed:
            continue
        span = count[row] - before
        rows.append(row)
        values.append((span, passed / span, (count[row] * waits[row] - waited) / span))
        last = row
    taken = start.iloc[rows]
    if not rows:
        return taken
    spans, means, data = (np.array(column) for column in zip(*values, strict=True))
    return taken.assign(span=spans.astype(np.int64), wall_ms=means, data_wait_ms=data)


def _of_whole_job(start: pd.DataFrame, stamps: Sequence[Stamp | None], window: int) -> bool:
    """Whether means over some of the last steps are over all of them: by the stated window, else by the stamps."""
    if window:
        return bool(start["step"].max() <= window)
    return _by_stamps(start, stamps) and _closer(start, stamps)


def _closer(start: pd.DataFrame, stamps: Sequence[Stamp | None]) -> bool:
    """Whether the stamps fit means that are taken apart much better than the means as they are."""
    known = [stamp for stamp in stamps if stamp is not None]
    between = np.array([1e3 * after(later, earlier) for earlier, later in pairwise(known)])
    sums = (start["counted"] * start["wall_ms"]).to_numpy()
    plain = np.diff(start["counted"].to_numpy()) * start["wall_ms"].to_numpy()[1:]
    return bool(np.abs(np.diff(sums) - between).sum() <= CLOSER * np.abs(plain - between).sum())


def _by_stamps(start: pd.DataFrame, stamps: Sequence[Stamp | None]) -> bool:
    """Whether the time between most lines is that by which n m grows."""
    if len(start) <= LEAST_COMPARED or any(stamp is None for stamp in stamps):
        return False
    known = [stamp for stamp in stamps if stamp is not None]
    if len({stamp.kind for stamp in known}) > 1:
        return False
    between = np.array([1e3 * after(later, earlier) for earlier, later in pairwise(known)])
    sums = (start["counted"] * start["wall_ms"]).to_numpy()
    grown: NDArray[np.float64] = np.diff(sums)
    exact_ms = 2e3 * max(stamp.resolution_s for stamp in known)
    same = np.diff(start["counted"].to_numpy()) > 0
    fits = np.abs(grown - between) <= exact_ms + FITS * between
    return bool(same.sum() >= LEAST_COMPARED and fits[same].mean() >= MOSTLY)


def first_windows(start: pd.DataFrame) -> pd.DataFrame:
    """Rows of MetricLogger, of which the lines of an epoch's first ``WINDOW`` steps give means since it began: with
    those since the line before, so that the first step, in which the loader starts, counts once."""
    if start["epoch"].isna().any() or not len(start):
        return start
    count = start["counted"].to_numpy() + 1.0
    within = np.append(False, np.diff(count) > 0)
    first, grown = ~within & (count == 1.0), within & (count <= WINDOW)
    before = np.append(0.0, count[:-1])
    taken = start.assign(span=np.where(first, 1, start["span"]))
    for name in ("wall_ms", "data_wait_ms"):
        own = start[name].to_numpy()
        passed = (count * own - before * np.append(0.0, own[:-1])) / np.where(within, count - before, 1.0)
        taken[name] = np.where(grown, passed, own)
    return taken
