"""What a metric gives back: one figure and the rows behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pandas as pd

from tools.profilers.profile import Profile


@dataclass(frozen=True, eq=False)
class Measurement:
    """One figure. ``rows`` is called only when somebody wants to see the rows behind it (names are untrusted)."""

    value: float
    rows: Callable[[], pd.DataFrame]
    selector: str  # how to find the same rows with another tool
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    window_ns: tuple[int, int] | None = None


class MetricFunction(Protocol):
    """Measures one thing about a run; arguments are JSON scalars so that a fact can be stored and measured again."""

    def __call__(self, profile: Profile, **arguments: str | int | float | None) -> Measurement: ...


@dataclass(frozen=True)
class Metric:
    """A named measurement, its unit, and the question it answers."""

    name: str
    unit: str
    question: str
    function: Callable[..., Measurement]
