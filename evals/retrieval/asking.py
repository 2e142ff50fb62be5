"""The ways a case or a user asks recall, and what came of each asking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from case_library.query import CaseQuery
from case_library.ranker import CaseRanker
from case_library.schema import Case
from case_library.words import terms
from tools.taxonomy import causes

SHOWN = 10
TOP = 3
DECOYS = 2
STEM = 5  # letters by which words are alike: collects, collected, collection


@dataclass(frozen=True)
class Outcome:
    """One asking. ``place`` is that of the first hit with the right cause (0: none); ``cause`` is empty out of scope.

    ``forced`` is the place it would have had without abstention.
    """

    cause: str
    place: int
    forced: int
    abstained: bool

    @property
    def found(self) -> bool:
        """Whether the right cause was among the first three; an abstention finds nothing."""
        return 0 < self.place <= TOP


def ask(ranker: CaseRanker, query: CaseQuery, cause: str) -> Outcome:
    """Ask once, with and without abstention."""
    hits = ranker.answer(query, SHOWN).hits
    place = _place([hit.cause for hit in hits], cause)
    return Outcome(cause, place, forced_place(ranker, query, cause), abstained=not hits)


def forced_place(ranker: CaseRanker, query: CaseQuery, cause: str) -> int:
    """The place of the first case of a cause, abstention and tail left aside; 0 if it is not among the first ten."""
    return _place(ranker.causes(query, SHOWN), cause)


def by_symptom(case: Case) -> CaseQuery:
    """The symptom alone, however little it says."""
    return CaseQuery(text=case.symptom)


def by_masked_symptom(case: Case) -> CaseQuery:
    """The symptom without any word like one in the name of its cause, family or mechanism."""
    named = {term[:STEM] for term in terms(" ".join((case.cause, case.family, case.mechanism or "")).replace("_", " "))}
    kept = (word for word in case.symptom.split() if not named & {term[:STEM] for term in terms(word)})
    return CaseQuery(text=" ".join(kept))


def by_text(case: Case) -> CaseQuery:
    """What the reporter wrote: title and symptom."""
    return CaseQuery(text=f"{case.title}. {case.symptom}")


def by_signals(case: Case) -> CaseQuery:
    """Family and signals, the cause unknown."""
    return CaseQuery(families=(case.family,), signals=tuple(case.signals))


def by_candidates(case: Case) -> CaseQuery:
    """Signals and three candidates for the cause: the right one and the two after it in the taxonomy."""
    names = list(causes())
    place = names.index(case.cause)
    candidates = tuple(sorted(names[(place + step) % len(names)] for step in range(DECOYS + 1)))
    return CaseQuery(causes=candidates, families=(case.family,), signals=tuple(case.signals))


WAYS: Mapping[str, Callable[[Case], CaseQuery]] = {
    "symptom alone": by_symptom,
    "symptom, words of the cause's name removed": by_masked_symptom,
    "title and symptom": by_text,
    "family and signals": by_signals,
    "signals and three candidate causes": by_candidates,
}


def _place(found: Sequence[str], cause: str) -> int:
    return next((place for place, name in enumerate(found, start=1) if name == cause), 0)
