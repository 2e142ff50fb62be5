"""Whether another figure of the same kind fits the words better than the one that is cited."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hermes_agent.evidence.clauses import Clause
from hermes_agent.evidence.sentences import quoted
from hermes_agent.model.diagnosis import EvidenceRecord
from hermes_agent.questions.question import normalised
from hermes_agent.questions.subjects import subject_of
from hermes_agent.writing.scope import words_of
from hermes_agent.writing.topics import causes_named, mechanisms_named

ALL_RANKS = re.compile(r"\b(all|every|the mean of( all)?) ranks\b|\bmean of all\b")
NAMED_BY = ("kind", "name", "pattern")
PRECISIONS = {"fp16": "fp16|half precision", "fp32": "fp32|single precision", "fp64": "fp64|double precision"}


def rival(
    record: EvidenceRecord, sentence: str, clause: Clause, about: str, evidence: Mapping[str, EvidenceRecord]
) -> str:
    """What is wrong when the words name another cause, mechanism or thing than the figure's; "" when they do not."""
    said = f"{normalised(clause.before)} {about} {normalised(clause.text)}"
    cause = record.arguments.get("cause")
    if isinstance(cause, str):
        return _other_cause(record, cause, f"{about} {normalised(clause.text)}", said, evidence.values())
    if isinstance(record.arguments.get("rank"), int) and ALL_RANKS.search(normalised(clause.text)):
        return f"{record.id} is of one rank, not of all"
    return _other_precision(record, normalised(clause.text)) or _other_name(
        record, normalised(words_of(sentence, clause)), evidence.values()
    )


def _other_cause(record: EvidenceRecord, cause: str, near: str, said: str, evidence: Iterable[EvidenceRecord]) -> str:
    named = causes_named(near) or causes_named(said)
    if named and cause not in named:
        return f"{record.id} is about {cause}, not {', '.join(sorted(named))}"
    mechanism = str(record.arguments.get("mechanism") or "")
    mechanisms = mechanisms_named(near) or mechanisms_named(said)
    if mechanisms and mechanism not in mechanisms:
        return f"{record.id} is about {mechanism or cause}, not {', '.join(sorted(mechanisms))}"
    others = {
        str(other.arguments.get("mechanism") or "")
        for other in evidence
        if other.metric == record.metric and other.arguments.get("cause") == cause
    }
    if mechanism and len(others) > 1 and mechanism not in mechanisms:
        meant = subject_of(said)
        if meant is None or meant.mechanism != mechanism:
            return f"{record.id} is about {mechanism} only; name it"
    return ""


def _other_name(record: EvidenceRecord, words: str, evidence: Iterable[EvidenceRecord]) -> str:
    for argument in NAMED_BY:
        own = record.arguments.get(argument)
        if own in (None, "") or _names(own, words):
            continue
        for other in evidence:
            value = other.arguments.get(argument)
            if other.metric == record.metric and value not in (None, "", own) and _names(value, words):
                return f"{record.id} is of {own}, not of {value}"
    return ""


def names_it(record: EvidenceRecord, words: str) -> bool:
    """Whether words hold, in back quotes, the kernel's or call's name, or the very call that measured the figure."""
    spans = re.findall(r"`([^`]+)`", words)
    name = str(record.arguments.get("name") or "")
    shown = quoted(name).strip("`").rstrip("…") if name else ""
    call = [record.metric, *(str(value) for value in record.arguments.values() if isinstance(value, str))]
    return any((shown and span.rstrip("…") == shown) or all(part in span for part in call) for span in spans)


def _other_precision(record: EvidenceRecord, words: str) -> str:
    shown = f"{record.arguments.get('precision') or ''} {record.arguments.get('group') or ''}"
    own = next((name for name in PRECISIONS if name in shown), None)
    named = [name for name, spelt in PRECISIONS.items() if re.search(rf"\b({spelt})\b", words)]
    return f"{record.id} is in {own}, not in {named[0]}" if own and named and own not in named else ""


def _names(value: object, words: str) -> bool:
    return re.search(rf"\b({re.escape(normalised(str(value)))})\b", words) is not None
