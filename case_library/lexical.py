"""Lexical ranking: Okapi BM25 (Robertson and Zaragoza 2009, eq. 3.15) and the share of a query that a case covers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

K1 = 1.2
B = 0.75


@dataclass(frozen=True)
class LexicalMatch:
    """One case against a query; ``bm25`` orders, ``gain`` is the rarity of the matched terms in nats."""

    bm25: float
    gain: float
    matched: tuple[str, ...]


@dataclass
class LexicalIndex:
    """BM25 over documents given as term counts by id."""

    documents: Mapping[str, Mapping[str, int]]
    _frequency: Counter[str] = field(init=False)
    _mean_length: float = field(init=False)

    def __post_init__(self) -> None:
        self._frequency = Counter(term for counts in self.documents.values() for term in counts)
        lengths = [sum(counts.values()) for counts in self.documents.values()]
        self._mean_length = sum(lengths) / max(len(lengths), 1)

    def rarity(self, term: str) -> float:
        """How much a term tells, in nats: near 0 when most cases have it, highest when none has."""
        return self._rarity(self._frequency[term])

    @property
    def rarity_of_one(self) -> float:
        """The rarity of a term that only one case has: the unit in which libraries of any size can be compared."""
        return self._rarity(1)

    def _rarity(self, seen: int) -> float:
        return math.log(1 + (len(self.documents) - seen + 0.5) / (seen + 0.5))

    def rank(self, query: Sequence[str]) -> dict[str, LexicalMatch]:
        """Every document that shares a term with the query."""
        weights = {term: self.rarity(term) for term in dict.fromkeys(query) if term in self._frequency}
        matches: dict[str, LexicalMatch] = {}
        for name, counts in self.documents.items():
            shared = [term for term in weights if term in counts]
            if shared:
                matches[name] = self._match(counts, shared, weights)
        return matches

    def _match(self, counts: Mapping[str, int], shared: list[str], weights: Mapping[str, float]) -> LexicalMatch:
        norm = K1 * (1 - B + B * sum(counts.values()) / self._mean_length)
        bm25 = sum(weights[term] * counts[term] * (K1 + 1) / (counts[term] + norm) for term in shared)
        strongest = tuple(sorted(shared, key=lambda term: (-weights[term], term)))
        return LexicalMatch(bm25, sum(weights[term] for term in shared), strongest)
