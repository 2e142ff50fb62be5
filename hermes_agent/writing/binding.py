"""Whether the words beside a figure are about what was measured: a right figure under a wrong name misleads as well."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from hermes_agent.evidence.clauses import Clause, clauses
from hermes_agent.evidence.figures import written
from hermes_agent.evidence.numbers import agrees, figures
from hermes_agent.evidence.verifier import Grounds
from hermes_agent.questions.question import normalised
from hermes_agent.report.diagnosis import EvidenceRecord
from hermes_agent.writing.meanings import Meaning, meaning_of
from hermes_agent.writing.rivals import rival
from hermes_agent.writing.scope import out_of_scope
from hermes_agent.writing.topics import topics_of

CONDITIONAL = re.compile(
    r"\b(would|could|might|without|gone|if|predicted|prediction|expected|expect|removed|were|saving|to gain)\b"
)
DENIED = re.compile(
    r"\b(?<!what )(do|does|did|is|are|was|were|has|have)(nt| not) (even )?(cost|take|last|wait|need|spend|run|lose|make|idle|any)"
)
# The step as the subject right before its figure: whatever else the clause speaks of, the figure is the step's.
STEP_ITSELF = re.compile(
    r"\bof (a|an|the|each|every)( \w+)? (steps?|iterations?)( of)?$"
    r"|(^|[,;:] ?|\b(and|then|where|as|makes|while) )(a|an|the|each|every|your|one) ?(\w+ )?"
    r"(steps?|step time|iterations?) (takes|is|lasts|took|of|needs|time is)( about| roughly| on average)?$"
)


def unbound(sentence: str, evidence: Mapping[str, EvidenceRecord], grounds: Grounds, ranks: int) -> Iterator[str]:
    """What is wrong with the way a sentence calls its figures and what it cites; ``ranks`` is how many the run has."""
    cut = clauses(sentence)
    for place, clause in enumerate(cut):
        cited = [evidence[name] for name in clause.ids if name in evidence]
        if clause.figure is None:
            yield from _without_figure(clause, cited, grounds)
        elif cited or not _quoted(clause, grounds):
            yield from _figure(sentence, clause, cut[:place], cited, grounds, evidence, ranks)


def _quoted(clause: Clause, grounds: Grounds) -> bool:
    """Whether the figure stands in cited words, or its ids are unknown (which the verifier tells)."""
    figure = clause.figure
    assert figure is not None
    texts = [grounds.quotes[name] for name in clause.ids if name in grounds.quotes]
    return not clause.ids or any(
        other.value == figure.value and (other.unit == figure.unit or not figure.unit)
        for text in texts
        for other in figures(text)
    )


def _figure(
    sentence: str,
    clause: Clause,
    earlier: Sequence[Clause],
    cited: Sequence[EvidenceRecord],
    grounds: Grounds,
    evidence: Mapping[str, EvidenceRecord],
    ranks: int,
) -> Iterator[str]:
    figure = clause.figure
    assert figure is not None
    fitting = [record for record in cited if agrees(figure, record.value, record.unit)]
    if not fitting:
        if not _quoted(clause, grounds):
            names = " or ".join(clause.ids) or "any id"
            yield f"{figure.text!r} is not what is cited next to it ({names})"
        return
    wrong = [_wrong(record, sentence, clause, earlier, evidence, ranks) for record in fitting]
    if all(wrong):
        yield wrong[0]


def _wrong(
    record: EvidenceRecord,
    sentence: str,
    clause: Clause,
    earlier: Sequence[Clause],
    evidence: Mapping[str, EvidenceRecord],
    ranks: int,
) -> str:
    """What is wrong when a clause's figure is taken for this record; "" when nothing is."""
    meaning = meaning_of(record)
    called = f"{record.id} is {_called(record)}"
    said = normalised(clause.text)
    about = said if topics_of(said) or re.search(rf"\b({meaning.own})\b", said) else _spoken_of(clause, earlier)
    if foreign := topics_of(_judged(record, clause, about)) - meaning.topics:
        return f"{called}, not about {' or '.join(sorted(foreign))}"
    if not re.search(rf"\b({meaning.own})\b", f"{said} {'' if topics_of(said) else about}"):
        return f"{called}; the words beside the figure do not say so"
    if meaning.refused and (word := re.search(rf"\b({meaning.refused})\b", said)):
        return f"{called}, so {word.group()!r} is wrong"
    if DENIED.search(said):
        return f"{called}; do not deny what was measured"
    return (
        _mood(meaning, called, clause, said)
        or out_of_scope(record, sentence, clause, ranks)
        or rival(record, clause, about, evidence)
    )


def _judged(record: EvidenceRecord, clause: Clause, about: str) -> str:
    """The words whose topics count: not those before a step that is named as the subject."""
    step = record.metric in ("step_time_ms", "critical_path_step_ms")
    return normalised(clause.tail) if step and STEP_ITSELF.search(clause.head.strip().lower()) else about


def _spoken_of(clause: Clause, earlier: Sequence[Clause]) -> str:
    """What the sentence spoke of last before a clause that names nothing."""
    for other in reversed(earlier):
        words = normalised(other.text)
        if topics_of(words):
            return words
    return normalised(clause.before)


def _mood(meaning: Meaning, called: str, clause: Clause, said: str) -> str:
    before = normalised(f"{clause.before} {clause.text}")
    if meaning.mood == "conditional" and not CONDITIONAL.search(before):
        return f"{called}: a prediction, so say what would be, not what is"
    named = STEP_ITSELF.search(clause.head.strip().lower())
    of_step = named is not None and clause.head.rstrip().endswith(" of")
    if meaning.mood == "measured" and not of_step and CONDITIONAL.search(said):
        return f"{called}: it was measured, it is no prediction"
    return ""


def _called(record: EvidenceRecord) -> str:
    shown = ", ".join(f"{name}={value}" for name, value in record.arguments.items() if value not in ("", None))
    return f"{record.metric}({shown}) = {written(record.value, record.unit)}"


def _without_figure(clause: Clause, cited: Sequence[EvidenceRecord], grounds: Grounds) -> Iterator[str]:
    quotes = " ".join(grounds.quotes[name] for name in clause.ids if name in grounds.quotes)
    if not cited and not quotes:
        return
    allowed = topics_of(normalised(quotes)).union(*(meaning_of(record).topics for record in cited))
    said = normalised(clause.text)
    if foreign := topics_of(said) - allowed:
        names = ", ".join(clause.ids)
        yield f"{names} says nothing about {' or '.join(sorted(foreign))}"
