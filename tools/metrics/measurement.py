"""What a metric gives back: one figure and the rows behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import IntervalSet, covered
from tools.views.rank_profile import RankProfile


@dataclass(frozen=True, eq=False)
class Measurement:
    """One figure. ``rows`` is called only when somebody wants to see the rows behind it (names are untrusted)."""

    value: float
    rows: Callable[[], pd.DataFrame]
    selector: str  # how to find the same rows with another tool
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    window_ns: tuple[int, int] | None = None
    source: str = ""  # the format of the sources it was read from; "" for the traces


@dataclass(frozen=True)
class Metric:
    """A named measurement: its unit, the words for its value, and the question it answers.

    The function takes a profile and JSON scalars by name, so that a fact can be stored and measured again. ``label``
    is a noun phrase that may name arguments in braces (``{part} share of the step``), see ``tools.metrics.labels``.
    """

    name: str
    unit: str
    label: str
    question: str
    function: Callable[..., Measurement]


Measuring = TypeVar("Measuring", bound=Callable[..., Measurement])


class MetricTable(dict[str, Metric]):
    """The metrics of one module by name, each defined at the function that measures it."""

    def define(self, unit: str, label: str, question: str) -> Callable[[Measuring], Measuring]:
        """Enter the decorated function as a metric under its own name."""

        def enter(function: Measuring) -> Measuring:
            self[function.__name__] = Metric(function.__name__, unit, label, question, function)
            return function

        return enter


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
