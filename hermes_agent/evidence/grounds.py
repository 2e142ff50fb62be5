"""What an answer about a diagnosis may rest on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from case_library.library import BUNDLED_CASES, CaseError, parse_case, read_case_bytes
from case_library.schema import Case
from hermes_agent.evidence.hosts import Hosts
from hermes_agent.evidence.verifier import Evidence, Grounds
from hermes_agent.model.diagnosis import AdviceRecord, CaseRecord, Diagnosis, EvidenceRecord, RecordedRecord


@dataclass(frozen=True)
class KnownSteps:
    """Steps that a run has: those traced, and those within the spans that were recorded."""

    traced: frozenset[int]
    spans: tuple[tuple[int, int], ...] = ()

    def __contains__(self, step: object) -> bool:
        """Whether the run has that step."""
        return step in self.traced or (isinstance(step, int) and any(a <= step <= b for a, b in self.spans))


def grounds(diagnosis: Diagnosis, extra: Iterable[EvidenceRecord] = (), cases: Iterable[CaseRecord] = ()) -> Grounds:
    """Figures of the diagnosis and those measured since, the words of advice and cases by id, and what the run has."""
    evidence = {record.id: Evidence(record.value, record.unit) for record in (*diagnosis.evidence, *extra)}
    quotes = {item.id: advice_words(item) for item in diagnosis.advice}
    quotes |= {record.id: case_words(record) for record in (*diagnosis.cases, *cases)}
    run = diagnosis.run
    recorded = run.recorded or RecordedRecord()
    ranks = frozenset((*run.ranks, *recorded.ranks))
    steps = KnownSteps(frozenset(run.steps), tuple(recorded.steps))
    return Grounds(evidence, quotes, ranks, steps, Hosts.named(recorded.hosts))


def advice_words(item: AdviceRecord) -> str:
    """All that a piece of advice says."""
    return "\n".join((item.optimization, item.how, item.risk, item.verify, item.text))


def case_words(record: CaseRecord) -> str:
    """All that a recalled case says, with the whole case where the library has it."""
    own = (record.title, record.url, record.why, *record.shared_signals, f"similarity {record.similarity:.2f}")
    case = recalled_case(record)
    return "\n".join((*own, *(case_fields(case).values() if case else ())))


def recalled_case(record: CaseRecord) -> Case | None:
    """The whole case behind a record, a team's own from its file; None when it can no longer be read."""
    if not record.private:
        return library_case(record.case)
    path = Path(record.file)
    try:
        return parse_case(path, read_case_bytes(path)).model_copy(update={"private": True})
    except CaseError:
        return None


def library_case(name: str) -> Case | None:
    """The bundled case of that id; None when the library has none that can be read."""
    if not all(part.isalnum() for part in name.split("-")):
        return None
    path = BUNDLED_CASES / f"{name}.yaml"
    try:
        return parse_case(path, read_case_bytes(path))
    except CaseError:
        return None


def case_fields(case: Case) -> Mapping[str, str]:
    """The telling fields of a case by their heading."""
    return {
        "Setting": f"{case.setting.framework}, {case.setting.hardware}, {case.setting.scale}, {case.setting.model}",
        "Symptom": case.symptom,
        "Signals": "; ".join(case.signals),
        "Diagnosis": case.diagnosis,
        "Optimization": case.optimization,
        "Effect": case.effect,
        "Source": case.source.url or "internal",
    }
