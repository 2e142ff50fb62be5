"""Means with bootstrap intervals, calibration, confusion and predicted gains over case results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from pydantic import BaseModel, ConfigDict

from evals.outcome import CaseResult
from tools.whatif.claim import COVERS_PCT

RESAMPLES = 2000
CONFIDENCE = 0.95
EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
NONE_NAMED = "(none)"
CLAIMED = COVERS_PCT / 100.0  # how often a predicted interval says that it holds the truth


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mean(_Record):
    """A mean over cases with its 95 % bootstrap percentile interval."""

    mean: float
    low: float
    high: float
    cases: int


class Bin(_Record):
    """Stated confidences from ``low`` on and below ``high``, and how often they were right."""

    low: float
    high: float
    confidence: float
    accuracy: float
    cases: int


class Gains(_Record):
    """Predicted against measured gain over pairs with one cause. Errors are in % of the step time.

    ``unpredicted`` are pairs for whose right cause no gain was predicted (most of them misses); in
    ``median_error_all_pct`` they count as if no gain had been predicted, in the rest they do not count.
    """

    cases: int
    median_error_pct: float
    covered: Mean  # the interval holds the measured speedup
    claimed: float = CLAIMED
    met: Mean | None = None  # the interval and the measurement's own have a value in common
    unpredicted: int = 0
    median_error_all_pct: float | None = None


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
    found = {name: mean([r.scores[name] for r in results if name in r.scores]) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def calibration(results: Sequence[CaseResult]) -> tuple[list[Bin], float | None]:
    """The curve of the first causes' confidence against being right, and the expected calibration error.

    Counted are cases that label a cause and healthy ones, where any cause named first is wrong.
    """
    asked = [r for r in results if r.named and ("top_1" in r.scores or r.tags.kind == "healthy")]
    if not asked:
        return [], None
    stated = np.array([r.named[0].confidence for r in asked])
    right = np.array([r.scores.get("top_1", 0.0) for r in asked])
    place = np.digitize(stated, EDGES[1:-1])
    curve = [
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
    error = sum(each.cases * abs(each.confidence - each.accuracy) for each in curve) / len(asked)
    return curve, float(error)


def confusion(results: Sequence[CaseResult]) -> dict[str, dict[str, int]]:
    """For every labelled cause (or healthy) how often which cause came first; ``(none)`` where none was named."""
    table: dict[str, Counter[str]] = {}
    for result in results:
        label = result.expected[0].partition("/")[0] if result.expected else result.tags.kind
        if result.status != "scored" or not (result.expected or result.tags.kind == "healthy"):
            continue
        table.setdefault(label, Counter())[result.named[0].cause if result.named else NONE_NAMED] += 1
    return {label: dict(counts.most_common()) for label, counts in sorted(table.items())}


def gains(results: Sequence[CaseResult]) -> Gains | None:
    """How good the predicted gains are; None without any."""
    known = [result.gain for result in results if result.gain is not None]
    missing = [r.measured_saving_pct for r in results if r.gain is None and r.measured_saving_pct is not None]
    covered = mean([float(each.covered) for each in known])
    if covered is None:
        return None
    errors = [each.error_pct for each in known]
    return Gains(
        cases=len(known),
        median_error_pct=float(np.median(errors)),
        covered=covered,
        met=mean([float(each.meets) for each in known if each.meets is not None]),
        unpredicted=len(missing),
        median_error_all_pct=float(np.median([*errors, *missing])),
    )
