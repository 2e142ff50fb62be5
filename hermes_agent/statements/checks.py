"""Whether a statement stands: its slots exist, its words are known, and it claims nothing but what was found."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes_agent.evidence.sentences import quoted
from hermes_agent.model.diagnosis import CauseRecord, EvidenceRecord
from hermes_agent.statements.context import CheckContext, claim_of
from hermes_agent.statements.meaning import faults_of_meaning
from hermes_agent.statements.record import TEXT_CHARS, Claim, Statement
from hermes_agent.statements.slots import Template, parsed
from hermes_agent.statements.subjects import subjects_of_cause, subjects_of_figure
from hermes_agent.statements.wording import faults_of_wording, plain_text
from tools.knowledge.taxonomy import causes

TRUTH: dict[Claim | None, str] = {
    "present": "the diagnosis found {0}; its claim is present",
    "absent": "the diagnosis did not find {0}; its claim is absent",
    "open": "the diagnosis did not find {0}, which could not be checked in this run; its claim is open",
    None: "the diagnosis did not find {0}, but its checks are not clean; make no claim about it",
}

BETWEEN = re.compile(
    r"[^{}]*(?:\{(?!E\d)[^{}]*\}[^{}]*)*\{\s*E\d+\s*\}[^{}.;?!]*(?:\{(?!than|E\d)[^{}]*\}[^{}.;?!]*)*"
    r"\{\s*than\s*\} (?!(?:this|that|it|these|those|them|the (?:latter|former|other|others))\b).*",
    re.DOTALL | re.IGNORECASE,
)


def template_of(statement: Statement) -> Template:
    """The statement's text cut into words and slots."""
    return parsed(plain_text(statement.text), statement.cause)


def faults_of(statement: Statement, context: CheckContext) -> list[str]:
    """Everything that keeps the statement from a reader; empty when it may be shown."""
    if len(statement.text) > TEXT_CHARS:
        return [f"the text has more than {TEXT_CHARS} characters"]
    template = template_of(statement)
    form = [*template.faults, *faults_of_wording(template.free), *_unknown(statement, template, context)]
    if form:  # what follows relies on known ids
        return form
    return [
        *_of_kind(statement, template, context),
        *_of_causes(statement, template, context),
        *faults_of_meaning(statement, template, context),
    ]


def _unknown(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """What the statement refers to and does not exist."""
    index, of_statement = context.index, [statement.cause] if statement.cause is not None else []
    cited = [*template.values("evidence", "advice", "case"), *statement.evidence]
    yield from (f"there is no id {name[:20]!r}" for name in cited if name not in index)
    yield from (f"the run has no rank {n}" for n in template.values("rank") if int(n) not in index.ranks)
    yield from (f"the run has no step {n}" for n in template.values("step") if int(n) not in index.steps)
    named = [*of_statement, *template.values("cause")]
    yield from (f"there is no cause {name[:60]!r}" for name in named if not _exists(name))
    quotes = (name for name in template.values("name") if quoted(name) not in context.names)
    yield from (f"no evidence and no tool result has the name {name[:80]!r}" for name in quotes)
    checks = (name for name in template.values("open") if context.open_check(name) is None)
    yield from (f"{name} is not among the checks that could not be answered" for name in checks)


def _exists(name: str) -> bool:
    cause, _, mechanism = name.partition(":")
    known = causes().get(cause)
    return known is not None and (not mechanism or mechanism in known.mechanisms)


def _of_kind(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """What the kind of a statement demands of its fields and slots."""
    cites = {name[0] for name in (*statement.evidence, *template.values("evidence"))}
    empty = not statement.text.strip()
    match statement.kind:
        case "cause":
            yield from _of_claim(statement, context)
        case _ if empty or statement.claim is not None:
            yield "the text is empty" if empty else "only a statement of kind cause has a claim"
        case "symptom" if "E" not in cites:
            yield "a symptom needs the slot of a figure, as {E7}"
        case "advice" if not template.values("advice"):
            yield "advice needs the slot of an advice, as {A1}"
        case "question" if not statement.text.rstrip().endswith("?"):
            yield "a question ends with a question mark"
    if template.values("than") or statement.kind == "comparison":
        figures = [context.index.evidence[name] for name in template.values("evidence")]
        units = {record.unit for record in figures}
        if statement.kind != "comparison" or len(figures) != 2 or len(units) != 1 or len(template.values("than")) != 1:
            yield "a comparison has two figures of one unit and the slot {than} once"
        elif not BETWEEN.fullmatch(plain_text(statement.text)):
            yield "{than} stands between the two figures, in their sentence and before what the second one measures"


def _of_causes(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """Causes that are named as if they had been found."""
    own, named = statement.cause, set(template.values("cause"))
    if statement.kind == "question":
        return
    if statement.kind in ("cause", "explanation"):
        named.discard(own or "")
        if context.found(own) is None and own and template.values("rank", "step", "evidence"):
            yield f"{own} was not found, so it explains no figure of this run"
    elif own is not None:
        named.add(own)
    yield from (f"the diagnosis did not find {name}" for name in sorted(named) if context.found(name) is None)
    index = context.index
    about = {*named, own} | {index.advice[name].for_ for name in template.values("advice") if name in index.advice}
    about = {name.partition(":")[0] for name in about if name}
    for record in (index.evidence[name] for name in template.values("evidence")):
        of_figure = record.arguments.get("cause")
        if about and isinstance(of_figure, str) and of_figure not in about:
            yield f"{record.id} is about {of_figure}"


def _of_claim(statement: Statement, context: CheckContext) -> Iterator[str]:
    if statement.cause is None or statement.claim is None:
        yield "a statement of kind cause needs a cause and a claim"
        return
    holds, found = claim_of(context.diagnosis, statement.cause), context.found(statement.cause)
    if statement.claim != holds:
        yield TRUTH[holds].format(statement.cause)
    if found is not None:
        for name in statement.evidence:
            record = context.index.evidence.get(name)
            if record is not None and not _belongs(record, found):
                yield f"{name} ({record.metric}) is no evidence of {statement.cause}"


def _belongs(record: EvidenceRecord, found: CauseRecord) -> bool:
    """Whether a figure speaks of a cause: it is listed with it, or about the same subject or the whole step."""
    subjects = subjects_of_figure(record)
    listed = record.id in (*found.evidence, *found.evidence_against)
    return listed or not subjects or bool(subjects & subjects_of_cause(found.cause))
