"""A diagnosis under discussion: what it says, and what was measured and recalled since."""

from __future__ import annotations

from functools import cached_property

from case_library.retrieval.query import CaseHit, CaseQuery, Recall
from hermes_agent.evidence.figures import written
from hermes_agent.evidence.grounds import grounds
from hermes_agent.evidence.journal import Journal
from hermes_agent.evidence.ledger import ContinuedLedger
from hermes_agent.evidence.recalled import recalled
from hermes_agent.evidence.sentences import render
from hermes_agent.evidence.verifier import Grounds
from hermes_agent.model.diagnosis import AdviceRecord, CaseRecord, CauseRecord, Diagnosis, EvidenceRecord
from hermes_agent.questions.material import Material
from tools.findings import Argument, Fact, Sentence
from tools.judgement.catalog import measure


class Discussion:
    """Everything an answer is made from. What it measures or recalls keeps its id; with a journal for good."""

    def __init__(self, diagnosis: Diagnosis, material: Material, journal: Journal | None = None) -> None:
        self.diagnosis = diagnosis
        self.material = material
        self._journal = journal or Journal(None)
        self.ledger = ContinuedLedger(diagnosis.evidence, self._journal)

    def measure(self, metric: str, **arguments: Argument) -> Fact:
        """A figure measured now on the run; raises UsageError where the run cannot give it."""
        return measure(self.material.profile(), metric, **arguments)

    def say(self, template: str, *facts: Fact, names: tuple[str, ...] = ()) -> str:
        """The sentence with every fact written out and cited."""
        return render(Sentence(template, facts, names), self.ledger)

    def recall(self, query: CaseQuery, limit: int = 3) -> Recall:
        """Similar cases from the library."""
        return self.material.cases().search(query, limit)

    def case(self, hit: CaseHit) -> CaseRecord:
        """The record of a recalled case; a case that has an id keeps it."""
        for record in self.diagnosis.cases:
            if record.case == hit.id:
                return record
        return self._journal.add_case(
            lambda other: other.case == hit.id,
            lambda identifier: recalled(identifier, hit),
            max((int(record.id[1:]) for record in self.diagnosis.cases), default=0),
        )

    @property
    def evidence(self) -> dict[str, EvidenceRecord]:
        """All figures by id, old and new."""
        return {record.id: record for record in (*self.diagnosis.evidence, *self.ledger.added())}

    @property
    def cases(self) -> tuple[CaseRecord, ...]:
        """All recalled cases, old and new."""
        return (*self.diagnosis.cases, *self._journal.cases())

    @cached_property
    def advice(self) -> dict[str, AdviceRecord]:
        """All advice by id."""
        return {item.id: item for item in self.diagnosis.advice}

    def grounds(self) -> Grounds:
        """What an answer may rest on at this moment."""
        return grounds(self.diagnosis, self.ledger.added(), self._journal.cases())

    def impact(self, cause: CauseRecord) -> EvidenceRecord | None:
        """The figure of what a listed cause costs a step."""
        for name in cause.evidence:
            record = self.evidence.get(name)
            if record is not None and record.metric == "cause_impact_ms":
                return record
        return None


def cited(record: EvidenceRecord) -> str:
    """A figure of the ledger with its citation."""
    return f"{written(record.value, record.unit)} [{record.id}]"
