"""Lexical ranking: Okapi BM25 (Robertson and Zaragoza 2009, eq. 3.15) and the rarity of what a document shares."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

K1 = 1.2
B = 0.75
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class LexicalScores:
    """All documents against a query, shape ``(documents,)``: ``bm25`` orders, ``gain`` is the rarity shared in nats."""

    bm25: Scores
    gain: Scores


class LexicalIndex:
    """BM25 over documents given as how often each has a term; ``rarity`` may come from another, larger index."""

    def __init__(self, documents: Sequence[Mapping[str, float]], rarity: Callable[[str], float] | None = None) -> None:
        self.size = len(documents)
        self.frequency = Counter(term for counts in documents for term in counts)
        self.rarity = rarity or self._own_rarity
        self._postings = _postings(documents)

    @property
    def rarity_of_one(self) -> float:
        """The rarity of a term that only one document has: the unit in which libraries of any size can be compared."""
        return self._rarity(1)

    def score(self, query: Iterable[str]) -> LexicalScores:
        """Every document against the terms of a query; a repeated term counts once."""
        bm25, gain = np.zeros(self.size), np.zeros(self.size)
        for term in dict.fromkeys(query):
            if term in self._postings:
                rows, weights = self._postings[term]
                bm25[rows] += self.rarity(term) * weights
                gain[rows] += self.rarity(term)
        return LexicalScores(bm25, gain)

    def _own_rarity(self, term: str) -> float:
        """The information of a term in nats: near 0 when most documents have it, highest when none has."""
        return self._rarity(self.frequency[term])

    def _rarity(self, seen: int) -> float:
        return math.log(1 + (self.size - seen + 0.5) / (seen + 0.5))


def _postings(documents: Sequence[Mapping[str, float]]) -> dict[str, tuple[NDArray[np.int64], Scores]]:
    """By term: the rows that have it, and the part of BM25 that does not depend on the query."""
    lengths = np.array([sum(counts.values()) for counts in documents])
    norms = K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0)) if len(documents) else lengths
    counted: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for row, counts in enumerate(documents):
        for term, count in counts.items():
            counted[term][row] = count
    postings: dict[str, tuple[NDArray[np.int64], Scores]] = {}
    for term, by_row in counted.items():
        rows, times = np.array(list(by_row)), np.array(list(by_row.values()), dtype=np.float64)
        postings[term] = (rows, times * (K1 + 1) / (times + norms[rows]))
    return postings
