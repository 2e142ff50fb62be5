"""A recalled case as a record of the diagnosis, and how a listing names it."""

from __future__ import annotations

from collections.abc import Iterable

from case_library.retrieval.query import CaseHit
from hermes_agent.model.diagnosis import CaseRecord

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


def kind_of(record: CaseRecord) -> str:
    """``public`` or ``private``."""
    return "private" if record.private else "public"


def similar_cases_title(records: Iterable[CaseRecord]) -> str:
    """The heading above a list of cases."""
    return "Similar cases, public and private" if any(record.private for record in records) else "Similar public cases"
