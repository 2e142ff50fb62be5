"""Similar cases, and the text of an id."""

from __future__ import annotations

import re

from case_library.retrieval.query import CaseQuery
from hermes_agent.evidence.grounds import case_fields, recalled_case
from hermes_agent.evidence.recalled import kind_of, similar_cases_title
from hermes_agent.evidence.sentences import quoted
from hermes_agent.model.diagnosis import CaseRecord, EvidenceRecord
from hermes_agent.model.display import plain, rank_list
from hermes_agent.questions.advice import in_full
from hermes_agent.questions.discussion import Discussion, cited
from hermes_agent.questions.prose import blocks, bullets, listed, paragraph, quoted_from
from hermes_agent.questions.question import Question
from tools.judgement.catalog import metrics

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


ASKED = re.compile(r"^(show|open|explain|cite|whats?( is)?|where does|why|tell me about)?( me)? ?[eac]\d+\b")


def explain_ids(discussion: Discussion, question: Question) -> str | None:
    """What the ids in the question stand for; None when it only looks as if it named one (a device called A100)."""
    known = {*discussion.evidence, *discussion.advice, *(case.id for case in discussion.cases)}
    chosen = [name for name in dict.fromkeys(question.ids) if name in known]
    if chosen:
        return blocks(_explain(discussion, name) for name in chosen)
    if question.ids and ASKED.search(question.words):
        return f"There is no such id. {ids_known(discussion)}"
    return None


def ids_known(discussion: Discussion) -> str:
    """Which ids exist, in one sentence."""
    spans = []
    for title, names in (
        ("evidence", list(discussion.evidence)),
        ("advice", list(discussion.advice)),
        ("cases", [case.id for case in discussion.cases]),
    ):
        if names:
            spans.append(f"{title} {names[0]}" + (f" to {names[-1]}" if len(names) > 1 else ""))
    return f"There is {listed(spans)}." if spans else "The diagnosis cites nothing."


def _explain(discussion: Discussion, name: str) -> str:
    if name in discussion.evidence:
        return _evidence(discussion.evidence[name])
    if name in discussion.advice:
        return in_full(discussion, discussion.advice[name])
    return _case(discussion, next(case for case in discussion.cases if case.id == name))


def _evidence(record: EvidenceRecord) -> str:
    known = metrics().get(record.metric)
    question = f"{known.question} " if known else ""
    arguments = ", ".join(f"{name}={value}" for name, value in record.arguments.items())
    call = quoted(f"{record.metric}({arguments})")
    where = f" on {rank_list(record.ranks)}" if record.ranks else ""
    of = " of the baseline" if record.run == "baseline" else ""
    return paragraph(
        [
            f"{question}{cited(record)}.",
            f"It was measured by {call}{where}{of}.",
            f"Rows: {quoted(record.source.selector)}." if record.source.selector else "",
            f"`show {record.id}` measures it again and lists the rows behind it.",
        ]
    )


def _case(discussion: Discussion, record: CaseRecord) -> str:
    case = recalled_case(record)
    fields = case_fields(case) if case else {"Source": record.url}
    told = [
        paragraph([f"{title}:", quoted_from(text, record.id)]) for title, text in fields.items() if title != "Source"
    ]
    lead = (
        f"A {kind_of(record)} case of {plain(record.cause)}; it suggests, it is no evidence for this run [{record.id}]."
    )
    source = [f"Source: {record.url} [{record.id}]"] if record.url else []
    return blocks([quoted_from(record.title, record.id), lead, *told, *source])
