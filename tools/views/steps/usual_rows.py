"""Which recorded rows are steps: those of a believable duration, in order of time; and which are the first ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

SETTLING_SHARE = 0.1  # of the steps, at most SETTLING_STEPS: caches fill, allocators grow, workers start
SETTLING_STEPS = 10
LONGEST_MS = 1e9  # a step of eleven days is a damaged record


def in_order(steps: pd.DataFrame, order: list[str]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Steps of each rank in order of time, with a believable duration; numbered from 0 where numbers restart."""
    sound = steps["wall_ms"].between(0.0, LONGEST_MS, inclusive="neither")
    dropped = int((~sound).sum())
    table = steps[sound].sort_values(["rank", *order], kind="stable", ignore_index=True)
    notes = [f"{dropped} recorded steps have no believable duration and were left out"] if dropped else []
    if (table.groupby("rank")["step"].diff() <= 0).any():
        table = table.assign(step=table.groupby("rank").cumcount())
        notes.append("step numbers restart within the run: its steps are counted from 0 in order of time")
    return table, tuple(notes)


def settling(table: pd.DataFrame) -> NDArray[np.bool_]:
    """The first steps of each rank."""
    place = table.groupby("rank").cumcount()
    count = table.groupby("rank")["step"].transform("size")
    return np.asarray(place < np.minimum(np.ceil(count * SETTLING_SHARE), SETTLING_STEPS), dtype=bool)
