"""Similar public cases: to this run, or to what the question describes."""

from __future__ import annotations

import re

from case_library.retrieval.query import CaseQuery
from hermes_agent.evidence.recalled import similar_cases_title
from hermes_agent.model.diagnosis import CaseRecord
from hermes_agent.model.display import plain
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, paragraph, quoted_from
from hermes_agent.questions.question import Question

CASES_TOLD = 3
DESCRIBED = re.compile(r"\b(?:like|about|of|for|with|where|to|in which|when)\s+(?P<what>.+)$", re.IGNORECASE)
THIS_RUN = re.compile(
    r"^\W*(this|mine|ours?|it|my (run|case|training|job)|the (run|diagnosis|first cause))\W*$", re.IGNORECASE
)


def similar_cases(discussion: Discussion, question: Question) -> str:
    """Cases like what the question describes, else those recalled for this run."""
    match = DESCRIBED.search(question.text)
    if match and not THIS_RUN.match(match["what"]):
        return for_text(discussion, match["what"]) or (
            "No public case is close enough to that description. Describe what you see: which operation is slow, since "
            "when, on which ranks."
        )
    records = sorted(discussion.diagnosis.cases, key=lambda record: -record.similarity)[:CASES_TOLD]
    if not records:
        note = discussion.diagnosis.recall_note
        return paragraph(["No similar public case was recalled for this run.", f"`{note}`" if note else ""])
    lead = f"{similar_cases_title(records)}; they suggest, they are no evidence for this run."
    return blocks([lead, _table(discussion, records)])


def for_text(discussion: Discussion, text: str) -> str:
    """Cases close to a free text as a list; empty when recall abstains."""
    recall = discussion.recall(CaseQuery(text=text))
    if not recall.hits:
        return ""
    records = [discussion.case(hit) for hit in recall.hits[:CASES_TOLD]]
    whose = "Cases" if any(record.private for record in records) else "Public cases"
    lead = f"{whose} close to these words; they suggest, they are no evidence for this run."
    return blocks([lead, _table(discussion, records)])


def _table(discussion: Discussion, records: list[CaseRecord]) -> str:
    return bullets(
        paragraph(
            [
                quoted_from(each.title, each.id),
                f"Cause there: {plain(each.cause)}.",
                f"{each.url} [{each.id}]".strip(),
            ]
        )
        for each in records
    )
