"""What a metric gives back: one figure and the rows behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd


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
    """A named measurement, its unit, and the question it answers.

    The function takes a profile and JSON scalars by name, so that a fact can be stored and measured again.
    """

    name: str
    unit: str
    question: str
    function: Callable[..., Measurement]
