"""Everything that an answer about a diagnosis may cite, by id, and what the run has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hermes_agent.model.diagnosis import AdviceRecord, CaseRecord, Diagnosis, EvidenceRecord
from hermes_agent.model.run_record import RecordedRecord


@dataclass(frozen=True)
class KnownSteps:
    """Steps that a run has: those traced, and those within the spans that were recorded."""

    traced: frozenset[int] = frozenset()
    spans: tuple[tuple[int, int], ...] = ()

    def __contains__(self, step: object) -> bool:
        """Return whether the run has that step."""
        return step in self.traced or (isinstance(step, int) and any(a <= step <= b for a, b in self.spans))


@dataclass(frozen=True)
class EvidenceIndex:
    """Figures, advice and cases by id; the ranks and steps of the run, traced or recorded."""

    evidence: Mapping[str, EvidenceRecord]
    advice: Mapping[str, AdviceRecord] = field(default_factory=dict)
    cases: Mapping[str, CaseRecord] = field(default_factory=dict)
    ranks: frozenset[int] = frozenset()
    steps: KnownSteps = field(default_factory=KnownSteps)

    def __contains__(self, identifier: object) -> bool:
        """Return whether something has that id."""
        return identifier in self.evidence or identifier in self.advice or identifier in self.cases


def evidence_index(
    diagnosis: Diagnosis, extra: Iterable[EvidenceRecord] = (), cases: Iterable[CaseRecord] = ()
) -> EvidenceIndex:
    """The ids of the diagnosis, with figures measured and cases recalled since."""
    run = diagnosis.run
    recorded = run.recorded or RecordedRecord()
    return EvidenceIndex(
        {record.id: record for record in (*diagnosis.evidence, *extra)},
        {item.id: item for item in diagnosis.advice},
        {record.id: record for record in (*diagnosis.cases, *cases)},
        frozenset((*run.ranks, *recorded.ranks)),
        KnownSteps(frozenset(run.steps), tuple(recorded.steps)),
    )
