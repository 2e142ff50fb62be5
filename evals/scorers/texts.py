"""All sentences of an outcome that state something about the run."""

from __future__ import annotations

from evals.case_schema import ExpectedFact
from evals.outcome import Outcome
from hermes_agent.evidence.grounds import grounds
from hermes_agent.evidence.numbers import CITATION, figures
from hermes_agent.evidence.verifier import Grounds, Problem, cited_ids, sentences, verify
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


def _grounds(outcome: Outcome) -> Grounds:
    assert outcome.diagnosis is not None
    extra = () if outcome.answer is None else outcome.answer.evidence
    return grounds(outcome.diagnosis, extra)


def _problems(outcome: Outcome) -> list[Problem]:
    known = _grounds(outcome)
    return [problem for text in all_texts(outcome) for problem in verify(text, known)]


def existence(outcome: Outcome) -> float | None:
    """Share of citations whose id exists."""
    if outcome.diagnosis is None:
        return None
    known = _grounds(outcome)
    cited = [name for text in all_texts(outcome) for name in cited_ids(text)]
    return sum(name in known.evidence or name in known.quotes for name in cited) / len(cited) if cited else None


def support(outcome: Outcome) -> float | None:
    """Share of sentences with a citation or a figure that the verifier has nothing against."""
    if outcome.diagnosis is None:
        return None
    stating = [s for text in all_texts(outcome) for s in sentences(text) if CITATION.search(s) or figures(s)]
    if not stating:
        return None
    known = _grounds(outcome)
    return sum(not verify(sentence, known) for sentence in stating) / len(stating)


def fidelity(outcome: Outcome) -> float | None:
    """Share of written figures that equal the evidence they cite."""
    if outcome.diagnosis is None:
        return None
    written = sum(len(figures(CITATION.sub(" ", text))) for text in all_texts(outcome))
    wrong = sum(problem.kind in ("wrong_number", "uncited_number") for problem in _problems(outcome))
    return max(0.0, 1.0 - wrong / written) if written else None


def unsupported(outcome: Outcome) -> list[str]:
    """What the verifier holds against the texts."""
    return [] if outcome.diagnosis is None else [f"{p.kind}: {p.detail}" for p in _problems(outcome)]


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
