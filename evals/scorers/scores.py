"""The scores of one outcome, each None where the case does not ask for it: causes, restraint and texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

from evals.suite.case_schema import ExpectedFact, Verdict
from evals.suite.outcome import Outcome
from hermes_agent.evidence.citations import cited_figures, cited_ids, is_figure_of, sentences, wrong_citations
from hermes_agent.evidence.index import EvidenceIndex, evidence_index
from hermes_agent.model.diagnosis import CauseRecord, EvidenceRecord

VERDICTS = get_args(Verdict)
BETWEEN_WORDS = re.compile(r"[\s_-]+|(?<=[a-z])(?=[A-Z])")


def _first_is_in(outcome: Outcome, causes: Sequence[str]) -> bool:
    return bool(outcome.ranked) and outcome.ranked[0].cause in causes


def _abstains(outcome: Outcome) -> bool:
    return outcome.case.expected.may_abstain and outcome.verdict != "problem"


def _asked(outcome: Outcome) -> bool:
    """Whether a cause is asked for: of what need not show the fault only where a problem is claimed."""
    return bool(outcome.case.expected.causes) and not _abstains(outcome)


def top_1(outcome: Outcome) -> float | None:
    """1 where the first cause is an expected one, or one that the label calls right as well."""
    return float(_first_is_in(outcome, outcome.case.expected.accepted)) if _asked(outcome) else None


def also_right(outcome: Outcome) -> float | None:
    """1 where the first cause is right only because the label takes it as well: a part of ``top_1``, reported apart."""
    own = outcome.case.expected.causes
    return float(top_1(outcome) == 1.0 and not _first_is_in(outcome, own)) if _asked(outcome) else None


def top_3(outcome: Outcome) -> float | None:
    """Share of what is expected (all of ``all_of``, one of ``any_of``) that is among the first three."""
    expected = outcome.case.expected
    if not _asked(outcome):
        return None
    first = {cause.cause for cause in outcome.ranked[:3]}
    if expected.any_of:
        return float(bool(first & set(expected.accepted)))
    return len(first & set(expected.causes)) / len(set(expected.causes))


def diagnosed(outcome: Outcome) -> float | None:
    """1 where the answer asserts it: verdict ``problem`` and the first cause an expected one."""
    first = top_1(outcome)
    return None if first is None else float(first == 1.0 and outcome.verdict == "problem")


def mechanism(outcome: Outcome) -> float | None:
    """1 where the mechanism is right; asked where one is labelled and its cause was found first."""
    if top_1(outcome) != 1.0:
        return None
    first, expected = outcome.ranked[0], outcome.case.expected
    labelled = [name.partition("/")[::2] for name in (*expected.any_of, *expected.all_of) if "/" in name]
    wanted = [name for cause, name in labelled if cause == first.cause]
    return float(first.mechanism in wanted) if wanted else None


def family(outcome: Outcome) -> float | None:
    """1 where the first cause belongs to the expected family."""
    wanted = outcome.case.expected.family
    if wanted is None or _abstains(outcome):
        return None
    return float(bool(outcome.ranked) and outcome.ranked[0].family == wanted)


def verdict(outcome: Outcome) -> float | None:
    """1 where the verdict is one of those that are right; not asked where all of them are."""
    wanted = set(outcome.case.expected.verdict)
    if not wanted or len(wanted) == len(VERDICTS) or (_abstains(outcome) and outcome.refused):
        return None
    return float(outcome.verdict in wanted or _only_as_labelled(outcome))


def _only_as_labelled(outcome: Outcome) -> bool:
    """Whether a healthy run is called a problem for those causes only that its label says slow it down."""
    allowed, named = outcome.case.expected.only_causes, outcome.asserted or outcome.ranked[:1]
    return outcome.verdict == "problem" and bool(named) and all(cause.cause in allowed for cause in named)


def rank_scope(outcome: Outcome) -> float | None:
    """Agreement of the right cause's ranks with the labelled ones; 0 when it was not found."""
    wanted = None if _abstains(outcome) else outcome.case.expected.ranks
    return _scope(wanted, [cause.ranks for cause in outcome.ranked if _right(outcome, cause)])


def step_scope(outcome: Outcome) -> float | None:
    """Agreement of the right cause's steps with the labelled ones; 0 when it was not found."""
    return _scope(outcome.case.expected.steps, [cause.steps for cause in outcome.ranked if _right(outcome, cause)])


def _scope(wanted: Sequence[int] | None, found: Sequence[Sequence[int]]) -> float | None:
    """Shared members of the wanted and the first found ones over all members; 1 for equal sets."""
    if wanted is None or not found:
        return None if wanted is None else 0.0
    both = set(wanted) | set(found[0])
    return len(set(wanted) & set(found[0])) / len(both) if both else 1.0


def _right(outcome: Outcome, cause: CauseRecord) -> bool:
    return cause.cause in outcome.case.expected.accepted


def set_f1(outcome: Outcome) -> float | None:
    """F1 of the asserted causes against the expected ones; allowed consequences do not count."""
    expected = outcome.case.expected
    if not _asked(outcome):
        return None
    allowed = {name.partition("/")[0] for name in expected.also_allowed} - set(expected.accepted)
    named = {cause.cause for cause in outcome.asserted} - allowed
    right = named & set(expected.accepted)
    wanted = 1 if expected.any_of else len(set(expected.causes))
    hits = min(len(right), wanted)
    return 2.0 * hits / (hits + len(named - right) + wanted)


