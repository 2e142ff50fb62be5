"""Times that lines state, held against the time stamps of the same lines, where these are exact enough."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.recorded.job_log import SINGLE, StepTime

HELD: tuple[StepTime, ...] = (*SINGLE, "mean", "window", "running")  # others are computed from sums or clocks
LEAST_COMPARED = 3  # pairs of lines
EXACT = 20.0  # times the resolution of the stamps: so long a time is known to 5 %
REFUTED = 2.0  # times what the stamps allow: no rounding, and no start of a line, explains so much
SUM_FITS = (1 / 3, 1.5)  # of the time between two lines: what their steps take together, and time next to it
EVEN = 3.0  # largest of the times between lines over the smallest: others are of an output that is written in bursts
OVERHEAD = 1.5  # times as long as stated, in every line: the time of an unknown program is not of the whole step
SUMS = "the time stamps of the lines show that their times are of all {} steps since the line before"
NOT_OF_A_STEP = "the lines state {:.4g} ms, their time stamps show {:.4g} ms a step: the stamps are used"


def held_against(table: pd.DataFrame, resolution_s: float, kind: StepTime) -> tuple[pd.DataFrame, StepTime, str]:
    """The rows (step, span, wall_ms, data_wait_ms, at_s of their stamps) with times that the stamps do not refute, what
    these are of, and a note where they were changed.

    A time that is over ``REFUTED`` times as long as the stamps allow is of all steps since the line before where the
    stamps leave room for these, else of something else; the time of an unknown program that is much shorter in every
    line is of a part of the step, and a running mean that differs as much is of other steps. In their place stand the
    differences of the stamps.
    """
    if len(table) <= LEAST_COMPARED or kind not in HELD or table["at_s"].isna().any():
        return table, kind, ""
    passed_ms = 1e3 * np.diff(table["at_s"].to_numpy(dtype=np.float64))
    between = np.diff(table["step"].to_numpy(dtype=np.float64))
    gap, walls = float(np.median(between)), table["wall_ms"].to_numpy(dtype=np.float64)[1:]
    used = (between == gap) & np.isfinite(walls)
    resolution_ms = 1e3 * resolution_s
    if used.sum() < LEAST_COMPARED or passed_ms.min() < 0 or passed_ms[used].sum() < EXACT * resolution_ms:
        return table, kind, ""
    stated_ms, stamped_ms = float(np.median(walls[used])), float(passed_ms[used].sum() / (gap * used.sum()))
    ratio = stated_ms / stamped_ms
    note = NOT_OF_A_STEP.format(stated_ms, stamped_ms)
    if kind == "running" and not 1 / REFUTED < ratio < REFUTED:
        return _by_stamps(table, passed_ms, between), "stamps", note
    if not _even(passed_ms[used], resolution_ms):
        return table, kind, ""
    if kind == "unstated" and (walls * between * OVERHEAD < passed_ms - resolution_ms)[used].all():
        return _by_stamps(table, passed_ms, between), "stamps", note
    if ratio < REFUTED:
        return table, kind, ""
    if gap > 1 and SUM_FITS[0] * passed_ms[used].sum() <= walls[used].sum() <= SUM_FITS[1] * passed_ms[used].sum():
        waits, span = table["data_wait_ms"], table["span"]
        divided = table.assign(wall_ms=table["wall_ms"] / span, data_wait_ms=waits / span)
        return divided, "block", SUMS.format(int(gap))
    return _by_stamps(table, passed_ms, between), "stamps", note


def _even(passed_ms: NDArray[np.float64], resolution_ms: float) -> bool:
    return float(passed_ms.max()) <= EVEN * (float(passed_ms.min()) + resolution_ms)


def _by_stamps(table: pd.DataFrame, passed_ms: NDArray[np.float64], between: NDArray[np.float64]) -> pd.DataFrame:
    """The rows but for the first, with the time since the row before; rows of one moment as one with the next."""
    later = np.append(np.flatnonzero(passed_ms > 0) + 1, len(table))
    ends = later[1:] - 1  # the last row of each moment; rows at the first moment begin the first part
    if not len(ends):
        return table.iloc[:0]
    parts = np.append(0, ends[:-1])
    spans = np.add.reduceat(between, parts)
    walls = np.add.reduceat(passed_ms, parts) / np.maximum(spans, 1.0)
    rows = table.iloc[ends]
    return rows.assign(span=spans.astype(np.int64), wall_ms=walls, data_wait_ms=np.nan)
