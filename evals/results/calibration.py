"""Stated confidence of the first causes against how often they were right."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evals.suite.outcome import CaseResult
from evals.synthetic.spec import Record

EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
Values = NDArray[np.float64]


class Bin(Record):
    """Stated confidences from ``low`` on and below ``high``, and how often they were right."""

    low: float
    high: float
    confidence: float
    accuracy: float
    cases: int


def answered(results: Sequence[CaseResult]) -> tuple[Values, Values]:
    """The first causes' confidence, and 1 where it was right.

    Counted are cases that label a cause and healthy ones, where any cause named first is wrong.
    """
    asked = [r for r in results if r.named and ("top_1" in r.scores or r.tags.kind == "healthy")]
    stated = np.array([r.named[0].confidence for r in asked], dtype=float)
    return stated, np.array([r.scores.get("top_1", 0.0) for r in asked], dtype=float)


def curve_of(stated: Values, right: Values) -> list[Bin]:
    """The bins that hold cases, lowest first."""
    place = np.digitize(stated, EDGES[1:-1])
    return [
        Bin(
            low=low,
            high=high,
            confidence=float(stated[place == at].mean()),
            accuracy=float(right[place == at].mean()),
            cases=int((place == at).sum()),
        )
        for at, (low, high) in enumerate(pairwise(EDGES))
        if (place == at).any()
    ]


def calibration_error(stated: Values, right: Values) -> float:
    """The expected calibration error: mean distance of stated and true share over the cases of the bins."""
    return sum(each.cases * abs(each.confidence - each.accuracy) for each in curve_of(stated, right)) / len(stated)


def calibration(results: Sequence[CaseResult]) -> tuple[list[Bin], float | None]:
    """The curve of the first causes' confidence against being right, and the expected calibration error."""
    stated, right = answered(results)
    return (curve_of(stated, right), calibration_error(stated, right)) if len(stated) else ([], None)
