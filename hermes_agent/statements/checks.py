"""Whether a statement stands: its slots exist, its words are known, and it claims nothing but what was found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hermes_agent.evidence.index import EvidenceIndex
from hermes_agent.model.diagnosis import CauseRecord, CheckRecord, Diagnosis, EvidenceRecord
from hermes_agent.questions.coverage import checks_for
from hermes_agent.statements.record import TEXT_CHARS, Statement
from hermes_agent.statements.slots import Segment, Template, parsed
from hermes_agent.statements.subjects import kinds_of_figure, subjects_of_cause, subjects_of_figure
from hermes_agent.statements.wording import faults_of_wording, groups_of, judging, plain_text, vocabulary, words_of
from tools.knowledge.taxonomy import causes

OF_STEP = frozenset({"step", "steps", "iteration", "iterations", "run", "training"})


@dataclass(frozen=True)
class CheckContext:
    """What statements are held against; ``names`` are those of the evidence and of tool results."""

    diagnosis: Diagnosis
    index: EvidenceIndex
    names: frozenset[str] = frozenset()

    def found(self, name: str | None) -> CauseRecord | None:
        """The finding of a cause, with its mechanism where one is named."""
        cause, _, mechanism = (name or "").partition(":")
        fits = (each for each in self.diagnosis.causes if each.cause == cause and mechanism in ("", each.mechanism))
        return next(fits, None)

    def open_check(self, name: str) -> CheckRecord | None:
        """The check of that name, if it could not be answered."""
        return next((c for c in self.diagnosis.checks if c.analyzer == name and c.status == "cannot_answer"), None)

    def checks_of(self, name: str) -> list[CheckRecord]:
        """The checks that look for a cause."""
        cause, _, mechanism = name.partition(":")
        wanted = checks_for(cause, mechanism or None)
        return [check for check in self.diagnosis.checks if check.analyzer in wanted]


def template_of(statement: Statement) -> Template:
    """The statement's text cut into words and slots."""
    return parsed(plain_text(statement.text), statement.cause)


def faults_of(statement: Statement, context: CheckContext) -> list[str]:
    """Everything that keeps the statement from a reader; empty when it may be shown."""
    template = template_of(statement)
    if len(statement.text) > TEXT_CHARS:
        return [f"the text has more than {TEXT_CHARS} characters"]
    form = [*template.faults, *faults_of_wording(template.free), *_unknown(statement, template, context)]
    if form:  # what follows relies on known ids
        return form
    return [*_of_kind(statement, template, context), *_of_meaning(statement, template, context)]


