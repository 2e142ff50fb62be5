"""Why the right cause did not come first: what came instead, and what the run's own checks said of the right one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from evals.case_schema import Expected
from evals.outcome import Outcome
from evals.scorers import diagnosis as ranking
from evals.scorers import diagnosis as restraint
from evals.scorers import registry as reasons
from evals.scorers import texts as citations
from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import CauseRecord, CheckRecord
from tools.knowledge.taxonomy import causes

LONGEST = 160


def first(outcome: Outcome) -> str:
    """The cause that came first with its confidence and share of the step, or ``no cause``."""
    return _told(outcome.ranked[0]) if outcome.ranked else "no cause"


def _told(cause: CauseRecord) -> str:
    return f"{cause.cause} ({cause.confidence:.2f}, {cause.impact_pct:.1f} % of the step)"


def why_not(outcome: Outcome) -> str:
    """Where the right cause came, or else what its checks said: clean, cannot answer and why, or never asked."""
    if outcome.diagnosis is None:
        return "there is no diagnosis"
    accepted = outcome.case.expected.accepted
    for place, cause in enumerate(outcome.ranked, start=1):
        if cause.cause in accepted:
            return f"{_told(cause)} came as number {place}"
    asked = [check for name in dict.fromkeys(accepted) for check in _checks_of(name, outcome.diagnosis.checks)]
    return "; ".join(dict.fromkeys(_said(check) for check in asked)) or "no check asks for it"


def _checks_of(cause: str, checks: list[CheckRecord]) -> list[CheckRecord]:
    """The checks that are named after the cause or one of its mechanisms, else those of its family that found a thing.

    A check carries a name and no cause, so names are all there is to go by.
    """
    known = causes()[cause]
    names = {cause, *known.mechanisms}
    named = [check for check in checks if check.analyzer.rpartition(".")[2] in names]
    if named:
        return named
    return [c for c in checks if c.analyzer.partition(".")[0] == known.family and c.status == "found"]


def _said(check: CheckRecord) -> str:
    said = check.reason or " ".join(check.text)
    return printable(f"{check.analyzer} {check.status.replace('_', ' ')}: {said}")[:LONGEST]


SCORERS: Mapping[str, Callable[[Outcome], float | None]] = MappingProxyType(
    {
        "top_1": ranking.top_1,
        "also_right": ranking.also_right,
        "top_3": ranking.top_3,
        "diagnosed": ranking.diagnosed,
        "mechanism": ranking.mechanism,
        "family": ranking.family,
        "verdict": ranking.verdict,
        "rank_scope": ranking.rank_scope,
        "step_scope": ranking.step_scope,
        "set_f1": ranking.set_f1,
        "healthy_false_positive": restraint.healthy_false_positive,
        "abstention": restraint.abstention,
        "refusal": restraint.refusal,
        "no_forbidden_cause": restraint.no_forbidden_cause,
        "no_forbidden_text": restraint.no_forbidden_text,
        "answer_says": restraint.answer_says,
        "names": restraint.names,
        "citation_existence": citations.existence,
        "citation_support": citations.support,
        "numeric_fidelity": citations.fidelity,
        "expected_facts": citations.expected_facts,
    }
)
LOWER_IS_BETTER = frozenset({"healthy_false_positive"})
PARTIAL = frozenset(
    {"also_right", "set_f1", "rank_scope", "step_scope", "mechanism", "top_3", "names"}
)  # reported, no miss by themselves


def score(outcome: Outcome) -> dict[str, float]:
    """All scores that the case asks for."""
    given = {name: scorer(outcome) for name, scorer in SCORERS.items()}
    return {name: value for name, value in given.items() if value is not None}


def misses(outcome: Outcome, scores: Mapping[str, float]) -> list[str]:
    """What is wrong, one line each; empty when the case is answered as it should be."""
    lines = [
        _diagnosis_text(name, outcome) for name, value in scores.items() if name not in PARTIAL and _failed(name, value)
    ]
    if outcome.refused and outcome.case.expected.error is None:
        lines.insert(0, f"refused: {outcome.refused}")
    return lines


def _failed(name: str, value: float) -> bool:
    return value > 0.0 if name in LOWER_IS_BETTER else value < 1.0


def _wanted(expected: Expected) -> str:
    return " or ".join(expected.any_of) or " and ".join(expected.all_of)


def _diagnosis_text(name: str, outcome: Outcome) -> str:
    expected = outcome.case.expected
    got = outcome.diagnosis.verdict if outcome.diagnosis else "no diagnosis"
    first = reasons.first(outcome)
    match name:
        case "top_1":
            return f"top_1: expected {_wanted(expected)}; {got}, {first} first; {reasons.why_not(outcome)}"
        case "diagnosed":
            return f"diagnosed: expected {_wanted(expected)}; {got}, {first} first"
        case "family":
            return f"family: expected {expected.family}; {first} first"
        case "verdict" | "abstention" | "healthy_false_positive":
            wanted = " or ".join(expected.verdict) or "no problem"
            return f"{name}: expected {wanted}; got {got} ({first} first)"
        case "refusal":
            return f"refusal: expected {expected.error}; got {outcome.refusal or got}"
        case "no_forbidden_cause":
            named = sorted({cause.cause for cause in outcome.asserted})
            return f"no_forbidden_cause: asserted {', '.join(named)}; ruled out {', '.join(expected.not_causes)}"
        case "citation_support" | "numeric_fidelity" | "citation_existence":
            return f"{name}: {'; '.join(citations.unsupported(outcome)[:2])}"
        case _:
            return f"{name}: not met"
