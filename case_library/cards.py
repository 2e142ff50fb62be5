"""What retrieval keeps of a case: the fields of a hit and the terms it is found by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from case_library.words import terms

if TYPE_CHECKING:
    from case_library.schema import Case


@dataclass(frozen=True)
class CaseCard:
    """A case as retrieval sees it; ``counts`` is how often each term occurs in its document."""

    id: str
    title: str
    url: str
    cause: str
    family: str
    mechanism: str
    setting: str
    signals: tuple[str, ...]
    counts: Mapping[str, int]


def card_of(case: Case) -> CaseCard:
    """The card of a case."""
    return CaseCard(
        id=case.id,
        title=case.title,
        url=case.source.url,
        cause=case.cause,
        family=case.family,
        mechanism=case.mechanism or "",
        setting=f"{case.setting.framework} {case.setting.hardware}",
        signals=tuple(case.signals),
        counts=dict(Counter(terms(document(case)))),
    )


def document(case: Case) -> str:
    """The text a case is found by: its own words and those the taxonomy has for its cause."""
    setting = case.setting
    own = [case.title, case.symptom, *case.signals, case.diagnosis, case.optimization]
    place = [setting.framework, setting.hardware, setting.model]
    return "\n".join([*own, *place, cause_text(case.cause), case.mechanism or ""])


def cause_text(cause: str) -> str:
    """The taxonomy's words for a cause: name, family, mechanisms, signals and optimizations; empty if unknown."""
    from tools.taxonomy import causes

    known = causes().get(cause)
    if known is None:
        return ""
    return "\n".join([known.id, known.family, *known.mechanisms, *known.signals, *known.optimizations])
