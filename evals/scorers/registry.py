"""All scorers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from evals.scorers import leads, scores, two_causes
from evals.suite.outcome import Outcome

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
    leads.lead_given,
    leads.lead_place,
    leads.lead_candidate,
    leads.lead_observation,
    two_causes.both_named,
    two_causes.shared_honestly,
)
SCORERS: Mapping[str, Callable[[Outcome], float | None]] = MappingProxyType({each.__name__: each for each in _ALL})
LOWER_IS_BETTER = frozenset({"healthy_false_positive"})
# reported, no miss by themselves
PARTIAL = frozenset(
    {"also_right", "set_f1", "rank_scope", "step_scope", "mechanism", "top_3", "names", "lead_place", "lead_candidate"}
)


def score(outcome: Outcome) -> dict[str, float]:
    """All scores that the case asks for."""
    given = {name: scorer(outcome) for name, scorer in SCORERS.items()}
    return {name: value for name, value in given.items() if value is not None}
