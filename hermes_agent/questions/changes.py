"""What should I change? The advice, for the whole run, for one cause, or one piece of it."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_agent.model.diagnosis import AdviceRecord
from hermes_agent.model.display import cause_title
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, listed, paragraph, quoted_from
from hermes_agent.questions.question import Question
from hermes_agent.questions.suspicion import about
from hermes_agent.report.text import EFFORTS

FURTHER = 4


def what_to_change(discussion: Discussion, question: Question) -> str:
    """The first change in full and the next ones by title; for a cause that was named, the changes for it."""
    subject = question.subject
    advice = discussion.diagnosis.advice
    if subject is not None:
        chosen = [item for item in advice if item.for_ in subject.causes]
        if subject.mechanism and any(item.mechanism == subject.mechanism for item in chosen):
            chosen = [item for item in chosen if item.mechanism == subject.mechanism]
        if not chosen:
            lead = f"There is no advice on {subject.title} for this run, because it was not found as a cause."
            return blocks([lead, about(discussion, subject)])
        return _ordered(discussion, chosen, "For that, change this first:")
    if not advice:
        return _nothing(discussion)
    return _ordered(discussion, advice, "Change this first:")


def _ordered(discussion: Discussion, items: Sequence[AdviceRecord], lead: str) -> str:
    further = [quoted_from(item.optimization, item.id) for item in items[1 : FURTHER + 1]]
    return blocks(
        [
            f"{lead} {in_full(discussion, items[0])}",
            "After that:\n" + bullets(further) if further else "",
        ]
    )


def in_full(discussion: Discussion, item: AdviceRecord) -> str:
    """One piece of advice: what, how, what it brings, risk, how to verify, and the cases like it."""
    for_cause = cause_title(item.for_, item.mechanism)
    cases = [f"[{name}]" for name in item.cases]
    parts = [
        quoted_from(item.optimization, item.id),
        f"It is for {for_cause} and takes {EFFORTS.get(item.effort, 'some time')} of work [{item.id}].",
    ]
    return blocks(
        [
            paragraph(parts),
            paragraph(["How:", quoted_from(item.how, item.id)]),
            item.text or "What it would bring cannot be replayed from this recording.",
            paragraph(["Risk:", quoted_from(item.risk, item.id)]),
            paragraph(["To verify:", quoted_from(item.verify, item.id)]),
            f"Cases like it: {listed(cases)}." if cases else "",
        ]
    )


def _nothing(discussion: Discussion) -> str:
    lead = discussion.diagnosis.headline
    if discussion.diagnosis.verdict == "healthy":
        return paragraph([lead, "Nothing was found that would be worth changing."])
    return paragraph([lead, "No cause was found that could be advised on; ask what could not be checked."])
