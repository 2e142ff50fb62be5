"""BM25 and the rarity of shared terms, and rankers fused into one similarity, strength and vote on the cause."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from case_library.retrieval.asked import Reading
from case_library.retrieval.query import cause_text
from case_library.retrieval.words import MARK, search_terms, thesaurus

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
        # The information of a term in nats: near 0 when most documents have it, highest when none has.
        self.rarity = rarity or (lambda term: self._rarity(self.frequency[term]))
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

    def _rarity(self, seen: int) -> float:
        return math.log(1 + (self.size - seen + 0.5) / (seen + 0.5))


def _postings(documents: Sequence[Mapping[str, float]]) -> dict[str, tuple[NDArray[np.int64], Scores]]:
    """By term: the rows that have it, and the part of BM25 that does not depend on the query."""
    lengths = np.array([sum(counts.values()) for counts in documents])
    norms = K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0)) if len(documents) else lengths
    counted: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for row, counts in enumerate(documents):
        for term, count in counts.items():
            counted[term][row] = count * (K1 + 1) / (count + norms[row])
    return {term: (np.array(list(by_row)), np.array(list(by_row.values()))) for term, by_row in counted.items()}


VOTERS = 3  # the best cases of a cause; the mean over all would favour causes whose cases are much alike
TAXONOMY_WEIGHT = 0.75
# In the rarity of a term that only one case has, so that they hold for small and large libraries:
LITTLE_ASKED = 1.8  # a query of commoner words than this cannot be covered fully
MUCH_ASKED = 4.6  # of a long text no other case shares more than a part, and that is enough
TEXT_WITH_SIGNATURE = 0.4  # how much of the rest text may add when a signature is given
# Parts of the strength of a text, from a logistic regression over the lines of `asked.txt`, each read without a fifth
# of the lines, and the development questions of `evals/retrieval`, one question that no case answers counting one and a
# half times one in scope; the positive weights made to add up to 1. The cosine of hashed words had no weight in it.
CONCEPT_PART = 0.13
PACE_PART = 0.14
SCOPE_PART = 0.73
OTHER_TOPIC = 0.2  # taken away where the text names a topic that no case is about
# Added for words that a case has and no line of `asked.txt`, such as identifiers and a team's own names: enough for a
# text of nothing else. The regression gives it no weight; with it and WEAK at 0.4 as many lines are kept and abstained
# on as without it and WEAK at 0.35.
OWN_WORDS_PART = 0.45
MANY_CONCEPTS = 2  # more say nothing more
WEAK = 0.4  # nine in ten lines of [none] are below it, each read without a fifth of the lines
STRONG = 0.45  # between the two the vote has to prefer some cause
UNDECIDED = 0.95  # the third cause's vote over the first's, above which the vote prefers none
SHOWN = 3  # the hits people look at
TAIL = 0.5  # a hit below this share of the best is not shown


class CauseVotes:
    """The vote over the causes of the cases of one library; ``causes`` names the cause of each row."""

    def __init__(self, causes: Sequence[str], library: LexicalIndex) -> None:
        self.names = sorted(set(causes))
        place = {cause: number for number, cause in enumerate(self.names)}
        self.of_row: NDArray[np.int64] = np.array([place[cause] for cause in causes], dtype=np.int64)
        self._members = [np.flatnonzero(self.of_row == number) for number in range(len(self.names))]
        spoken = {cause: [MARK + concept for concept in of] for cause, of in thesaurus().causes.items()}
        texts = [Counter([*search_terms(cause_text(cause)), *spoken.get(cause, ())]) for cause in self.names]
        self._taxonomy = LexicalIndex(texts, rarity=library.rarity)

    def count(self, query: Sequence[str], bm25: Scores) -> Scores:
        """One number from 0 to 1 per cause of ``names``; rows that may not vote have a ``bm25`` of 0."""
        best = np.array([np.sort(bm25[rows])[-VOTERS:].sum() / min(VOTERS, len(rows)) for rows in self._members])
        return scaled(scaled(best) + TAXONOMY_WEIGHT * scaled(self._taxonomy.score(query).bm25))

    def read(self, reading: Reading) -> Scores:
        """The fit of a question to each cause of ``names``, from 0 to 1."""
        fit = dict(zip(reading.causes, reading.fit, strict=True))
        return scaled(np.array([max(fit.get(cause, 0.0), 0.0) for cause in self.names]))


def scaled(scores: Scores) -> Scores:
    """Return the scores over the greatest of them, so that it is 1; all 0 if none is above."""
    top = float(scores.max(initial=0.0))
    return scores / top if top > 0 else np.zeros_like(scores)


@dataclass(frozen=True)
class Weights:
    """Weights of the rankers; 0 leaves one out."""

    words: float = 0.5
    vector: float = 0.25
    votes: float = 1.0
    questions: float = 1.0
    signature: float = 1.0
    spread: bool = True  # the best case of each of the first causes in front


@dataclass(frozen=True)
class Strength:
    """Nearness to a query, 0 to 1; ``undecided``, the third cause's vote over the first's, is 1 without a leader."""

    total: float
    text: float
    signature: float
    undecided: float


def covered(gain: float, asked: float) -> float:
    """The share of the asked rarity that a case has, from 0 to 1; rarity in that of a term that one case has."""
    return min(gain / min(max(asked, LITTLE_ASKED), MUCH_ASKED), 1.0)


def blended(parts: Mapping[str, Scores], weights: Weights) -> Scores:
    """The scores of words, vectors and votes, each over its greatest, weighed and summed; the greatest sum is 1."""
    total = weights.words * scaled(parts["words"]) + weights.vector * scaled(parts["vector"])
    total += weights.votes * scaled(parts["votes"]) + weights.questions * scaled(parts["questions"])
    return scaled(total)


@dataclass(frozen=True)
class TextParts:
    """The parts of the nearness to a text.

    ``share`` of its rarity that a case has; number of ``concepts``; whether it is ``of_pace`` or of an
    ``other_topic``; ``scope`` and ``familiar`` of its ``Reading``.
    """

    share: float = 0.0
    concepts: int = 0
    of_pace: bool = False
    other_topic: bool = False
    scope: float = 0.0
    familiar: float = 1.0

    @property
    def strength(self) -> float:
        """The nearness to the text, 0 to 1."""
        near = OWN_WORDS_PART * self.share * (1 - self.familiar)
        near += CONCEPT_PART * min(self.concepts, MANY_CONCEPTS) / MANY_CONCEPTS
        near += PACE_PART * self.of_pace + SCOPE_PART * min(self.scope, 1.0)
        return min(max(near - OTHER_TOPIC * self.other_topic, 0.0), 1.0)


def strength_of(text: float, agreement: Scores, votes: Scores, has_signature: bool) -> Strength:
    """The strength of a query from that of its text, the agreement of each case's signature and the vote of causes."""
    signature = float(agreement.max(initial=0.0)) if has_signature else 0.0
    undecided = float(np.sort(votes)[-3]) if len(votes) > 2 else 0.0
    total = signature + (1 - signature) * TEXT_WITH_SIGNATURE * text if has_signature else text
    return Strength(total, text, signature, undecided)


def similarity(text: Scores, agreement: Scores, has_signature: bool) -> Scores:
    """Similarity of each case from 0 to 1: its text, which adds to a signature a part of what that leaves."""
    return agreement + (1 - agreement) * TEXT_WITH_SIGNATURE * text if has_signature else text


def spread(order: Sequence[int], causes: Sequence[str]) -> list[int]:
    """The order with the best case of each of the first ``SHOWN`` causes in front."""
    first: dict[str, int] = {}
    for row, cause in zip(order, causes, strict=True):
        first.setdefault(cause, row)
    front = list(first.values())[:SHOWN]
    return [*front, *(row for row in order if row not in front)]


def abstention(strong: Strength, other_topic: str = "") -> str:
    """Why the best cases must not be shown; empty if they may."""
    if strong.total < WEAK:
        near = f"No case is close: the best reaches a similarity of {strong.total:.2f}, and {WEAK:.2f} is needed"
        return f"{near}; the question seems to be about {other_topic}." if other_topic else f"{near}."
    if strong.total < STRONG and strong.undecided > UNDECIDED and strong.signature == 0:
        return f"The best cases disagree on the cause at a similarity of {strong.total:.2f}; say more of what was seen."
    return ""
