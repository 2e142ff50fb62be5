"""Why is it slow? The diagnosis in short."""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, general, paragraph, quoted_from
from hermes_agent.questions.question import Question

CAUSES_TOLD = 3
MEASUREMENTS_TOLD = 3


def summarise(discussion: Discussion, _: Question) -> str:
    """The verdict, the causes and the first change to make."""
    diagnosis = discussion.diagnosis
    return blocks(
        [
            paragraph(diagnosis.answer),
            bullets(cause.claim for cause in diagnosis.causes[:CAUSES_TOLD]),
            _first_change(discussion),
            _open_questions(discussion),
        ]
    )


def _first_change(discussion: Discussion) -> str:
    if not discussion.diagnosis.advice:
        return ""
    item = discussion.diagnosis.advice[0]
    return paragraph(["What to change first:", quoted_from(item.optimization, item.id), item.text])


def _open_questions(discussion: Discussion) -> str:
    """Without a verdict, what to measure next."""
    diagnosis = discussion.diagnosis
    if diagnosis.verdict != "inconclusive" or not diagnosis.next_measurements:
        return ""
    needs = [general(need) for need in diagnosis.next_measurements[:MEASUREMENTS_TOLD]]
    return "To know more, record:\n" + bullets(f"{need}." for need in needs)
