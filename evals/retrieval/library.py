"""The library in memory with any of its cases left out: as if that case had never been indexed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from case_library.cards import CaseCard, card_of, document
from case_library.embedding import HashedTextEmbedding, bucket_counts
from case_library.fusion import Weights
from case_library.ranker import CaseRanker
from case_library.schema import Case


@dataclass(frozen=True)
class Vectors:
    """The vector ranker without a store: exact cosine to every case, ``matrix`` of shape ``(cases, dimension)``."""

    ids: Sequence[str]
    embedding: HashedTextEmbedding
    matrix: NDArray[np.float32]

    def nearest(self, text: str, limit: int) -> Mapping[str, float]:
        """Cosine of the nearest cases by id."""
        cosine = self.matrix @ self.embedding([text])[0]
        best = np.argsort(-cosine, kind="stable")[:limit]
        return {self.ids[row]: float(cosine[row]) for row in best}


class Library:
    """Cases ready to be ranked, all of them or all but one."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = cases
        self._cards: list[CaseCard] = [card_of(case) for case in cases]
        self._counts = np.array([bucket_counts(document(case)) for case in cases])

    def without(self, id: str, *weights: Weights) -> list[CaseRanker]:
        """One ranker for each of the weights; no weight, rarity, vote or vector in it knows the case of that id."""
        kept = [row for row, card in enumerate(self._cards) if card.id != id]
        cards = [self._cards[row] for row in kept]
        embedding = HashedTextEmbedding.fit_counts(self._counts[kept])
        vectors = Vectors([card.id for card in cards], embedding, embedding.weigh(self._counts[kept]))
        first = CaseRanker(cards, vectors.nearest, weights[0])
        return [first, *(first.weighed(other) for other in weights[1:])]
