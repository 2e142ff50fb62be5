"""All sentences of an outcome that state something about the run."""

from __future__ import annotations

from evals.outcome import Outcome
from hermes_agent.report.diagnosis import Diagnosis


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
