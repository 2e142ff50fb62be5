"""Which causes the words of a question speak for: the cases vote, and so do the taxonomy's own words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from case_library.cards import cause_text
from case_library.lexical import LexicalIndex, Scores
from case_library.lexicon import search_terms

VOTERS = 3  # the best cases of a cause; the mean over all would favour causes whose cases are much alike
TAXONOMY_WEIGHT = 0.5


class CauseVotes:
    """The vote over the causes of the cases of one library; ``causes`` names the cause of each row."""

    def __init__(self, causes: Sequence[str], library: LexicalIndex) -> None:
        self.names = sorted(set(causes))
        place = {cause: number for number, cause in enumerate(self.names)}
        self.of_row: NDArray[np.int64] = np.array([place[cause] for cause in causes], dtype=np.int64)
        self._members = [np.flatnonzero(self.of_row == number) for number in range(len(self.names))]
        texts = [_counts(cause_text(cause)) for cause in self.names]
        self._taxonomy = LexicalIndex(texts, rarity=library.rarity)

    def count(self, query: Sequence[str], bm25: Scores) -> Scores:
        """One number from 0 to 1 per cause of ``names``; rows that may not vote have a ``bm25`` of 0."""
        best = np.array([_mean_of_best(bm25[rows]) for rows in self._members])
        return scaled(scaled(best) + TAXONOMY_WEIGHT * scaled(self._taxonomy.score(query).bm25))


def scaled(scores: Scores) -> Scores:
    """The scores over the greatest of them, so that it is 1; all 0 if none is above."""
    top = float(scores.max(initial=0.0))
    return scores / top if top > 0 else np.zeros_like(scores)


def _mean_of_best(scores: Scores) -> float:
    return float(np.sort(scores)[-VOTERS:].sum()) / min(VOTERS, len(scores))


def _counts(text: str) -> dict[str, float]:
    counts: dict[str, float] = {}
    for term in search_terms(text):
        counts[term] = counts.get(term, 0.0) + 1.0
    return counts
