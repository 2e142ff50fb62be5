"""The library in memory with any of its cases left out: as if that case had never been indexed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from case_library.cards import CaseCard, card_of, document
from case_library.embedding import HashedTextEmbedding, Vector, bucket_counts
from case_library.embedding_choice import TextEmbedding
from case_library.fusion import Weights
from case_library.ranker import CaseRanker
from case_library.schema import Case


@dataclass(frozen=True)
class Vectors:
    """The vector ranker without a store: exact cosine to every case, ``matrix`` of shape ``(cases, dimension)``."""

    ids: Sequence[str]
    embed: Callable[[str], Vector]
    matrix: NDArray[np.float32]

    def nearest(self, text: str, limit: int) -> Mapping[str, float]:
        """Cosine of the nearest cases by id."""
        cosine = self.matrix @ self.embed(text)
        best = np.argsort(-cosine, kind="stable")[:limit]
        return {self.ids[row]: float(cosine[row]) for row in best}


class Library:
    """Cases ready to be ranked, all of them or all but one; ``embedding`` stands in for the hashed one."""

    def __init__(self, cases: Sequence[Case], embedding: TextEmbedding | None = None) -> None:
        self.cases = cases
        self._cards: list[CaseCard] = [card_of(case) for case in cases]
        self._counts = np.array([bucket_counts(document(case)) for case in cases])
        self._embedding = embedding
        self._matrix = np.array(embedding([document(case) for case in cases])) if embedding else None
        self._known: dict[str, Vector] = {}  # by text: what another embedding gives does not depend on the cases

    def without(self, id: str, *weights: Weights) -> list[CaseRanker]:
        """One ranker for each of the weights; no weight, rarity, vote or vector in it knows the case of that id."""
        kept = [row for row, card in enumerate(self._cards) if card.id != id]
        cards = [self._cards[row] for row in kept]
        vectors, close_angle = self._vectors(kept)
        first = CaseRanker(cards, vectors.nearest, weights[0], close_angle)
        return [first, *(first.weighed(other) for other in weights[1:])]

    def _vectors(self, kept: Sequence[int]) -> tuple[Vectors, float]:
        ids = [self._cards[row].id for row in kept]
        if self._embedding is not None and self._matrix is not None:
            return Vectors(ids, self._embedded, self._matrix[kept]), self._embedding.close_angle
        hashed = HashedTextEmbedding.fit_counts(self._counts[kept])
        return Vectors(ids, lambda text: hashed([text])[0], hashed.weigh(self._counts[kept])), hashed.close_angle

    def _embedded(self, text: str) -> Vector:
        assert self._embedding is not None
        if text not in self._known:
            self._known[text] = self._embedding([text])[0]
        return self._known[text]
