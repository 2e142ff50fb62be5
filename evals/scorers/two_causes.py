"""Scores of runs with several causes at once: all are named, and together promise what was measured."""

from __future__ import annotations

from evals.suite.outcome import Outcome, SharedSaving

TOLERANCE_PCT = 8.0  # of the step, beyond the upper end of the measured saving: the error allowed to a predicted gain


def both_named(outcome: Outcome) -> float | None:
    """1 where every one of several causes is asserted."""
    wanted = outcome.case.expected.all_of
    if not wanted or outcome.case.expected.may_abstain:
        return None
    return float(set(outcome.case.expected.causes) <= {each.cause for each in outcome.asserted})


def shared_saving(outcome: Outcome) -> SharedSaving | None:
    """What the causes promise together and what fixing all of them saved; None where it was not measured."""
    expected, measured = outcome.case.expected, outcome.measured
    if not expected.all_of or measured is None or outcome.diagnosis is None:
        return None
    most = measured.speedup_high or measured.before_ms / measured.after_ms
    return SharedSaving(
        promised_pct=round(sum(each.impact_pct for each in outcome.ranked if each.cause in expected.causes), 2),
        listed_pct=round(sum(each.impact_pct for each in outcome.ranked), 2),
        measured_pct=round(100.0 * (1.0 - measured.after_ms / measured.before_ms), 2),
        most_pct=round(100.0 * (1.0 - 1.0 / most), 2),
    )


def shared_honestly(outcome: Outcome) -> float | None:
    """1 where all listed causes promise at most the step, and the right ones no more than was measured for them."""
    shared = shared_saving(outcome)
    if shared is None:
        return None
    return float(shared.listed_pct <= 100.0 and shared.promised_pct <= shared.most_pct + TOLERANCE_PCT)
