"""The predicted gain of one outcome against the measured one."""

from __future__ import annotations

from evals.suite.case_schema import Case
from evals.suite.outcome import Gain, Outcome


def gain(outcome: Outcome) -> Gain | None:
    """The first advice for the first right cause against what fixing brought; None where either is missing."""
    measured = outcome.measured
    if measured is None or outcome.diagnosis is None or not only_cause(outcome.case):
        return None
    for item in outcome.diagnosis.advice:
        if item.for_ in outcome.case.expected.accepted and item.predicted_speedup is not None and item.interval:
            true = measured.before_ms / measured.after_ms
            low, high = item.interval
            error_pct = _saving_pct(item.predicted_speedup) - _saving_pct(true)
            least, most = measured.speedup_low or true, measured.speedup_high or true
            return Gain(
                predicted=item.predicted_speedup,
                low=low,
                high=high,
                measured=true,
                error_pct=abs(error_pct),
                signed_pct=error_pct,
                covered=low <= true <= high,
                meets=low <= most and least <= high,
            )
    return None


def only_cause(case: Case) -> bool:
    """Return whether one cause is expected, by whichever name: only then is the pair's saving that of one change."""
    return bool(case.expected.any_of)


def _saving_pct(speedup: float) -> float:
    return 100.0 * (1.0 - 1.0 / speedup)
