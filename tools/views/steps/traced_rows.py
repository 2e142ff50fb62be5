"""Which recorded steps a profiler touched: those that a trace shows, and those next to them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.model import Rank, Run

ALIKE = 0.1  # of a step: a script's own clock and the profiler's span of a step differ by less
COMPARED = 16  # steps of a trace; more are no surer
UNTRACED = int(np.iinfo(np.int64).min)  # no step of a trace has this number


def traced_in_log(run: Run, table: pd.DataFrame) -> NDArray[np.int64]:
    """For each row of the log (rank, wall_ms; in order) the step of a trace that it is, ``UNTRACED`` for the others.

    A profiler counts its own steps, so durations decide: the one place at which consecutive steps last equally long.
    """
    found = np.full(len(table), UNTRACED, dtype=np.int64)
    numbers = table["rank"].to_numpy()
    walls = table["wall_ms"].to_numpy(dtype=np.float64)
    for rank in run.profiled_ranks:
        rows = np.flatnonzero(numbers == rank.rank)
        place = _place(rank, walls[rows]) if rank.step_origin == "profiler_step" else None
        if place is not None:
            found[rows[place : place + len(rank.steps)]] = [step.number for step in rank.steps]
    return found


def _place(rank: Rank, walls_ms: NDArray[np.float64]) -> int | None:
    """The place at which the trace's steps begin in the rank's log; None where nowhere or several places fit."""
    traced = np.array([step.wall_ns / 1e6 for step in rank.steps])
    begins = len(walls_ms) - len(traced) + 1
    compared = traced[:COMPARED]
    if not len(compared) or begins < 1:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(walls_ms, len(compared))[:begins]
    off = np.abs(windows / np.maximum(compared, 1e-6) - 1.0).max(axis=1)
    fitting = np.flatnonzero(off <= ALIKE)
    if not len(fitting) or fitting[-1] - fitting[0] >= len(compared):
        return None
    return int(fitting[np.argmin(off[fitting])])


def traced_by_clock(run: Run, table: pd.DataFrame) -> NDArray[np.int64]:
    """The traced step of its rank in whose time a step lies, else ``UNTRACED``: a script may profile by itself."""
    found = np.full(len(table), UNTRACED, dtype=np.int64)
    if run.origin_unix_ns is None:
        return found
    for rank in run.profiled_ranks:
        if not rank.steps:
            continue
        zero = run.origin_unix_ns - rank.clock.offset_ns
        starts = np.array([step.start_ns for step in rank.steps], dtype=np.int64) + zero
        ends = np.array([step.end_ns for step in rank.steps], dtype=np.int64) + zero
        middle = ((table["begin_unix_ns"] + table["end_unix_ns"]) // 2).to_numpy(dtype=np.int64)
        at = np.searchsorted(starts, middle, side="right") - 1
        inside = (at >= 0) & (middle < ends[np.maximum(at, 0)])
        inside &= (table["rank"] == rank.rank).to_numpy()
        numbers = np.array([step.number for step in rank.steps], dtype=np.int64)
        found[inside] = numbers[at[inside]]
    return found


def of_chosen_steps(run: Run, table: pd.DataFrame, traced: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The rows that are one of the traced steps that the run was narrowed to."""
    ranks, found = table["rank"].to_numpy(), np.zeros(len(table), dtype=bool)
    for rank in run.ranks:
        found |= (ranks == rank.rank) & np.isin(traced, [step.number for step in rank.steps])
    return found


def of_these_traces(table: pd.DataFrame, captured: NDArray[np.bool_], traced: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Profiled steps in the time of the traces that were read, else all; never those in which a trace was written."""
    profiled = captured & ~table["written"].to_numpy(dtype=bool)
    of_these = np.asarray(profiled & traced, dtype=bool)
    return of_these if of_these.any() else profiled


def next_to_captured(ranks: pd.Series[int], captured: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The step before a profiled one, in which a profiler warms up, and the one after, in which it may still write."""
    same = ranks.to_numpy()[1:] == ranks.to_numpy()[:-1]
    near = np.append(captured[1:] & same, False) | np.append(False, captured[:-1] & same)
    return np.asarray(near, dtype=bool)