def healthy_false_positive(outcome: Outcome) -> float | None:
    """1 where a problem is claimed on a healthy run (lower is better), but for what its label admits."""
    asked = outcome.case.tags.kind == "healthy" and outcome.diagnosis is not None
    return float(outcome.verdict == "problem" and not _only_as_labelled(outcome)) if asked else None


def abstention(outcome: Outcome) -> float | None:
    """1 where the answer abstains; asked where only ``inconclusive`` is right."""
    asked = outcome.case.expected.verdict == ("inconclusive",) and outcome.diagnosis is not None
    return float(outcome.verdict == "inconclusive") if asked else None


def refusal(outcome: Outcome) -> float | None:
    """1 where runs that must be refused were, for the right reason."""
    wanted = outcome.case.expected.error
    return None if wanted is None else float(outcome.refusal == wanted)


def no_forbidden_cause(outcome: Outcome) -> float | None:
    """1 where no cause that the case rules out is asserted."""
    forbidden = {name.partition("/")[0] for name in outcome.case.expected.not_causes}
    if not forbidden or outcome.diagnosis is None:
        return None
    return float(not forbidden & {cause.cause for cause in outcome.asserted})


def no_forbidden_text(outcome: Outcome) -> float | None:
    """1 where no text holds what must not be said; names quoted from the run are no saying of ours."""
    forbidden, said = outcome.case.must_not_say, "\n".join(all_texts(outcome)).lower()
    if not forbidden or outcome.diagnosis is None:
        return None
    return float(not any(words.lower() in said for words in forbidden))


def answer_says(outcome: Outcome) -> float | None:
    """Share of the texts that the answer to the question must hold."""
    wanted, said = outcome.case.answer_must_say, "" if outcome.answer is None else outcome.answer.text.lower()
    return sum(words.lower() in said for words in wanted) / len(wanted) if wanted else None


def names(outcome: Outcome) -> float | None:
    """Share of what a complete answer names that the texts hold, in whichever spelling."""
    wanted, said = outcome.case.expected.names, "\n".join(all_texts(outcome))
    if not wanted or outcome.diagnosis is None:
        return None
    return sum(_spelled(words).search(said) is not None for words in wanted) / len(wanted)


def _spelled(name: str) -> re.Pattern[str]:
    """All spellings of a name: ``DataLoader``, ``data loader`` and ``data-loader`` are one, rank 1 is not rank 12."""
    words = r"[\s_-]*".join(re.escape(word) for word in BETWEEN_WORDS.split(name))
    return re.compile(rf"(?<!\d){words}(?!\d)", re.IGNORECASE)


def all_texts(outcome: Outcome) -> list[str]:
    """Headline, answer, claims, checks, advice and comparison of the diagnosis, and the answer to the question."""
    answer = [] if outcome.answer is None else [outcome.answer.text]
    found = outcome.diagnosis
    if found is None:
        return answer
    causes = [text for each in found.causes for text in (each.claim, *each.details, *each.against, *each.symptoms)]
    checks = [text for check in found.checks for text in check.text]
    advice = [item.text for item in found.advice if item.text]
    changes = [] if found.comparison is None else [found.comparison.headline, *found.comparison.changes]
    return [found.headline, *found.answer, *causes, *checks, *advice, *changes, *answer]


def _index(outcome: Outcome) -> EvidenceIndex:
    assert outcome.diagnosis is not None
    return evidence_index(outcome.diagnosis, () if outcome.answer is None else outcome.answer.evidence)


def citation_existence(outcome: Outcome) -> float | None:
    """Share of citations whose id exists."""
    if outcome.diagnosis is None:
        return None
    known = _index(outcome)
    cited = [name for text in all_texts(outcome) for name in cited_ids(text)]
    return sum(name in known for name in cited) / len(cited) if cited else None


def citation_support(outcome: Outcome) -> float | None:
    """Share of sentences with a citation whose ids exist and whose figures are those of the evidence."""
    if outcome.diagnosis is None:
        return None
    citing = [sentence for text in all_texts(outcome) for sentence in sentences(text) if cited_ids(sentence)]
    known = _index(outcome)
    return sum(not wrong_citations(sentence, known) for sentence in citing) / len(citing) if citing else None


def numeric_fidelity(outcome: Outcome) -> float | None:
    """Share of figures next to a citation that are written as that evidence is."""
    if outcome.diagnosis is None:
        return None
    known = _index(outcome).evidence
    figures = [each for text in all_texts(outcome) for each in cited_figures(text)]
    right = [figure for figure, name in figures if name in known and is_figure_of(figure, known[name])]
    return len(right) / len(figures) if figures else None


def unsupported(outcome: Outcome) -> list[str]:
    """Citations of the texts that do not exist or differ from the evidence."""
    if outcome.diagnosis is None:
        return []
    return [fault for text in all_texts(outcome) for fault in wrong_citations(text, _index(outcome))]


def expected_facts(outcome: Outcome) -> float | None:
    """Share of the expected figures that are among the evidence with their value."""
    wanted = outcome.case.facts
    if not wanted or outcome.diagnosis is None:
        return None
    return sum(any(_agrees(fact, record) for record in outcome.diagnosis.evidence) for fact in wanted) / len(wanted)


def _agrees(fact: ExpectedFact, record: EvidenceRecord) -> bool:
    if record.metric != fact.metric or any(record.arguments.get(k) != v for k, v in fact.arguments.items()):
        return False
    return abs(record.value - fact.value) <= abs(fact.value) * fact.tolerance_pct / 100.0
