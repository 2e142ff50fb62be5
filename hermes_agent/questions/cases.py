"""Similar cases: to this run, or to what a question describes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from case_library.retrieval.query import CaseQuery
from hermes_agent.evidence.cases import similar_cases_title
from hermes_agent.model.diagnosis import CaseRecord
from hermes_agent.model.display import cause_title
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, paragraph, quoted_from
from hermes_agent.questions.question import Question, wording

CASES_LISTED = 3
DESCRIBED = re.compile(r"\b(?:like|about|of|for|with|where|to|in which|when)\s+(?P<what>.+)$", re.IGNORECASE)
THIS_RUN = re.compile(
    r"^\W*(this|mine|ours?|it|my (run|case|training|job)|the (run|diagnosis|first cause))\W*$", re.IGNORECASE
)


def similar_cases(discussion: Discussion, question: Question) -> str:
    """Cases like what the question describes, else those recalled for this run."""
    match = DESCRIBED.search(question.text)
    if match and not THIS_RUN.match(match["what"]):
        return for_text(discussion, match["what"]) or wording("not_close")
    records = sorted(discussion.diagnosis.cases, key=lambda record: -record.similarity)[:CASES_LISTED]
    if not records:
        note = discussion.diagnosis.recall_note
        return paragraph(["No similar public case was recalled for this run.", f"`{note}`" if note else ""])
    return _list(similar_cases_title(records), records)


def for_text(discussion: Discussion, text: str) -> str:
    """Cases close to a free text as a list; empty when recall abstains."""
    records = [discussion.case(hit) for hit in discussion.recall(CaseQuery(text=text)).hits[:CASES_LISTED]]
    if not records:
        return ""
    whose = "Cases" if any(record.private for record in records) else "Public cases"
    return _list(f"{whose} close to these words", records)


def _list(title: str, records: Sequence[CaseRecord]) -> str:
    rows = []
    for each in records:
        cause = f"Cause there: {cause_title(each.cause, None)}."
        rows.append(paragraph([quoted_from(each.title, each.id), cause, each.url, f"[{each.id}]"]))
    return blocks([f"{title}; they suggest, they are no evidence for this run.", bullets(rows)])
