"""Subjects, judgements, ranks and steps of every stretch of a statement's text, held against its figures."""

from __future__ import annotations

from collections.abc import Iterator

from hermes_agent.model.diagnosis import EvidenceRecord
from hermes_agent.statements.context import CheckContext
from hermes_agent.statements.record import Statement
from hermes_agent.statements.slots import SlotKind, Template
from hermes_agent.statements.subjects import is_predicted, kinds_of_figure, subjects_of_cause, subjects_of_figure
from hermes_agent.statements.wording import groups_of, judging, vocabulary, words_of

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
