"""What is E7, C1 or A2?"""

from __future__ import annotations

import re

from hermes_agent.evidence.grounds import case_fields, recalled_case
from hermes_agent.evidence.recalled import kind_of
from hermes_agent.evidence.sentences import quoted
from hermes_agent.model.diagnosis import CaseRecord, EvidenceRecord
from hermes_agent.model.display import plain, rank_list
from hermes_agent.questions.changes import in_full
from hermes_agent.questions.discussion import Discussion, cited
from hermes_agent.questions.prose import blocks, listed, paragraph, quoted_from
from hermes_agent.questions.question import Question
from tools.judgement.catalog import metrics

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
