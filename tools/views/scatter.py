"""What the scatter of a few steps leaves sure of their mean."""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma, pi, sqrt, tan
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)  # on -1 to 1
HALVINGS = 60  # of the range in which a quantile lies
NORMAL_FROM = 1e6  # degrees of freedom: from here on Student's quantile is the normal one to six digits


def least_mean(values: NDArray[np.float64]) -> float:
    """The lower end of the two-sided 95 % interval of the mean (Student), of at least two values."""
    return float(values.mean()) - student_quantile(len(values) - 1.0) * float(values.std(ddof=1)) / sqrt(len(values))


@lru_cache(maxsize=256)
def student_quantile(freedom: float) -> float:
    """The two-sided 95 % quantile of Student's t, for one degree of freedom or more, to six digits."""
    if freedom >= NORMAL_FROM:
        return NormalDist().inv_cdf(0.5 + LEVEL / 2.0)
    low, high = 0.0, pi / 2.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _within(middle, freedom) < LEVEL else (low, middle)
    return sqrt(freedom) * tan(low)


def _within(angle: float, freedom: float) -> float:
    """The probability of a t between plus and minus sqrt(freedom) tan(angle).

    The integral of cos^(freedom - 1) from 0 to the angle (Abramowitz and Stegun 26.7.1 with t = sqrt(freedom) tan x).
    """
    scale = exp(lgamma((freedom + 1.0) / 2.0) - lgamma(freedom / 2.0)) / sqrt(pi)
    inner = np.cos(0.5 * angle * (NODES + 1.0)) ** (freedom - 1.0)
    return 2.0 * scale * 0.5 * angle * float(WEIGHTS @ inner)
