"""The misses of an outcome: what came first, and what the checks said of the right cause."""

from __future__ import annotations

from collections.abc import Mapping

from evals.scorers.registry import LOWER_IS_BETTER, PARTIAL
from evals.scorers.scores import unsupported
from evals.scorers.two_causes import shared_saving
from evals.suite.observations import asked
from evals.suite.outcome import Outcome
from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import CauseRecord, CheckRecord
from tools.knowledge.taxonomy import causes

LONGEST = 160


def misses(outcome: Outcome, scored: Mapping[str, float]) -> list[str]:
    """The misses, one line each; empty when the case is answered as it should be."""
    failed = [name for name, value in scored.items() if (value > 0.0 if name in LOWER_IS_BETTER else value < 1.0)]
    lines = [_line(name, outcome) for name in failed if name not in PARTIAL]
    if outcome.refused and outcome.case.expected.error is None and not outcome.case.expected.may_abstain:
        lines.insert(0, f"refused: {outcome.refused}")
    return lines


def _line(name: str, outcome: Outcome) -> str:
    expected = outcome.case.expected
    got = outcome.verdict or "no diagnosis"
    first = _with_share(outcome.ranked[0]) if outcome.ranked else "no cause"
    wanted = " or ".join(expected.any_of) or " and ".join(expected.all_of)
    match name:
        case "top_1":
            return f"top_1: expected {wanted}; {got}, {first} first; {_why_not(outcome)}"
        case "diagnosed":
            return f"diagnosed: expected {wanted}; {got}, {first} first"
        case "family":
            return f"family: expected {expected.family}; {first} first"
        case "verdict" | "abstention" | "healthy_false_positive":
            return f"{name}: expected {' or '.join(expected.verdict) or 'no problem'}; got {got} ({first} first)"
        case "refusal":
            return f"refusal: expected {expected.error}; got {outcome.refusal or got}"
        case "no_forbidden_cause":
            named = sorted({cause.cause for cause in outcome.asserted})
            return f"no_forbidden_cause: asserted {', '.join(named)}; ruled out {', '.join(expected.not_causes)}"
        case "citation_support" | "numeric_fidelity" | "citation_existence":
            return f"{name}: {'; '.join(unsupported(outcome)[:2])}"
        case _:
            return _of_leads(name, outcome)


def _of_leads(name: str, outcome: Outcome) -> str:
    """Leads and several causes at once."""
    match name:
        case "lead_given":
            return "lead_given: inconclusive without a lead"
        case "lead_observation" if outcome.diagnosis is not None:
            repeated = [lead.decide_by for lead in outcome.diagnosis.leads if asked(lead.decide_by) & outcome.present]
            return f"lead_observation: asks for what the run holds: {'; '.join(repeated)}"
        case "both_named":
            named = ", ".join(sorted({each.cause for each in outcome.asserted})) or "none"
            return f"both_named: expected {' and '.join(outcome.case.expected.all_of)}; asserted {named}"
        case "shared_honestly" if (shared := shared_saving(outcome)) is not None:
            promised = f"{shared.promised_pct:.1f} % promised by the right causes, {shared.measured_pct:.1f} % measured"
            return f"shared_honestly: {promised}; {shared.listed_pct:.1f} % by all that are listed"
        case _:
            return f"{name}: not met"


def _with_share(cause: CauseRecord) -> str:
    return f"{cause.cause} ({cause.confidence:.2f}, {cause.impact_pct:.1f} % of the step)"


def _why_not(outcome: Outcome) -> str:
    """The place of the right cause, or else what its checks said: clean, cannot answer and why, or never asked."""
    if outcome.diagnosis is None:
        return "there is no diagnosis"
    accepted = outcome.case.expected.accepted
    for place, cause in enumerate(outcome.ranked, start=1):
        if cause.cause in accepted:
            return f"{_with_share(cause)} came as number {place}"
    asked = [check for name in dict.fromkeys(accepted) for check in _checks_of(name, outcome.diagnosis.checks)]
    said = [f"{c.analyzer} {c.status.replace('_', ' ')}: {c.reason or ' '.join(c.text)}" for c in asked]
    return "; ".join(dict.fromkeys(printable(text)[:LONGEST] for text in said)) or "no check asks for it"


def _checks_of(cause: str, checks: list[CheckRecord]) -> list[CheckRecord]:
    """The checks that are named after the cause or one of its mechanisms, else those of its family that found a thing.

    A check carries a name and no cause, so names are all there is to go by.
    """
    known = causes()[cause]
    named = [check for check in checks if check.analyzer.rpartition(".")[2] in {cause, *known.mechanisms}]
    return named or [c for c in checks if c.analyzer.partition(".")[0] == known.family and c.status == "found"]
