"""The library in memory with any of its cases left out: as if that case had never been indexed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from case_library.retrieval.embedding_choice import TextEmbedding
from case_library.retrieval.fusion import Weights
from case_library.retrieval.hashed_embedding import HashedTextEmbedding, Vector, text_counts
from case_library.retrieval.query import CaseCard, CaseQuery, card_of, document
from case_library.retrieval.ranker import CaseRanker
from case_library.retrieval.words import terms
from case_library.schema import Case
from evals.retrieval.questions import UserQuestion
from tools.knowledge.taxonomy import causes

Nearest = Callable[[str, int], Mapping[str, float]]


def _nearest(ids: Sequence[str], embed: Callable[[str], Vector], matrix: NDArray[np.float32]) -> Nearest:
    """The vector ranker without a store: exact cosine to every case; the matrix has a row for each."""

    def nearest(text: str, limit: int) -> Mapping[str, float]:
        cosine = matrix @ embed(text)
        best = np.argsort(-cosine, kind="stable")[:limit]
        return {ids[row]: float(cosine[row]) for row in best}

    return nearest


class Library:
    """Cases ready to be ranked, all of them or all but one; ``embedding`` stands in for the hashed one."""

    def __init__(self, cases: Sequence[Case], embedding: TextEmbedding | None = None) -> None:
        self.cases = cases
        self._cards: list[CaseCard] = [card_of(case) for case in cases]
        self._counts = text_counts([document(case) for case in cases])
        self._other: tuple[Callable[[str], Vector], NDArray[np.float32]] | None = None
        if embedding is not None:
            matrix = np.array(embedding([document(case) for case in cases]))
            self._other = cache(lambda text: embedding([text])[0]), matrix

    def without(self, id: str, *weights: Weights) -> list[CaseRanker]:
        """One ranker for each of the weights; no weight, rarity, vote or vector in it knows the case of that id."""
        kept = [row for row, card in enumerate(self._cards) if card.id != id]
        cards = [self._cards[row] for row in kept]
        first = CaseRanker(cards, self._vectors(kept), weights[0])
        return [first, *(first.weighed(other) for other in weights[1:])]

    def _vectors(self, kept: Sequence[int]) -> Nearest:
        ids = [self._cards[row].id for row in kept]
        if self._other is not None:
            embed, matrix = self._other
            return _nearest(ids, embed, matrix[kept])
        hashed = HashedTextEmbedding.fit(self._counts[kept])
        return _nearest(ids, lambda text: hashed([text])[0], hashed.weigh(self._counts[kept]))


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
        """Return whether the right cause was among the first three; an abstention finds nothing."""
        return 0 < self.place <= TOP


def ask(ranker: CaseRanker, query: CaseQuery, cause: str) -> Outcome:
    """Ask once, with and without abstention."""
    hits = ranker.answer(query, SHOWN).hits
    place = _place([hit.cause for hit in hits], cause)
    return Outcome(cause, place, forced_place(ranker, query, cause), abstained=not hits)


def forced_place(ranker: CaseRanker, query: CaseQuery, cause: str) -> int:
    """The place of the first case of a cause, abstention and tail left aside; 0 if it is not among the first ten."""
    return _place(ranker.causes(query, SHOWN), cause)


def by_masked_symptom(case: Case) -> CaseQuery:
    """The symptom without any word like one in the name of its cause, family or mechanism."""
    named = {term[:STEM] for term in terms(" ".join((case.cause, case.family, case.mechanism or "")).replace("_", " "))}
    kept = (word for word in case.symptom.split() if not named & {term[:STEM] for term in terms(word)})
    return CaseQuery(text=" ".join(kept))


def by_candidates(case: Case) -> CaseQuery:
    """Signals and three candidates for the cause: the right one and the two after it in the taxonomy."""
    names = list(causes())
    place = names.index(case.cause)
    candidates = tuple(sorted(names[(place + step) % len(names)] for step in range(DECOYS + 1)))
    return CaseQuery(causes=candidates, families=(case.family,), signals=tuple(case.signals))


WAYS: Mapping[str, Callable[[Case], CaseQuery]] = {
    "symptom alone": lambda case: CaseQuery(text=case.symptom),
    "symptom, words of the cause's name removed": by_masked_symptom,
    "title and symptom": lambda case: CaseQuery(text=f"{case.title}. {case.symptom}"),
    "family and signals": lambda case: CaseQuery(families=(case.family,), signals=tuple(case.signals)),
    "signals and three candidate causes": by_candidates,
}
RANKED_APART = ("symptom alone", "title and symptom", "family and signals")  # asked with every ablation


def _place(found: Sequence[str], cause: str) -> int:
    return next((place for place, name in enumerate(found, start=1) if name == cause), 0)


ABLATIONS: Mapping[str, Weights] = {
    "all": Weights(),
    "words only": Weights(vector=0, votes=0, questions=0, signature=0),
    "vector only": Weights(words=0, votes=0, questions=0, signature=0),
    "votes only": Weights(words=0, vector=0, questions=0, signature=0),
    "questions only": Weights(words=0, vector=0, votes=0, signature=0),
    "without words": Weights(words=0),
    "without vector": Weights(vector=0),
    "without votes": Weights(votes=0),
    "without questions": Weights(questions=0),
    "without signature": Weights(signature=0),
    "without one case of each cause in front": Weights(spread=False),
}


@dataclass(frozen=True)
class Asked:
    """Outcomes of cases by way and of questions by half; places without abstention by ablation and set."""

    cases: Mapping[str, Sequence[Outcome]]
    questions: Mapping[str, Sequence[Outcome]]
    ablations: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)


def ask_all(library: Library, questions: Sequence[UserQuestion]) -> Asked:
    """Ask everything; a case asks rankers that never saw it."""
    ways: defaultdict[str, list[Outcome]] = defaultdict(list)
    places: dict[str, defaultdict[str, list[int]]] = {name: defaultdict(list) for name in ABLATIONS}
    for case in library.cases:
        rankers = dict(zip(ABLATIONS, library.without(case.id, *ABLATIONS.values()), strict=True))
        for way, query_of in WAYS.items():
            ways[way].append(ask(rankers["all"], query_of(case), case.cause))
        for name, ranker in rankers.items():
            for way in RANKED_APART:
                places[name][way].append(forced_place(ranker, WAYS[way](case), case.cause))
    rankers = dict(zip(ABLATIONS, library.without("", *ABLATIONS.values()), strict=True))
    halves: defaultdict[str, list[Outcome]] = defaultdict(list)
    for question in questions:
        query = CaseQuery(text=question.text)
        halves[question.half].append(ask(rankers["all"], query, question.cause))
        if question.cause:
            for name, ranker in rankers.items():
                places[name]["user questions"].append(forced_place(ranker, query, question.cause))
    return Asked(ways, halves, places)
