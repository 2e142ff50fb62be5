"""Predicted against measured gains over pairs with one cause."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evals.means import Mean, mean
from evals.outcome import CaseResult
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
