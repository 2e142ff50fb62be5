"""Which steps of a step log the traces hold.

A profiler counts its own steps from where it was begun, so their numbers need not be the script's. Durations tell: the
place at which consecutive steps of the log last as long as those of the trace. Where several places fit none is taken.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.model import Rank, Run

ALIKE = 0.1  # of a step: a script's own clock and the profiler's span of a step differ by less
COMPARED = 16  # steps of a trace; more tell no better


def profiled_in_log(run: Run, table: pd.DataFrame) -> NDArray[np.bool_]:
    """For each row of the log (rank, wall_ms; in order) whether a trace holds that step, as far as durations tell."""
    found = np.zeros(len(table), dtype=bool)
    numbers = table["rank"].to_numpy()
    walls = table["wall_ms"].to_numpy(dtype=np.float64)
    for rank in run.ranks:
        rows = np.flatnonzero(numbers == rank.rank)
        place = _place(rank, walls[rows]) if rank.step_origin == "profiler_step" else None
        if place is not None:
            found[rows[place : place + len(rank.steps)]] = True
    return found


def _place(rank: Rank, walls_ms: NDArray[np.float64]) -> int | None:
    """Where the trace's steps begin in the rank's log; None where nowhere or several places fit."""
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
