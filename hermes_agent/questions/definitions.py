"""What is X? A cause of the taxonomy in general, and where it stands in this run."""

from __future__ import annotations

from hermes_agent.model.display import FAMILY_TITLES, plain
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, capital, general
from hermes_agent.questions.question import Question
from hermes_agent.questions.suspicion import about, signs_of
from tools.knowledge.taxonomy import causes

CAUSES_TOLD = 3


def define(discussion: Discussion, question: Question) -> str | None:
    """Signs and remedies of the cause that the question names, then what this run's checks say about it."""
    subject = question.subject
    if subject is None:
        return None
    described = [_cause(discussion, cause) for cause in subject.causes[:CAUSES_TOLD]]
    rest = subject.causes[CAUSES_TOLD:]
    more = f"Related: {', '.join(plain(cause) for cause in rest)}." if rest else ""
    return blocks([*described, more, f"In this run: {about(discussion, subject)}"])


def _cause(discussion: Discussion, name: str) -> str:
    cause = causes()[name]
    lead = f"{capital(plain(name))} belongs to {FAMILY_TITLES.get(cause.family, cause.family)}."
    rows = [
        f"Signs: {signs_of(discussion, name)}.",
        f"What helps: {'; '.join(general(each) for each in cause.optimizations)}.",
    ]
    if cause.mechanisms:
        rows.append(f"It happens by: {', '.join(plain(each) for each in cause.mechanisms)}.")
    return blocks([lead, bullets(rows)])
