"""Checks of a statement: its slots exist, its words are known, and it claims nothing but what was found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hermes_agent.evidence.ledger import quoted
from hermes_agent.model.diagnosis import EvidenceRecord
from hermes_agent.statements.context import CheckContext, Truth, claim_of
from hermes_agent.statements.graph import edge_of, not_on_edge, shows_in, unfit_guess, untested
from hermes_agent.statements.record import TEXT_CHARS, Statement
from hermes_agent.statements.slots import Slot, SlotKind, Template, parsed
from hermes_agent.statements.wording import (
    commands_of,
    faults_of_wording,
    groups_of,
    is_predicted,
    is_predicted_time,
    is_saving,
    judging,
    kinds_of_figure,
    plain_text,
    subjects_of_cause,
    subjects_of_figure,
    vocabulary,
    words_of,
)
from tools.knowledge.taxonomy import causes

LOSES = frozenset(
    {"cost", "costs", "lose", "loses", "lost", "save", "saves", "saved", "saving", "savings", "reduce", "cut"}
)
OF_STEP = frozenset({"step", "steps", "iteration", "iterations", "run", "training"})
# How a question begins that is answered by yes or no.
ASKING = frozenset(
    {"is", "are", "was", "were", "do", "does", "did", "has", "have", "had", "can", "could", "should", "would"}
)
WISHING = frozenset({"should", "would"})
GRANTED = re.compile(r"\b(?:the|this|that|these|those|its|their|our|your) ([a-z]+)\b")
REFERRING = frozenset({"which", "that", "this", "it", "so", "these"})  # as the first word, of what was said before
EACH_RANK = re.compile(r"\beach rank\b", re.IGNORECASE)
TO = re.compile(r"\bto(?: about)?\s*$", re.IGNORECASE)
WAITED_FOR = re.compile(r"\b(?:for|of|until)\s*$", re.IGNORECASE)
DEVICE = frozenset({"device", "gpu", "accelerator", "machine", "node", "cuda"})
NEAR = 2  # words between a device and the word that judges it
TRUTH: dict[Truth | None, str] = {
    "present": "the diagnosis found {0}; its claim is present",
    "absent": "the diagnosis did not find {0}; its claim is absent",
    "open": "the diagnosis did not find {0}, which could not be checked in this run; its statement is of kind unknown",
    None: "the diagnosis did not find {0}, but its checks are not clean; make no claim about it",
}
BETWEEN = re.compile(
    r"[^{}]*(?:\{(?!E\d)[^{}]*\}[^{}]*)*\{\s*E\d+\s*\}[^{}.;?!]*(?:\{(?!than|E\d)[^{}]*\}[^{}.;?!]*)*"
    r"\{\s*than\s*\} (?!(?:this|that|it|these|those|them|the (?:latter|former|other|others))\b).*",
    re.DOTALL | re.IGNORECASE,
)


def faults_of_meaning(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """Yield what the text says that its figures and causes do not support."""
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
    """Return whether the text is one question that is answered by yes or no, and states no figure and no place."""
    first = next(iter(words_of(template.free)), "")
    begins = first in ASKING and isinstance(template.parts[0], str)
    return begins and len(template.segments()) == 1 and not template.values("evidence", "rank", "step")


def _granted(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """Yield what a question takes for granted although it was not found: it asks what to do about it, or judges it."""
    words, found = words_of(template.free), context.found(statement.cause)
    acting = set(judging(words, advising=False)) - set(judging(words, advising=True))
    if words[0] in WISHING or acting:
        named = sorted({*template.values("cause"), statement.cause or ""} - {""})
        unfound = (name for name in named if context.found(name) is None)
        yield from (f"the diagnosis did not find {name}, and the question takes it for granted" for name in unfound)
    if found is None and (granted := GRANTED.search(" ".join(words))):
        for word in judging([granted[1]], advising=True):
            yield f"{word!r} takes for granted what was not found; ask whether it is so"


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
    if statement.claim != "about":  # one of another cause is introduced as general
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
    if record.unit == "x" and "speedup" in record.metric and not spoken & {"faster", "slower"}:
        yield f"{record.id} is a ratio of speeds: a step would run that much faster"
    taken = not segment.values("cause") and not LOSES.intersection(words_of(segment.free))  # "the step takes 55.8 ms"
    if is_saving(record) and (taken or (to if "saving" in spoken else "predicted" in spoken)):
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
    """Return whether only the straggler is named as waited for, and only the figure's rank as one that waits."""
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


def template_of(statement: Statement) -> Template:
    """The statement's text cut into words and slots."""
    return parsed(plain_text(statement.text), statement.cause)


def faults_of(statement: Statement, context: CheckContext) -> list[str]:
    """Everything that keeps the statement from a reader; empty when it may be shown."""
    if len(statement.text) > TEXT_CHARS:
        return [f"the text has more than {TEXT_CHARS} characters"]
    template = template_of(statement)
    form = [*template.faults, *faults_of_wording(template.free), *_unknown(statement, template, context)]
    form += _commands(template)
    if form:  # what follows relies on known ids
        return form
    if statement.kind == "unknown" and _asked(statement) and _asks(template):
        return [*_of_kind(statement, template, context), *_granted(statement, template, context)]
    return [
        *_of_kind(statement, template, context),
        *_of_causes(statement, template, context),
        *faults_of_meaning(statement, template, context),
    ]


