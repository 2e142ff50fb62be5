"""The answer to a labelled run in one word, which is comparable between sources and origins."""

from __future__ import annotations

from evals.scorers.scores import healthy_false_positive
from evals.suite.outcome import Outcome, Standing


def standing(outcome: Outcome) -> Standing | None:
    """Right or wrong, inconclusive with or without a lead, or no answer; None where the label names nothing.

    A faulty run is answered right by a problem whose first cause is a labelled one; healthy, or another cause first, is
    wrong. A healthy run is answered right by ``healthy``, or by a problem that its label admits.
    """
    expected, healthy = outcome.case.expected, outcome.case.tags.kind == "healthy"
    if not (expected.causes or healthy):
        return None
    if outcome.refusal == "unreadable":
        return "cannot_answer"
    match outcome.verdict:
        case "inconclusive":
            return "lead" if outcome.diagnosis is not None and outcome.diagnosis.leads else "no_lead"
        case "problem" if healthy:
            return "wrong" if healthy_false_positive(outcome) else "right"
        case "problem":
            return "right" if outcome.ranked and outcome.ranked[0].cause in expected.accepted else "wrong"
        case "healthy":
            return "right" if healthy else "wrong"
        case _:
            return None
