"""Whether a statement stands: its slots exist, its words are known, and it claims nothing but what was found."""

from __future__ import annotations

from collections.abc import Iterator

from hermes_agent.evidence.sentences import quoted
from hermes_agent.model.diagnosis import CauseRecord, EvidenceRecord
from hermes_agent.statements.context import CheckContext, claim_of
from hermes_agent.statements.record import TEXT_CHARS, Claim, Statement
from hermes_agent.statements.slots import SlotKind, Template, parsed
from hermes_agent.statements.subjects import is_predicted, kinds_of_figure, subjects_of_cause, subjects_of_figure
from hermes_agent.statements.wording import faults_of_wording, groups_of, judging, plain_text, vocabulary, words_of
from tools.knowledge.taxonomy import causes

OF_STEP = frozenset({"step", "steps", "iteration", "iterations", "run", "training"})


def faults_of_meaning(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """What the text says that its figures and causes do not bear out."""
    if statement.kind == "question":
        return
    found = context.found(statement.cause)
    predicted = any(is_predicted(context.index.evidence[name]) for name in template.values("evidence"))
    if found is None and (judged := judging(words_of(template.free), predicted or statement.kind == "advice")):
        yield f"{judged[0]!r} judges; name the cause that was found, or leave the word out"
    spoken, about = groups_of(words_of(template.free)), _about(statement, template, context)
    for segment in template.segments():
        if segment.figure is not None:
            record = context.index.evidence[segment.figure]
            yield from _with_figure(segment, record, context)
            if is_predicted(record) and not any("predicted" in groups for groups in spoken.values()):
                yield f"{record.id} is predicted: say would or could"
            continue
        yield from _without_figure(segment, about, statement)
        places: dict[SlotKind, list[int]] = {"rank": found.ranks if found else [], "step": found.steps if found else []}
        for kind, own in places.items():
            if not _numbers(segment, kind) <= set(own):
                yield f"what is said of a {kind} needs a figure of it in the same sentence, or a cause found there"


def _about(statement: Statement, template: Template, context: CheckContext) -> frozenset[str]:
    """The subjects that sentences without a figure may speak of."""
    index = context.index
    cited = (*statement.evidence, *template.values("advice", "case"))
    named = [statement.cause, *template.values("cause")]
    named += [index.advice[name].for_ for name in cited if name in index.advice]
    named += [index.cases[name].cause for name in cited if name in index.cases]
    return frozenset().union(*map(subjects_of_cause, named))


def _without_figure(segment: Template, about: frozenset[str], statement: Statement) -> Iterator[str]:
    allowed = about | {"cost", "mean", "median", "maximum"}
    if about or statement.kind == "advice":
        allowed |= {"predicted", "saving"}
    for word, groups in groups_of(words_of(segment.free)).items():
        if not groups & allowed and word not in vocabulary().plain:
            yield f"{word!r} needs a figure of that subject in its sentence, or the cause it belongs to"


def _with_figure(segment: Template, record: EvidenceRecord, context: CheckContext) -> Iterator[str]:
    own, kinds = subjects_of_figure(record), kinds_of_figure(record)
    groups = groups_of(words_of(segment.free))
    spoken = frozenset().union(*groups.values())
    for word, of_word in groups.items():
        if not of_word & (own | kinds) and word not in vocabulary().plain:
            yield f"{record.id} is {record.metric}: it says nothing of {word!r}"
    if not _names_subject(segment, record, own, spoken):
        yield f"say in the same sentence, before {{{record.id}}}, what it measures: {record.metric}"
    yield from _of_place(segment, record, context)


def _names_subject(segment: Template, record: EvidenceRecord, own: frozenset[str], spoken: frozenset[str]) -> bool:
    """Return whether the stretch says what the figure measures."""
    if "cause" in record.arguments and spoken & {"cost", "saving", "predicted", "faster"}:
        return True
    if not own:
        return bool(OF_STEP.intersection(segment.free.lower().replace(",", " ").split()))
    return any(own & (spoken | subjects_of_cause(name)) for name in ("", *segment.values("cause")))


def _of_place(segment: Template, record: EvidenceRecord, context: CheckContext) -> Iterator[str]:
    ranks, steps = _numbers(segment, "rank"), _numbers(segment, "step")
    own = _ranks_of(record)
    if ranks and own and not (ranks <= own if "rank" in record.arguments else ranks & own):
        yield f"{record.id} was measured on rank {', '.join(map(str, sorted(own)))}"
    if ranks and not own and len(context.index.ranks) > 1:
        yield f"{record.id} is of no single rank"
    if steps and steps != {record.arguments.get("step")} and steps != set(record.steps):
        yield f"{record.id} was not measured on that step"


def _numbers(segment: Template, kind: SlotKind) -> set[int]:
    """The ranks or steps that are named."""
    return {int(value) for value in segment.values(kind)}


def _ranks_of(record: EvidenceRecord) -> set[int]:
    """The ranks that a figure is about, by its arguments."""
    given = [str(value) for name, value in record.arguments.items() if "rank" in name and value is not None]
    return {int(number) for text in given for number in text.replace(" ", ",").split(",") if number.isdecimal()}


TRUTH: dict[Claim | None, str] = {
    "present": "the diagnosis found {0}; its claim is present",
    "absent": "the diagnosis did not find {0}; its claim is absent",
    "open": "the diagnosis did not find {0}, which could not be checked in this run; its claim is open",
    None: "the diagnosis did not find {0}, but its checks are not clean; make no claim about it",
}


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
    cites = {name[0] for name in (*statement.evidence, *template.values("evidence", "advice"))}
    empty = not statement.text.strip()
    match statement.kind:
        case "cause":
            yield from _of_claim(statement, context)
        case _ if empty or statement.claim is not None:
            yield "the text is empty" if empty else "only a statement of kind cause has a claim"
        case "symptom" if "E" not in cites:
            yield "a symptom needs the slot of a figure, as {E7}"
        case "advice" if "A" not in cites:
            yield "advice needs the slot of an advice, as {A1}"
        case "question" if not statement.text.rstrip().endswith("?"):
            yield "a question ends with a question mark"
    if template.values("than") or statement.kind == "comparison":
        figures = [context.index.evidence[name] for name in template.values("evidence")]
        units = {record.unit for record in figures}
        if statement.kind != "comparison" or len(figures) != 2 or len(units) != 1 or len(template.values("than")) != 1:
            yield "a comparison has two figures of one unit and the slot {than} once"


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