def _unknown(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """Yield what the statement refers to and does not exist."""
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


def _commands(template: Template) -> Iterator[str]:
    """Yield what would make a name of the run a command: whoever wrote the run chose that name."""
    if template.values("name"):
        for word in commands_of(template.free):
            yield f"{word!r} does not stand with a name; what to do comes from the advice table, as {{A1:how}}"


def _exists(name: str) -> bool:
    cause, _, mechanism = name.partition(":")
    known = causes().get(cause)
    return known is not None and (not mechanism or mechanism in known.mechanisms)


def is_guess(statement: Statement, context: CheckContext) -> bool:
    """Return whether the statement blames what the diagnosis did not find: it may be shown as a guess alone."""
    blames = statement.kind == "causal" and statement.claim in ("present", "guess")
    return blames and context.found(statement.cause) is None


def _asked(statement: Statement) -> bool:
    return statement.text.rstrip().endswith("?")


def _of_kind(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """Yield what the kind of a statement demands of its fields and slots."""
    figures = [context.index.evidence[name] for name in template.values("evidence")]
    if statement.kind != "causal" and (statement.claim or statement.ranks or statement.part):
        yield "only a statement of kind causal has a claim, ranks and a part"
    if statement.kind not in ("causal", "unknown") and not statement.text.strip():
        yield "the text is empty"
    match statement.kind:
        case "causal":
            yield from _of_claim(statement, template, context)
        case "unknown":
            yield from _of_unknown(statement, template, context)
        case "advice":
            if not template.values("advice", "case"):
                yield "advice needs the slot of an advice, as {A1}, or of a case, as {C1}"
        case "measured" | "predicted":
            yield from _of_figures(statement, template, context)
    if template.values("than"):
        yield from _of_comparison(statement, template, figures)


def _of_figures(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """Yield what keeps a statement from being measured or predicted."""
    index = context.index.evidence
    predicted = [name for name in template.values("evidence") if is_predicted(index[name])]
    cites = bool(template.values("evidence", "verdict")) or any(name in index for name in statement.evidence)
    if statement.kind == "predicted":
        if not predicted:
            yield "what is predicted needs the slot of a predicted figure"
    elif predicted:
        yield f"{predicted[0]} is predicted, so the statement is of kind predicted"
    elif not cites:
        yield "what is measured needs the slot of a figure, as {E7}"


def _of_comparison(statement: Statement, template: Template, figures: Sequence[EvidenceRecord]) -> Iterator[str]:
    """Yield what keeps ``{than}`` from standing between two figures of one unit."""
    units = {record.unit for record in figures}
    in_kind = statement.kind in ("measured", "predicted")
    if not in_kind or len(figures) != 2 or len(units) != 1 or len(template.values("than")) != 1:
        yield "a comparison has two figures of one unit and the slot {than} once"
    elif not BETWEEN.fullmatch(plain_text(statement.text)):
        yield "{than} stands between the two figures, in their sentence and before what the second one measures"


def _of_unknown(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """Yield why what is called not assessable, or asked, is not open in this run: a check or a hypothesis says so."""
    if _asked(statement):
        return
    if (name := statement.cause) is None:
        if not template.values("open", "verdict"):
            yield "what is not assessable needs its check, as {open:io.data_loader}, or the cause that is open"
        elif not statement.text.strip():
            yield "the text is empty"
        return
    holds = claim_of(context.diagnosis, name)
    if holds in ("present", "absent") or (holds is None and untested(context.diagnosis, name) is None):
        yield TRUTH[holds].format(name)


def _of_causes(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """Causes that are named as if they had been found."""
    own, named = statement.cause, set(template.values("cause"))
    if statement.kind in ("causal", "unknown"):
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


def _of_claim(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """Yield why a causal statement is no edge of the diagnosis, and no guess that the run leaves open either."""
    name = statement.cause
    if name is None or statement.claim is None:
        yield "a statement of kind causal needs a cause and a claim"
        return
    if statement.claim == "about":
        if not statement.text.strip():
            yield "the text is empty"
        elif context.found(name) is not None:
            yield from _off_the_edge(statement, template, context)
        return
    if is_guess(statement, context):
        unfit = list(unfit_guess(context, name, statement.ranks, statement.part))
        if statement.text.strip() or statement.evidence:
            unfit.append("a guess has no text and no evidence")
        if unfit:
            yield "; ".join((TRUTH[claim_of(context.diagnosis, name)].format(name), *unfit))
        return
    holds = claim_of(context.diagnosis, name)
    if statement.claim != holds:
        yield TRUTH[holds].format(name)
    elif holds == "present":
        yield from _off_the_edge(statement, template, context)


def _off_the_edge(statement: Statement, template: Template, context: CheckContext) -> Iterator[str]:
    """Yield where a statement about a found cause leaves its edge: other ranks, another part, other symptoms."""
    edge = edge_of(context.diagnosis, statement.cause)
    assert edge is not None
    yield from not_on_edge(edge, statement.ranks, statement.part)
    own, listed = subjects_of_cause(edge.cause.cause), edge.symptoms
    for name in statement.evidence:
        record = context.index.evidence.get(name)
        if record is None:
            continue
        subjects = subjects_of_figure(record)
        if name not in listed and ((subjects and not subjects & own) or not shows_in(record, edge)):
            yield f"{name} ({record.metric}) is no evidence of {statement.cause}"
