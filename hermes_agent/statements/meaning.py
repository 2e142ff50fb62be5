"""Subjects, judgements, ranks and steps of every stretch of a statement's text, held against its figures."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes_agent.model.diagnosis import EvidenceRecord
from hermes_agent.statements.context import CheckContext
from hermes_agent.statements.record import Statement
from hermes_agent.statements.slots import Slot, SlotKind, Template
from hermes_agent.statements.subjects import (
    is_predicted,
    is_predicted_time,
    is_saving,
    kinds_of_figure,
    subjects_of_cause,
    subjects_of_figure,
)
from hermes_agent.statements.wording import groups_of, judging, vocabulary, words_of

OF_STEP = frozenset({"step", "steps", "iteration", "iterations", "run", "training"})
# How a question begins that is answered by yes or no.
ASKING = frozenset(
    {"is", "are", "was", "were", "do", "does", "did", "has", "have", "had", "can", "could", "should", "would"}
)
REFERRING = frozenset({"which", "that", "this", "it", "so", "these"})  # as the first word, of what was said before
EACH_RANK = re.compile(r"\beach rank\b", re.IGNORECASE)
TO = re.compile(r"\bto(?: about)?\s*$", re.IGNORECASE)
WAITED_FOR = re.compile(r"\b(?:for|of|until)\s*$", re.IGNORECASE)
DEVICE = frozenset({"device", "gpu", "accelerator", "machine", "node", "cuda"})
NEAR = 2  # words between a device and the word that judges it


def faults_of_meaning(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """What the text says that its figures and causes do not bear out."""
    if statement.kind == "question" and _asks(template):
        return
    found = context.found(statement.cause)
    predicted = any(is_predicted(context.index.evidence[name]) for name in template.values("evidence"))
    if found is None and (judged := judging(words_of(template.free), predicted or statement.kind == "advice")):
        yield f"{judged[0]!r} judges; name the cause that was found, or leave the word out"
    spoken, about = groups_of(words_of(template.free)), _about(statement, template, context)
    yield from _of_judgement(template, about, context)
    for segment in template.segments():
        yield from _of_devices(segment, about)
        if EACH_RANK.search(segment.free) and set(found.ranks if found else ()) != set(context.diagnosis.run.ranks):
            yield "'each rank' needs a cause that was found on each of them; name the ranks"
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


def _of_judgement(template: Template, about: frozenset[str], context: CheckContext) -> Iterator[str]:
    """Figures of other subjects than the statement's that are judged, in their stretch or one that refers to it."""
    last: EvidenceRecord | None = None
    for segment in template.segments():
        words = words_of(segment.free)
        refers = bool(REFERRING.intersection(words[:1]))
        if segment.figure is not None:
            last, refers = context.index.evidence[segment.figure], True
        subjects = frozenset() if last is None else subjects_of_figure(last)
        advising = last is not None and is_predicted(last)
        if last is not None and refers and subjects and not subjects & about and judging(words, advising):
            yield f"{last.id} ({last.metric}) is no evidence of what the statement judges"


def _asks(template: Template) -> bool:
    """Whether the text is one question that is answered by yes or no, and states no figure and no place."""
    first = next(iter(words_of(template.free)), "")
    begins = first in ASKING and isinstance(template.parts[0], str)
    return begins and len(template.segments()) == 1 and not template.values("evidence", "rank", "step")


def _of_devices(segment: Template, about: frozenset[str]) -> Iterator[str]:
    """A device that is called slow although no finding is about devices."""
    words = words_of(segment.free)
    judged = {place for place, word in enumerate(words) if judging([word], advising=False)}
    for place, word in enumerate(words):
        near = range(place - 1, place + NEAR + 1)
        if word.removesuffix("s") in DEVICE and "hardware" not in about and judged.intersection(near):
            yield f"{word!r} is judged, and no cause of that subject was found"


