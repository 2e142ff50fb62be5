"""All sentences of an outcome that state something about the run."""

from __future__ import annotations

from evals.case_schema import ExpectedFact
from evals.outcome import Outcome
from hermes_agent.evidence.citations import cited_figures, cited_ids, is_figure_of, sentences, wrong_citations
from hermes_agent.evidence.index import EvidenceIndex, evidence_index
from hermes_agent.model.diagnosis import Diagnosis, EvidenceRecord


def diagnosis_texts(diagnosis: Diagnosis) -> list[str]:
    """Headline, answer, claims, checks, advice and comparison."""
    causes = [
        text for cause in diagnosis.causes for text in (cause.claim, *cause.details, *cause.against, *cause.symptoms)
    ]
    checks = [text for check in diagnosis.checks for text in check.text]
    advice = [item.text for item in diagnosis.advice if item.text]
    compared = diagnosis.comparison
    changes = [] if compared is None else [compared.headline, *compared.changes]
    return [diagnosis.headline, *diagnosis.answer, *causes, *checks, *advice, *changes]


def all_texts(outcome: Outcome) -> list[str]:
    """The diagnosis's texts and the answer to the case's question."""
    texts = [] if outcome.diagnosis is None else diagnosis_texts(outcome.diagnosis)
    return texts if outcome.answer is None else [*texts, outcome.answer.text]


def _index(outcome: Outcome) -> EvidenceIndex:
    assert outcome.diagnosis is not None
    return evidence_index(outcome.diagnosis, () if outcome.answer is None else outcome.answer.evidence)


def existence(outcome: Outcome) -> float | None:
    """Share of citations whose id exists."""
    if outcome.diagnosis is None:
        return None
    known = _index(outcome)
    cited = [name for text in all_texts(outcome) for name in cited_ids(text)]
    return sum(name in known for name in cited) / len(cited) if cited else None


def support(outcome: Outcome) -> float | None:
    """Share of sentences with a citation whose ids exist and whose figures are those of the evidence."""
    if outcome.diagnosis is None:
        return None
    citing = [sentence for text in all_texts(outcome) for sentence in sentences(text) if cited_ids(sentence)]
    known = _index(outcome)
    return sum(not wrong_citations(sentence, known) for sentence in citing) / len(citing) if citing else None


def fidelity(outcome: Outcome) -> float | None:
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
    return sum(any(agrees(fact, record) for record in outcome.diagnosis.evidence) for fact in wanted) / len(wanted)


def agrees(fact: ExpectedFact, record: EvidenceRecord) -> bool:
    """Whether the evidence is the expected figure."""
    if record.metric != fact.metric or any(record.arguments.get(k) != v for k, v in fact.arguments.items()):
        return False
    return abs(record.value - fact.value) <= abs(fact.value) * fact.tolerance_pct / 100.0
