"""A recalled case as a record of the diagnosis, and how a listing names it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from case_library.library import BUNDLED_CASES, CaseError, parse_case, read_case_bytes
from case_library.retrieval.query import CaseHit
from hermes_agent.model.diagnosis import CaseRecord

if TYPE_CHECKING:
    from case_library.schema import Case

PRIVATE_MARK = "(private)"


def recalled(identifier: str, hit: CaseHit) -> CaseRecord:
    """The record of a hit; a private one carries its mark in the title, so that no listing can leave it out."""
    return CaseRecord(
        id=identifier,
        case=hit.id,
        title=f"{hit.title} {PRIVATE_MARK}" if hit.private else hit.title,
        url=hit.url,
        similarity=round(hit.similarity, 3),
        shared_signals=list(hit.shared_signals),
        cause=hit.cause,
        why=hit.why,
        private=hit.private,
        file=hit.file,
    )


def recalled_case(record: CaseRecord) -> Case | None:
    """The whole case behind a record, a team's own from its file; None when it can no longer be read."""
    case = _read(Path(record.file)) if record.private else library_case(record.case)
    return case.model_copy(update={"private": True}) if case and record.private else case


def library_case(name: str) -> Case | None:
    """The bundled case of that id; None when the library has none that can be read."""
    return _read(BUNDLED_CASES / f"{name}.yaml") if all(part.isalnum() for part in name.split("-")) else None


def _read(path: Path) -> Case | None:
    try:
        return parse_case(path, read_case_bytes(path))
    except CaseError:
        return None


def case_fields(case: Case) -> Mapping[str, str]:
    """The fields of a case by their heading."""
    return {
        "Setting": f"{case.setting.framework}, {case.setting.hardware}, {case.setting.scale}, {case.setting.model}",
        "Symptom": case.symptom,
        "Signals": "; ".join(case.signals),
        "Diagnosis": case.diagnosis,
        "Optimization": case.optimization,
        "Effect": case.effect,
        "Source": case.source.url or "internal",
    }
