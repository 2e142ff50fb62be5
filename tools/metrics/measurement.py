"""The result of a metric: one figure and the rows behind it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import ModuleType
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import IntervalSet
from tools.views.profile import Profile
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
    is a noun phrase that may name arguments in braces (``{part} share of the step``), see ``tools.metrics.registry``.
    """

    name: str
    unit: str
    label: str
    question: str
    function: Callable[..., Measurement]


Measuring = TypeVar("Measuring", bound=Callable[..., Measurement])


_DEFINED: dict[str, dict[str, Metric]] = {}  # by module, each at the function that measures it
MOST_LISTED, MOST_COMPARED, NEAREST = 20, 2000, 5


def metric(unit: str, label: str, question: str) -> Callable[[Measuring], Measuring]:
    """Define the decorated function as a metric under its own name."""

    def enter(function: Measuring) -> Measuring:
        defined = _DEFINED.setdefault(function.__module__, {})
        defined[function.__name__] = Metric(function.__name__, unit, label, question, function)
        return function

    return enter


def metrics_of(*modules: ModuleType) -> dict[str, Metric]:
    """The metrics that these modules define, by name."""
    return {name: each for module in modules for name, each in _DEFINED[module.__name__].items()}


def choice(what: str, asked: str, known: Collection[str]) -> str:
    """The name asked for; UsageError with the known names, or the nearest of many, where it is none of them."""
    if asked in known:
        return asked
    if len(known) <= MOST_LISTED:
        raise UsageError(f"there is no {what} {asked!r}; choose one of {', '.join(known)}")
    near = get_close_matches(asked, list(known)[:MOST_COMPARED], NEAREST, cutoff=0.0)
    raise UsageError(f"there is no {what} {asked!r}; the nearest are {', '.join(near)}")


PERCENTILES = ("p5", "p10", "p25", "p75", "p90", "p95", "p99")
STATISTICS = ("mean", "median", *PERCENTILES, "min", "max")


def of_rank(view: RankProfile, value: float, rows: Callable[[], pd.DataFrame], selector: str) -> Measurement:
    """A figure about all steps of one rank."""
    steps = tuple(int(number) for number in view.steps["number"])
    return Measurement(float(value), rows, selector, (view.rank.rank,), steps, view.rank.window())


def of_events(view: RankProfile, value: float, rows: NDArray[np.int64], selector: str) -> Measurement:
    """A figure about all steps of one rank, from these events."""
    return of_rank(view, value, lambda: event_rows(view, rows), selector)


def of_moments(view: RankProfile, value: float, moments: IntervalSet, selector: str) -> Measurement:
    """A figure about all steps of one rank, from an interval set."""
    return of_rank(view, value, lambda: pd.DataFrame(moments, columns=["start_ns", "end_ns"]), selector)


def of_ranks(
    profile: Profile,
    value: float,
    table: pd.DataFrame,
    selector: str,
    ranks: int | Sequence[int] | None = None,
    steps: Sequence[int] = (),
) -> Measurement:
    """A figure about these traced ranks and steps, all of them where none are given."""
    ranks = (ranks,) if isinstance(ranks, int) else tuple(ranks or profile.run.rank_numbers)
    steps = tuple(steps) or tuple(int(number) for number in sorted(profile.breakdown["number"].unique()))
    windows = [profile.rank(rank).rank.window() for rank in ranks]
    window = (min(start for start, _ in windows), max(end for _, end in windows))
    return Measurement(float(value), lambda: table.reset_index(drop=True), selector, ranks, steps, window)


def as_pct(part: Measurement, whole: float) -> Measurement:
    """The figure as a share of the whole."""
    return replace(part, value=100.0 * part.value / whole)


def event_rows(view: RankProfile, rows: NDArray[np.int64]) -> pd.DataFrame:
    """The events of these rows as columns row, start_ns, end_ns, name, track."""
    frame = view.events.frame.iloc[rows][["start_ns", "end_ns", "name", "track"]]
    return frame.rename_axis("row").reset_index()


def over_steps(values: NDArray[np.float64], statistic: str) -> float:
    """Mean, median, a percentile, minimum or maximum of figures, such as those of all steps."""
    match choice("statistic", statistic, STATISTICS):
        case "mean":
            return float(values.mean())
        case "median":
            return float(np.median(values))
        case "min":
            return float(values.min())
        case "max":
            return float(values.max())
        case _:
            return float(np.quantile(values, int(statistic[1:]) / 100))
