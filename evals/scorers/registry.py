"""All scorers by name, and the misses of an outcome: what came first, and what the checks said of the right cause."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from evals.outcome import Outcome
from evals.scorers import scores
from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import CauseRecord, CheckRecord
from tools.knowledge.taxonomy import causes

LONGEST = 160
_ALL: tuple[Callable[[Outcome], float | None], ...] = (
    scores.top_1,
    scores.also_right,
    scores.top_3,
    scores.diagnosed,
    scores.mechanism,
    scores.family,
    scores.verdict,
    scores.rank_scope,
    scores.step_scope,
    scores.set_f1,
    scores.healthy_false_positive,
    scores.abstention,
    scores.refusal,
    scores.no_forbidden_cause,
    scores.no_forbidden_text,
    scores.answer_says,
    scores.names,
    scores.citation_existence,
    scores.citation_support,
    scores.numeric_fidelity,
    scores.expected_facts,
)
SCORERS: Mapping[str, Callable[[Outcome], float | None]] = MappingProxyType({each.__name__: each for each in _ALL})
LOWER_IS_BETTER = frozenset({"healthy_false_positive"})
# reported, no miss by themselves
PARTIAL = frozenset({"also_right", "set_f1", "rank_scope", "step_scope", "mechanism", "top_3", "names"})


def score(outcome: Outcome) -> dict[str, float]:
    """All scores that the case asks for."""
    given = {name: scorer(outcome) for name, scorer in SCORERS.items()}
    return {name: value for name, value in given.items() if value is not None}


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
            return f"{name}: {'; '.join(scores.unsupported(outcome)[:2])}"
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