def _unknown(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    index = context.index
    cited = [slot.value for kind in ("evidence", "advice", "case") for slot in template.slots(kind)]
    for name in (*cited, *statement.evidence):
        if name not in index:
            yield f"there is no id {name[:20]!r}"
    for slot in template.slots("rank"):
        if int(slot.value) not in index.ranks:
            yield f"the run has no rank {slot.value}"
    for slot in template.slots("step"):
        if int(slot.value) not in index.steps:
            yield f"the run has no step {slot.value}"
    for name in (statement.cause, *(slot.value for slot in template.slots("cause"))):
        if name is not None and not _exists(name):
            yield f"there is no cause {name[:60]!r}"
    for slot in template.slots("name"):
        if slot.value not in context.names:
            yield f"no evidence and no tool result has the name {slot.value[:80]!r}"
    for slot in template.slots("open"):
        if context.open_check(slot.value) is None:
            yield f"{slot.value} is not among the checks that could not be answered"


def _exists(name: str) -> bool:
    cause, _, mechanism = name.partition(":")
    known = causes().get(cause)
    return known is not None and (not mechanism or mechanism in known.mechanisms)


def _of_kind(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    figures, kind = template.slots("evidence"), statement.kind
    cites = {name[0] for name in statement.evidence} | {slot.value[0] for slot in figures}
    if not statement.text.strip() and kind != "cause":
        yield "the text is empty"
    if kind == "cause":
        yield from _of_claim(statement, context)
    elif statement.claim is not None:
        yield "only a statement of kind cause has a claim"
    if kind == "symptom" and "E" not in cites:
        yield "a symptom needs the slot of a figure, as {E7}"
    if kind == "advice" and "A" not in cites and not template.slots("advice"):
        yield "advice needs the slot of an advice, as {A1}"
    if kind == "question" and not statement.text.rstrip().endswith("?"):
        yield "a question ends with a question mark"
    if template.slots("than") or kind == "comparison":
        units = {context.index.evidence[slot.value].unit for slot in figures}
        if kind != "comparison" or len(figures) != 2 or len(units) != 1 or len(template.slots("than")) != 1:
            yield "a comparison has two figures of one unit and the slot {than} once"
    if kind not in ("question", "explanation") and kind != "cause" or figures:
        named = {slot.value for slot in template.slots("cause")} | ({statement.cause} - {None})
        if kind == "cause" and statement.claim != "present":
            named.discard(statement.cause)
        for name in sorted(name for name in named if name is not None and context.found(name) is None):
            yield f"the diagnosis did not find {name}"
    if kind == "explanation" and statement.cause and context.found(statement.cause) is None:
        if template.slots("rank") or template.slots("step"):
            yield f"{statement.cause} was not found, so nothing of this run can be explained by it"


def _of_claim(statement: Statement, context: CheckContext) -> Iterator[str]:
    if statement.cause is None or statement.claim is None:
        yield "a statement of kind cause needs a cause and a claim"
        return
    found, checks = context.found(statement.cause), context.checks_of(statement.cause)
    is_open = not checks or any(check.status == "cannot_answer" for check in checks)
    match statement.claim:
        case "present" if found is None:
            yield f"the diagnosis did not find {statement.cause}"
        case "absent" if found is not None:
            yield f"the diagnosis found {statement.cause}"
        case "absent" if is_open:
            yield f"{statement.cause} could not be checked in this run; its claim is open"
        case "open" if found is not None or not is_open:
            yield f"{statement.cause} was checked in this run; its claim is {'present' if found else 'absent'}"
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


def _of_meaning(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """Subjects, judgements, ranks and steps of every stretch of the text."""
    if statement.kind == "question":
        return
    found = context.found(statement.cause)
    if (judged := judging(words_of(template.free))) and found is None:
        yield f"{judged[0]!r} judges; name the cause that was found, or leave the word out"
    about = _about(statement, template, context)
    for segment in template.segments():
        if segment.figure is None:
            yield from _without_figure(segment, about, statement)
            if found is not None and not segment.numbers("rank") <= set(found.ranks):
                yield f"{statement.cause} was found on other ranks"
        else:
            yield from _with_figure(segment, context.index.evidence[segment.figure], context)


def _about(statement: Statement, template: Template, context: CheckContext) -> frozenset[str]:
    """The subjects that sentences without a figure may speak of."""
    index = context.index
    cited = (*statement.evidence, *(slot.value for kind in ("advice", "case") for slot in template.slots(kind)))
    named = [statement.cause, *(slot.value for slot in template.slots("cause"))]
    named += [index.advice[name].for_ for name in cited if name in index.advice]
    named += [index.cases[name].cause for name in cited if name in index.cases]
    return frozenset().union(*map(subjects_of_cause, named))


def _without_figure(segment: Segment, about: frozenset[str], statement: Statement) -> Iterator[str]:
    allowed = about | {"cost", "mean", "median", "maximum"}
    if about or statement.kind == "advice":
        allowed |= {"predicted", "saving"}
    for word, groups in groups_of(words_of(segment.free)).items():
        if not groups & allowed and word not in vocabulary().plain:
            yield f"{word!r} needs a figure of that subject in its sentence, or the cause it belongs to"
    if segment.numbers("rank") and statement.kind in ("symptom", "comparison"):
        yield "what is said of a rank needs a figure in the same sentence"


def _with_figure(segment: Segment, record: EvidenceRecord, context: CheckContext) -> Iterator[str]:
    own, kinds = subjects_of_figure(record), kinds_of_figure(record)
    groups = groups_of(words_of(segment.free))
    spoken = frozenset().union(*groups.values())
    for word, of_word in groups.items():
        if not of_word & (own | kinds) and word not in vocabulary().plain:
            yield f"{record.id} is {record.metric}: it says nothing of {word!r}"
    causes_named = [part.value for part in segment.parts if not isinstance(part, str) and part.kind == "cause"]
    named = own & spoken or any(own & subjects_of_cause(name) for name in causes_named)
    if "cause" in record.arguments:
        named = named or spoken & {"cost", "saving", "predicted", "faster"}
    elif not own:
        named = named or OF_STEP & set(words_of(segment.free)) or vocabulary().phrases.search(segment.free.lower())
    if not named:
        yield f"say in the same sentence, before {{{record.id}}}, what it measures: {record.metric}"
    if "predicted" in kinds and not spoken & {"predicted", "faster"}:
        yield f"{record.id} is predicted: say would or could"
    yield from _of_place(segment, record, context)


def _of_place(segment: Segment, record: EvidenceRecord, context: CheckContext) -> Iterator[str]:
    ranks, steps = segment.numbers("rank"), segment.numbers("step")
    own = _ranks_of(record)
    if ranks and own and not (ranks <= own if "rank" in record.arguments else ranks & own):
        yield f"{record.id} was measured on rank {', '.join(map(str, sorted(own)))}"
    if ranks and not own and len(context.index.ranks) > 1:
        yield f"{record.id} is of no single rank"
    if steps and steps != {record.arguments.get("step")} and steps != set(record.steps):
        yield f"{record.id} was not measured on that step"


def _ranks_of(record: EvidenceRecord) -> set[int]:
    """The ranks that a figure is about, by its arguments."""
    given = [str(value) for name, value in record.arguments.items() if "rank" in name and value is not None]
    return {int(number) for text in given for number in text.replace(" ", ",").split(",") if number.isdecimal()}
