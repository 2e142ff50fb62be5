"""Whether the words beside a figure are about what was measured: a right figure under a wrong name misleads as well."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hermes_agent.evidence.clauses import Clause, clauses
from hermes_agent.evidence.figures import written
from hermes_agent.evidence.numbers import agrees, figures
from hermes_agent.evidence.verifier import Grounds, cited_ids
from hermes_agent.model.diagnosis import EvidenceRecord
from hermes_agent.questions.question import normalised
from hermes_agent.writing.meanings import Meaning, meaning_of
from hermes_agent.writing.rivals import names_it, rival
from hermes_agent.writing.scope import out_of_scope, words_of
from hermes_agent.writing.topics import topics_named, topics_of

POINTING = re.compile(r"\b(it|they|them|that|this|these|those|its|their)\b", re.IGNORECASE)
CONDITIONAL = re.compile(
    r"\b(would|could|might|without|gone|if|predicted|prediction|expected|expect|removed|saving|to gain)\b"
)
DENIED = re.compile(
    r"\b(?<!what )(do|does|did|is|are|was|were|has|have)(nt| not) (even )?"
    r"(cost|take|last|wait|need|spend|run|lose|make|idle|any)\b"
)
OF_STEP = (
    *("step_time_ms", "joint_step_ms", "critical_path_step_ms", "predicted_step_ms", "rank_time_ms"),
    *("series_step_ms", "profiled_excess_pct"),
)
# The step as the subject right before its figure: whatever else the clause speaks of, the figure is the step's.
STEP_ITSELF = re.compile(
    r"\b(of|in|during) (a|an|the|each|every)( \w+)? (steps?|iterations?) of$|\bof (the|a) \w+ steps?$"
    r"|(^|[,;:] ?|\b(and|then|where|as|that|if|so|makes|while) )(a|an|the|each|every|your|one) ?(\w+ )?"
    r"(steps?|step time|iterations?) (takes|is|lasts|took|of|needs|time is)( about| roughly| on average)?$"
)


@dataclass(frozen=True)
class Told:
    """What a text is held against: figures by id, quotable words, how many ranks there are, the sentence before."""

    evidence: Mapping[str, EvidenceRecord]
    grounds: Grounds
    ranks: int
    before: str = ""


@dataclass(frozen=True)
class _Place:
    """One figure of a sentence with the clauses before it."""

    sentence: str
    clause: Clause
    earlier: Sequence[Clause]
    told: Told

    @property
    def said(self) -> str:
        """The clause's own words, normalised."""
        return normalised(self.clause.text)

    def about(self, own: str) -> str:
        """The clause's words if they name something, else what was spoken of last."""
        if topics_of(self.said) or _has(own, self.said):
            return self.said
        for other in reversed(self.earlier):
            words = normalised(other.text)
            if topics_of(words) or _has(own, words):
                return words
        before = normalised(self.clause.before)
        return before if topics_of(before) else f"{before} {self.pointed}".strip()

    @property
    def pointed(self) -> str:
        """The sentence before, where this one points back at it."""
        return normalised(self.told.before) if POINTING.search(self.sentence) else ""


def unbound(sentence: str, told: Told) -> Iterator[str]:
    """What is wrong with the way a sentence calls its figures and what it cites."""
    cut = clauses(sentence)
    for number, clause in enumerate(cut):
        cited = [told.evidence[name] for name in clause.ids if name in told.evidence]
        if clause.figure is None:
            yield from _without_figure(clause, cited, told.grounds)
        elif cited or not _quoted(clause, told.grounds):
            yield from _figure(_Place(sentence, clause, cut[:number], told), cited)


def _quoted(clause: Clause, grounds: Grounds) -> bool:
    """Whether the figure stands in cited words, or nothing is cited (which the verifier tells)."""
    figure = clause.figure
    assert figure is not None
    texts = [grounds.quotes[name] for name in clause.ids if name in grounds.quotes]
    return not clause.ids or any(
        other.value == figure.value and (other.unit == figure.unit or not figure.unit)
        for text in texts
        for other in figures(text)
    )


def _figure(place: _Place, cited: Sequence[EvidenceRecord]) -> Iterator[str]:
    figure, ids = place.clause.figure, place.clause.ids
    assert figure is not None
    fitting = [record for record in cited if agrees(figure, record.value, record.unit)]
    if not fitting:
        known = place.told.evidence
        elsewhere = [known[name] for name in cited_ids(place.sentence) if name in known]
        misplaced = any(agrees(figure, record.value, record.unit) for record in elsewhere)
        if misplaced and not _quoted(place.clause, place.told.grounds):
            yield f"{figure.text!r} belongs to another id than the one next to it ({', '.join(ids)})"
        return
    wrong = [_wrong(record, place) for record in fitting]
    if all(wrong):
        yield wrong[0]


def _wrong(record: EvidenceRecord, place: _Place) -> str:
    """What is wrong when a clause's figure is taken for this record; "" when nothing is."""
    clause, meaning = place.clause, meaning_of(record)
    about = place.about(meaning.own)
    if wrong := _subject(record, meaning, place, about) or _manner(meaning, place):
        return f"{record.id} is {_called(record)}{wrong}"
    return out_of_scope(record, place.sentence, clause, place.told.ranks) or rival(
        record, place.sentence, clause, f"{about} {place.pointed}", place.told.evidence
    )


def _subject(record: EvidenceRecord, meaning: Meaning, place: _Place, about: str) -> str:
    """What is wrong with the name a figure goes by."""
    clause, said = place.clause, place.said
    if names_it(record, words_of(place.sentence, clause)):
        return ""
    step = STEP_ITSELF.search(clause.head.strip().lower()) is not None
    if step and record.metric not in OF_STEP and record.unit != "x" and record.arguments.get("part") != "wall":
        return ", not the step"
    judged = normalised(clause.tail) if step and meaning.mood == "measured" else about
    named = frozenset() if {"cause", "causes"} & set(record.arguments) else topics_named(judged)
    if foreign := (topics_of(judged) | named) - meaning.topics:
        return f", not about {' or '.join(sorted(foreign))}"
    if not _has(meaning.own, said if topics_of(said) else f"{said} {about}"):
        return "; the words beside the figure do not say so"
    return ""


def _manner(meaning: Meaning, place: _Place) -> str:
    """What is wrong with how a figure is told: as its opposite, denied, as fact or as prediction."""
    clause, said = place.clause, place.said
    before = normalised(f"{clause.before} {clause.head}")
    if meaning.lead and not re.search(rf"({meaning.lead})$", before):
        return "; say so right before the figure"
    if meaning.refused and (word := re.search(rf"\b({meaning.refused})\b", said)):
        return f", so {word.group()!r} is wrong"
    if DENIED.search(said):
        return "; do not deny what was measured"
    if meaning.mood == "conditional" and not CONDITIONAL.search(f"{before} {said}"):
        return ": a prediction, so say what would be, not what is"
    of_step = clause.head.rstrip().endswith(" of") and STEP_ITSELF.search(clause.head.strip().lower())
    if meaning.mood == "measured" and not of_step and CONDITIONAL.search(said):
        return ": it was measured, it is no prediction"
    return ""


def _has(own: str, words: str) -> bool:
    return re.search(rf"\b({own})\b", words) is not None


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
