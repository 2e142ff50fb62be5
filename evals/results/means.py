"""Means of scores over cases, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evals.suite.outcome import CaseResult
from evals.synthetic.spec import Record

RESAMPLES = 2000
CONFIDENCE = 0.95


class Mean(Record):
    """A mean over cases with its 95 % bootstrap percentile interval."""

    mean: float
    low: float
    high: float
    cases: int


def mean(values: Sequence[float]) -> Mean | None:
    """The mean of the values; None without any."""
    if not values:
        return None
    data = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(0).choice(data, (RESAMPLES, len(data))).mean(axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Mean(mean=float(data.mean()), low=float(low), high=float(high), cases=len(data))


def means(results: Sequence[CaseResult]) -> dict[str, Mean]:
    """The mean of every score over the cases that ask for it."""
    names = dict.fromkeys(name for result in results for name in result.scores)
    scored = {name: [r.scores[name] for r in results if name in r.scores] for name in names}
    return {name: found for name, values in scored.items() if (found := mean(values)) is not None}
