"""Latency and inverse bandwidth of a link or a kernel, fitted to measured points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SHORTEST_MS = 1e-6  # a nanosecond; no transfer or kernel is as short


@dataclass(frozen=True)
class Line:
    """``time_ms = alpha_ms + beta_ms_per_unit * size``; neither is negative."""

    alpha_ms: float
    beta_ms_per_unit: float

    def time_ms(self, size: float) -> float:
        """Time of a transfer or kernel of this size."""
        return self.alpha_ms + self.beta_ms_per_unit * size


def fit_line(sizes: Sequence[float], times_ms: Sequence[float]) -> Line:
    """Return the line with the least squares of relative errors, as timing noise is in proportion to the time.

    Raises ValueError for fewer than two sizes or a time below 1 ns.
    """
    if len(set(sizes)) < 2:
        raise ValueError("points of at least two different sizes are needed")
    if min(times_ms) < SHORTEST_MS:
        raise ValueError("every measured time has to be 1 ns or longer; check the unit")
    times = np.array(times_ms, dtype=float)
    constant, slope = 1.0 / times, np.array(sizes, dtype=float) / times
    scale = float(slope.max())
    (alpha, scaled), *_ = np.linalg.lstsq(np.column_stack([constant, slope / scale]), np.ones(len(times)), rcond=None)
    if alpha < 0:
        return Line(0.0, float(slope.sum() / (slope**2).sum()))
    if scaled < 0:
        return Line(float(constant.sum() / (constant**2).sum()), 0.0)
    return Line(float(alpha), float(scaled / scale))
