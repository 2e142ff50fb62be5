"""The ids of a session: an id that was given out keeps its meaning when the run is diagnosed again."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from hermes_agent.evidence.citations import CITATION
from hermes_agent.evidence.journal import Journal
from hermes_agent.model.diagnosis import AdviceRecord, CaseRecord, Diagnosis, EvidenceRecord, HypothesisRecord

CitedRecord: TypeAlias = EvidenceRecord | AdviceRecord | CaseRecord | HypothesisRecord
RecordT = TypeVar("RecordT", EvidenceRecord, AdviceRecord, CaseRecord, HypothesisRecord)
ID = re.compile(r"[EACH]\d{1,9}")
OF_HYPOTHESIS = re.compile(r"\((H\d{1,9})\)")  # as the candidates of a lead name it
ID_FIELDS = ("id", "evidence", "evidence_against", "cases")
AS_RECORDED = ("arguments", "source", "path", "file")  # names of the run, in which an id means nothing


@dataclass(frozen=True)
class GivenIds:
    """What each id of a session stands for; ``last`` is the highest number of each letter that was given out."""

    records: Mapping[str, CitedRecord] = field(default_factory=dict)
    last: Mapping[str, int] = field(default_factory=dict)

    def with_records(self, records: Iterable[CitedRecord]) -> GivenIds:
        """These and further ones; an id that is known keeps its record."""
        new = {each.id: each for each in records}
        return GivenIds(
            {**self.records, **{name: new[name] for name in new if name not in self.records}}, self._after(new)
        )

    def with_ids(self, ids: Iterable[str]) -> GivenIds:
        """The same records; these ids are taken too, although what they stood for is not known any more."""
        return GivenIds(self.records, self._after(ids))

    def _after(self, ids: Iterable[str]) -> dict[str, int]:
        last = dict(self.last)
        for each in filter(ID.fullmatch, ids):
            last[each[0]] = max(last.get(each[0], 0), int(each[1:]))
        return last

    def agree(self, records: Iterable[EvidenceRecord | CaseRecord], journal: Journal) -> bool:
        """Return whether each figure and case has the meaning that it has among these records and in a journal."""
        shared: tuple[EvidenceRecord | CaseRecord, ...] = (*records, *journal.evidence(), *journal.cases())
        known = {each.id: each for each in shared}
        own: tuple[EvidenceRecord | CaseRecord, ...] = (*self.of(EvidenceRecord), *self.of(CaseRecord))
        return all(each.id in known and _meaning(known[each.id]) == _meaning(each) for each in own)

    def of(self, kind: type[RecordT]) -> list[RecordT]:
        """The records of one kind, in the order in which they were given out."""
        return [each for each in self.records.values() if isinstance(each, kind)]


def cited_records(diagnosis: Diagnosis) -> tuple[CitedRecord, ...]:
    """Everything in a diagnosis that has an id."""
    return (*diagnosis.evidence, *diagnosis.advice, *diagnosis.cases, *diagnosis.hypotheses)


def renumbered(diagnosis: Diagnosis, given: GivenIds) -> Diagnosis:
    """The diagnosis with ids of the session: the id that a record has there already, else one never given out.

    A figure is the same when the same call gave the same value, a case when it is the same case, a hypothesis when it
    is the same cause at the same place, advice when nothing in it differs.
    """
    if not given.last:
        return diagnosis
    names = _names(diagnosis.evidence, given, "E", figure_key)
    names |= _names(diagnosis.cases, given, "C", _meaning)
    names |= _names(diagnosis.hypotheses, given, "H", _hypothesis_key)
    cited = _renamed(diagnosis, names)
    return _renamed(cited, _names(cited.advice, given, "A", _advice_key))


def figure_key(record: EvidenceRecord) -> Hashable:
    """What makes two figures the same: run, metric, arguments, value and unit."""
    return record.run, record.metric, tuple(sorted(record.arguments.items())), record.value, record.unit


def _meaning(record: EvidenceRecord | CaseRecord) -> Hashable:
    return figure_key(record) if isinstance(record, EvidenceRecord) else (record.case, record.private, record.file)


def _hypothesis_key(record: HypothesisRecord) -> Hashable:
    return record.cause, record.mechanism, record.place, tuple(record.ranks)


def _advice_key(record: AdviceRecord) -> Hashable:
    return record.model_copy(update={"id": ""}).model_dump_json()


def _names(
    records: Sequence[RecordT], given: GivenIds, letter: str, key: Callable[[RecordT], Hashable]
) -> dict[str, str]:
    """The session's id of each record, by its own."""
    kinds = tuple({type(each) for each in records})
    known = {key(each): each.id for kind in kinds for each in reversed(given.of(kind))}
    names, last = {}, given.last.get(letter, 0)
    for each in records:
        if (name := known.get(key(each))) is None:
            last += 1
            name = f"{letter}{last}"
        names[each.id] = name
    return names


def _renamed(diagnosis: Diagnosis, names: Mapping[str, str]) -> Diagnosis:
    """The diagnosis with all ids replaced at once, in fields and in the citations of its texts."""
    if all(old == new for old, new in names.items()):
        return diagnosis
    values = diagnosis.model_dump(mode="json", by_alias=True)
    return Diagnosis.model_validate({key: _replaced(key, value, names) for key, value in values.items()})


def _replaced(key: str, value: object, names: Mapping[str, str]) -> object:
    match value:
        case _ if key in AS_RECORDED:
            return value
        case dict():
            return {inner: _replaced(inner, each, names) for inner, each in value.items()}
        case list():
            return [_replaced(key, each, names) for each in value]
        case str() if key in ID_FIELDS:
            return names.get(value, value)
        case str():
            return recited(value, names)
        case _:
            return value


def recited(text: str, names: Mapping[str, str]) -> str:
    """A text with other ids in its citations."""
    text = CITATION.sub(lambda found: ID.sub(lambda name: names.get(name[0], name[0]), found[0]), text)
    return OF_HYPOTHESIS.sub(lambda found: f"({names.get(found[1], found[1])})", text)
