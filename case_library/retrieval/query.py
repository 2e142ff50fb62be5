"""The records of recall: the query, its answer, and the card of a case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from case_library.retrieval.words import search_terms

if TYPE_CHECKING:
    from case_library.schema import Case


@dataclass(frozen=True)
class CaseQuery:
    """A slow-down: free text, taxonomy ids or both; ``framework`` and ``hardware`` only order equal cases."""

    text: str = ""
    causes: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    framework: str = ""
    hardware: str = ""

    @property
    def words(self) -> str:
        """The text and the signals, one per line."""
        return "\n".join(part for part in (self.text, *self.signals) if part.strip())

    @property
    def has_signature(self) -> bool:
        """Return whether a cause, mechanism or family is named."""
        return bool(self.causes or self.mechanisms or self.families)


@dataclass(frozen=True)
class CaseHit:
    """A similar case: ``similarity`` from 0 to 1, ``why`` in words; ``file`` is the file of a private one."""

    id: str
    title: str
    url: str
    cause: str
    family: str
    similarity: float
    shared_signals: tuple[str, ...]
    why: str
    private: bool = False
    conflicts: tuple[str, ...] = ()
    file: str = ""


@dataclass(frozen=True)
class Recall:
    """Similar cases, best first; or none, and ``abstained`` says in one sentence why."""

    hits: tuple[CaseHit, ...]
    abstained: str = ""


TITLE_WEIGHT = 2.0
SETTING_WEIGHT = 0.5


@dataclass(frozen=True)
class CaseCard:
    """A case as retrieval sees it; ``counts`` is how often each search term occurs in it, weighed by where."""

    id: str
    title: str
    url: str
    cause: str
    family: str
    mechanism: str
    setting: str
    signals: tuple[str, ...]
    counts: Mapping[str, float]
    private: bool = False


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
        counts=term_counts(case),
        private=case.private,
    )


def term_counts(case: Case) -> dict[str, float]:
    """Counts of each search term; a word of the title counts ``TITLE_WEIGHT`` times, one of the setting half."""
    counts: defaultdict[str, float] = defaultdict(float)
    for text, weight in _parts(case):
        for term in search_terms(text):
            counts[term] += weight
    return dict(counts)


def document(case: Case) -> str:
    """The text a case is embedded by."""
    return "\n".join(text for text, _ in _parts(case))


def _parts(case: Case) -> list[tuple[str, float]]:
    setting = f"{case.setting.framework} {case.setting.hardware} {case.setting.model}"
    texts = [case.symptom, "\n".join(case.signals), case.diagnosis, case.optimization, case.mechanism or ""]
    return [(case.title, TITLE_WEIGHT), *((text, 1.0) for text in texts), (setting, SETTING_WEIGHT)]


def cause_text(cause: str) -> str:
    """The taxonomy's words for a cause: name, family, mechanisms, signals and optimizations; empty if unknown."""
    from tools.knowledge.taxonomy import causes

    known = causes().get(cause)
    if known is None:
        return ""
    return "\n".join([known.id, known.family, *known.mechanisms, *known.signals, *known.optimizations])