def _about(statement: Statement, template: Template, context: CheckContext) -> frozenset[str]:
    """The subjects that sentences without a figure may speak of."""
    index = context.index
    cited = (*statement.evidence, *template.values("advice", "case"))
    named = [statement.cause, *template.values("cause")]
    named += [index.cases[name].cause for name in cited if name in index.cases]
    if statement.kind != "explanation":  # one of another cause is introduced as general
        named = [name for name in named if context.found(name) is not None]
    named += [index.advice[name].for_ for name in cited if name in index.advice]
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
    yield from _of_saving(segment, record, spoken)
    if not _names_subject(segment, record, own, spoken):
        yield f"say in the same sentence, before {{{record.id}}}, what it measures: {record.metric}"
    yield from _of_place(segment, record, context)


def _of_saving(segment: Template, record: EvidenceRecord, spoken: frozenset[str]) -> Iterator[str]:
    """A step's time that is called a saving, and a saving that is called a step's time."""
    place = next(n for n, part in enumerate(segment.parts) if isinstance(part, Slot) and part.value == record.id)
    before = segment.parts[place - 1] if place else ""
    to = isinstance(before, str) and TO.search(before) is not None
    if is_predicted_time(record) and "saving" in spoken and not to:
        yield f"{record.id} is the time of a step, no saving: a step would take it, or be cut to it"
    if is_saving(record) and (to if "saving" in spoken else "predicted" in spoken):
        yield f"{record.id} is what a step loses: write that it costs or would save it"


def _names_subject(segment: Template, record: EvidenceRecord, own: frozenset[str], spoken: frozenset[str]) -> bool:
    """Return whether the stretch says what the figure measures."""
    if is_predicted_time(record):
        return bool(OF_STEP.intersection(words_of(segment.free)))
    if "cause" in record.arguments and spoken & {"cost", "saving", "predicted", "faster"}:
        return True
    if not own:
        return bool(OF_STEP.intersection(segment.free.lower().replace(",", " ").split()))
    return any(own & (spoken | subjects_of_cause(name)) for name in ("", *segment.values("cause")))


def _of_place(segment: Template, record: EvidenceRecord, context: CheckContext) -> Iterator[str]:
    ranks, steps = _numbers(segment, "rank"), _numbers(segment, "step")
    own = _ranks_of(record)
    late = record.arguments.get("rank" if record.metric == "wait_share_pct" else "last_rank")
    if late is not None and ranks and not _waited_for(segment, str(late), record):
        yield f"{record.id} is what others wait for {{rank:{late}}}"
    elif ranks and own and not (ranks <= own if "rank" in record.arguments else ranks & own):
        yield f"{record.id} was measured on rank {', '.join(map(str, sorted(own)))}"
    if ranks and not own and len(context.index.ranks) > 1:
        yield f"{record.id} is of no single rank"
    if steps and steps != {record.arguments.get("step")} and steps != set(record.steps):
        yield f"{record.id} was not measured on that step"


def _waited_for(segment: Template, late: str, record: EvidenceRecord) -> bool:
    """Whether the late rank is named as the one that is waited for, and no rank but the figure's as one that waits."""
    for place, part in enumerate(segment.parts):
        if not isinstance(part, Slot) or part.kind != "rank":
            continue
        before = segment.parts[place - 1] if place else ""
        awaited = isinstance(before, str) and WAITED_FOR.search(before) is not None
        if part.value != (late if awaited else str(record.arguments.get("rank"))) or (part.value == late) != awaited:
            return False
    return True


def _numbers(segment: Template, kind: SlotKind) -> set[int]:
    """The ranks or steps that are named."""
    return {int(value) for value in segment.values(kind)}


def _ranks_of(record: EvidenceRecord) -> set[int]:
    """The ranks that a figure is about, by its arguments."""
    given = [str(value) for name, value in record.arguments.items() if "rank" in name and value is not None]
    return {int(number) for text in given for number in text.replace(" ", ",").split(",") if number.isdecimal()}
