"""Predicted against measured gains: over pairs with one cause, cause by cause, and of several causes together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evals.results.means import Mean, mean
from evals.suite.outcome import CaseResult
from evals.synthetic.spec import Record
from tools.whatif.claim import COVERS_PCT

CLAIMED = COVERS_PCT / 100.0  # how often a predicted interval says that it holds the truth


class Gains(Record):
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


class CauseGains(Record):
    """The pairs of one labelled cause. Errors are in % of the step; a negative bias is predicted too low."""

    cause: str  # with its mechanism, where the label names one
    pairs: int  # with a prediction
    unpredicted: int
    median_error_pct: float | None
    bias_pct: float | None  # median of predicted less measured saving
    covered: int


class SharedGains(Record):
    """Runs with several causes: what these promise together against what fixing all of them saved."""

    cases: int
    median_error_pct: float
    most_promised_pct: float  # the largest sum over all listed causes of one answer


def gains(results: Sequence[CaseResult]) -> Gains | None:
    """Errors and coverage of the predicted gains; None without any."""
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


def gains_by_cause(results: Sequence[CaseResult]) -> list[CauseGains]:
    """The pairs of each labelled cause, by name."""
    pairs: dict[str, list[CaseResult]] = {}
    for result in results:
        if result.measured_saving_pct is not None and result.expected:
            pairs.setdefault(result.expected[0], []).append(result)
    return [_of_cause(cause, pairs[cause]) for cause in sorted(pairs)]


def _of_cause(cause: str, results: Sequence[CaseResult]) -> CauseGains:
    known = [result.gain for result in results if result.gain is not None]
    signed = [each.signed_pct for each in known if each.signed_pct is not None]
    return CauseGains(
        cause=cause,
        pairs=len(known),
        unpredicted=len(results) - len(known),
        median_error_pct=float(np.median([each.error_pct for each in known])) if known else None,
        bias_pct=float(np.median(signed)) if signed else None,
        covered=sum(each.covered for each in known),
    )


def shared_gains(results: Sequence[CaseResult]) -> SharedGains | None:
    """Promises of several causes at once; None without such a run."""
    known = [result.shared for result in results if result.shared is not None]
    if not known:
        return None
    return SharedGains(
        cases=len(known),
        median_error_pct=float(np.median([abs(each.promised_pct - each.measured_pct) for each in known])),
        most_promised_pct=max(each.listed_pct for each in known),
    )
