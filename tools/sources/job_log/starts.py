"""The starts of a job within step lines: where the number of the step or of the epoch falls."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.recorded.job_log import Epochs, Restart

ENOUGH_ROWS = 20  # of a start: a shorter one shows too little to be used for the number of its steps
REPEATED_WITHIN = 200  # lines: several processes that print the same step do so next to each other
REPEATED_STEPS = 2  # back from the newest
NS_PER_S = 10**9
LEAST_ROWS = 2
MISSING = float("nan")
AT_ENDS = "a time stands at the last step of each epoch alone: whether it is of that step or of the epoch is not stated"


def over_epochs(table: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Steps counted on where each epoch counts from its own start: its number rises where the step's falls; and the
    first lines of epochs behind one whose steps no line states, where not every step is printed. An epoch that was
    there before, as after a restart, is counted as it was then."""
    steps, epochs = table["step"].to_numpy(), table["epoch"].to_numpy()
    if np.isnan(epochs).any() or len(steps) <= LEAST_ROWS:
        return steps, np.zeros(len(steps), dtype=bool)
    between = np.diff(steps)
    ended = (between == 0) & (steps == table["of_epoch"].to_numpy())[:-1]  # the last steps of two epochs
    fresh = np.append(False, ((between < 0) | ended) & (np.diff(epochs) > 0))
    usual = float(np.median(between[between > 0])) if (between > 0).any() else 0.0
    stated = np.append(MISSING, table["of_epoch"].to_numpy()[:-1])
    lengths = np.append(0.0, steps[:-1]) + (usual if steps.min() == 0 else 0.0)
    known = np.isfinite(stated) & (stated >= np.append(0.0, steps[:-1]))
    before, seen = np.zeros(len(steps)), {float(epochs[0]): 0.0}
    ends = [*(np.flatnonzero(np.diff(epochs)) + 1), len(steps)]
    for first, end in pairwise(ends):
        behind = before[first - 1] + (np.where(known, stated, lengths)[first] if fresh[first] else 0.0)
        fallen = 0.0 if epochs[first] < epochs[first - 1] else behind
        before[first:end] = seen.setdefault(float(epochs[first]), fallen)
    return steps + before, fresh & ~known & (usual > 1.0)


def first_of_epochs(start: pd.DataFrame) -> NDArray[np.bool_]:
    """First steps of epochs that are printed next to one step of many: each stands for itself, and readers of data
    start in it. None where no other line has a time."""
    counted = start["counted"].to_numpy()
    between = np.diff(counted)
    rising = between[between > 0]
    first: NDArray[np.bool_] = counted == counted.min()
    apart = bool((between < 0).any()) and len(rising) > 0 and counted.min() < float(np.median(rising)) - 1.0
    timed = start["wall_ms"].notna().to_numpy() | start["bare"].notna().to_numpy()
    none: NDArray[np.bool_] = np.zeros(len(start), dtype=bool)
    return first if apart and (timed & ~first).any() else none


def ends_of_epochs(table: pd.DataFrame) -> bool:
    """Whether every line is that of the last of several steps of an epoch, so that its time may be the epoch's."""
    last = (table["counted"] == table["of_epoch"]) & (table["of_epoch"] > 1) & table["epoch"].notna()
    return bool(last.all()) and len(table) > 0


def named_epochs(start: pd.DataFrame) -> Epochs | None:
    """The epochs that the lines name; None where they name none."""
    named = start["epoch"].dropna()
    if named.empty:
        return None
    return Epochs(int(named.iloc[0]), int(named.nunique()), not bool(start["guessed"].any()))


def starts_of(steps: NDArray[np.float64], lines: NDArray[np.float64]) -> tuple[list[list[int]], int]:
    """Rows of each start of the job, of a step the first; and how many lines repeat one."""
    starts: list[list[int]] = []
    repeated = 0
    for row in range(len(steps)):
        own = starts[-1] if starts else []
        if own and steps[row] <= steps[own[-1]]:
            recent = steps[own[-REPEATED_STEPS:]]
            if lines[row] - lines[own[-1]] <= REPEATED_WITHIN and steps[row] in recent:
                repeated += 1
                continue
            own = []
        if not own:
            starts.append(own)
        own.append(row)
    return starts, repeated


def longest_of(starts: list[list[int]], steps: NDArray[np.float64]) -> int:
    """The start with the most steps, of equal ones the last; those with few lines only where none has more."""
    least = min(ENOUGH_ROWS, max(map(len, starts)))
    counts = [len(rows) * max(usual_distance(steps[rows]), 1.0) if len(rows) >= least else 0.0 for rows in starts]
    return max(range(len(starts)), key=lambda place: (counts[place], place))


def restarts_of(table: pd.DataFrame) -> tuple[Restart, ...]:
    """The places at which the step number falls as after a checkpoint, with the time between the lines by dates that
    both state: not to the beginning, and printed as often as before, which another training or an evaluation is not.
    """
    steps, _ = over_epochs(table)
    starts, _ = starts_of(steps, table["line"].to_numpy())
    lines, written = table["line"].to_numpy(), table["written_ns"].to_numpy()
    found = []
    for before, after_it in pairwise(starts):
        last, first = before[-1], after_it[0]
        if steps[first] <= steps[before[0]] or usual_distance(steps[before]) != usual_distance(steps[after_it]):
            continue
        down_s = (written[first] - written[last]) / NS_PER_S
        known = float(down_s) if down_s >= 0 else None  # NaN where a line states no date
        found.append(Restart(int(lines[first]), int(steps[last]), int(steps[first]), known))
    return tuple(found)


def usual_distance(steps: NDArray[np.float64]) -> float:
    """The usual distance of printed steps; 0 of a single one, which shows none."""
    return float(np.median(np.diff(steps))) if len(steps) > 1 else 0.0
