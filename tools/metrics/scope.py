"""A measurement taken over all steps of one rank, and the event rows that show it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import IntervalSet, covered
from tools.metrics.measurement import Measurement
from tools.profilers.rank_profile import RankProfile

STATISTICS = ("mean", "median", "max")


def of_rank(view: RankProfile, value: float, rows: Callable[[], pd.DataFrame], selector: str) -> Measurement:
    """A figure about all steps of one rank."""
    steps = tuple(int(number) for number in view.steps["number"])
    return Measurement(float(value), rows, selector, (view.rank.rank,), steps, view.rank.window())


def event_rows(view: RankProfile, rows: NDArray[np.int64]) -> pd.DataFrame:
    """The events of these rows as columns row, start_ns, end_ns, name, track."""
    frame = view.events.frame.iloc[rows][["start_ns", "end_ns", "name", "track"]]
    return frame.rename_axis("row").reset_index()


def interval_rows(moments: IntervalSet) -> pd.DataFrame:
    """An interval set as columns start_ns, end_ns."""
    return pd.DataFrame(moments, columns=["start_ns", "end_ns"])


def step_ms(view: RankProfile, moments: IntervalSet) -> NDArray[np.float64]:
    """Milliseconds of the interval set in each step of the rank."""
    steps = view.steps
    return np.asarray(covered(moments, steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()) / 1e6)


def wall_ms(view: RankProfile) -> NDArray[np.float64]:
    """Duration of each step of the rank in ms."""
    return np.asarray((view.steps["end_ns"] - view.steps["start_ns"]).to_numpy() / 1e6)


def over_steps(values: NDArray[np.float64], statistic: str) -> float:
    """Mean, median or maximum over steps."""
    match statistic:
        case "mean":
            return float(values.mean())
        case "median":
            return float(np.median(values))
        case "max":
            return float(values.max())
        case _:
            raise UsageError(f"there is no statistic {statistic!r}; choose one of {', '.join(STATISTICS)}")
