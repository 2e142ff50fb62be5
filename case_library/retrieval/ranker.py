"""The ranker of cases: the agreement of signatures, words, vectors and votes, and what a hit shares with the query."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from case_library.retrieval import fusion
from case_library.retrieval.asked import CauseReader, Reading
from case_library.retrieval.fitted import cause_reader
from case_library.retrieval.fusion import LexicalIndex, Scores, Strength, Weights
from case_library.retrieval.query import CaseCard, CaseHit, CaseQuery, Recall, cause_text
from case_library.retrieval.words import Question, Vocabulary, lexicon, read_question, search_terms, terms

SAME_MECHANISM = 1.0
SAME_CAUSE = 0.8
SAME_CAUSE_MECHANISM_UNSTATED = 0.7
SAME_CAUSE_OTHER_MECHANISM = 0.6
SAME_FAMILY_ASKED = 0.5
SAME_FAMILY_IMPLIED = 0.25
SIGNAL_SHARE = 0.5  # of a signal's rarity; below it, the words in common are chance


@dataclass(frozen=True)
class SignatureMatch:
    """Agreement from 0 to 1, the words for it, and what of the query the case contradicts."""

    score: float
    reason: str = ""
    conflict: str = ""


def compare_signature(query: CaseQuery, card: CaseCard, families: Collection[str]) -> SignatureMatch:
    """Return the agreement of one case; ``families`` are those of the causes asked for."""
    cause_fits = not query.causes or card.cause in query.causes
    if cause_fits and card.mechanism in query.mechanisms:
        return SignatureMatch(SAME_MECHANISM, f"same cause {card.cause} and mechanism {card.mechanism}")
    if query.causes and cause_fits:
        same = f"same cause {card.cause}"
        if not query.mechanisms:
            return SignatureMatch(SAME_CAUSE, same)
        if not card.mechanism:
            return SignatureMatch(SAME_CAUSE_MECHANISM_UNSTATED, f"{same}, its mechanism is not stated")
        another = f"another mechanism, {card.mechanism}"
        return SignatureMatch(SAME_CAUSE_OTHER_MECHANISM, f"{same} by {another}", another)
    if card.family in query.families and not query.causes:
        return SignatureMatch(SAME_FAMILY_ASKED, f"same family {card.family}")
    if card.family in query.families or card.family in families:
        reason = f"same family {card.family}, another cause {card.cause}"
        return SignatureMatch(SAME_FAMILY_IMPLIED, reason, f"another cause, {card.cause}" if query.causes else "")
    return SignatureMatch(0.0, conflict=f"another family, {card.family}" if query.has_signature else "")


def shared_signals(query: Collection[str], card: CaseCard, rarity: Callable[[str], float]) -> tuple[str, ...]:
    """Return the case's signals of which the query terms cover at least ``SIGNAL_SHARE`` by rarity."""

    def share(signal: str) -> float:
        weights = {term: rarity(term) for term in search_terms(signal)}
        return sum(each for term, each in weights.items() if term in query) / (sum(weights.values()) or 1.0)

    return tuple(signal for signal in card.signals if share(signal) >= SIGNAL_SHARE)


_WORDS = {
    "NVIDIA": "nvidia cuda nccl a100 h100 h200 h800 a800 b200 gb200 v100 p100 t4 l4 l40 rtx gtx geforce tesla dgx hgx",
    "AMD": "amd rocm rccl hip mi100 mi200 mi210 mi250 mi250x mi300 mi300x mi300a mi325x mi350x mi355x radeon",
    "Ascend": "ascend npu cann hccl atlas",
    "Google": "tpu tpus",
}
_VENDOR = {word: vendor for vendor, words in _WORDS.items() for word in words.split()}
_NAME = re.compile(r"[a-z]+[0-9]*[a-z]*")


def vendors(text: str) -> frozenset[str]:
    """Return the makers of the devices that a text names."""
    return frozenset(_VENDOR[word] for word in _NAME.findall(text.lower()) if word in _VENDOR)


def vendor_conflict(asked: str, setting: str) -> str:
    """Return a phrase if both texts name a maker and share none, else nothing."""
    wanted, there = vendors(asked), vendors(setting)
    if not wanted or not there or wanted & there:
        return ""
    return f"on {' and '.join(sorted(there))}, not {' or '.join(sorted(wanted))}"


WORDS_SHOWN = 5
Rarity = Callable[[str], float]


def why(question: Question, card: CaseCard, reasons: Sequence[str], places: Mapping[str, int], rarity: Rarity) -> str:
    """The reasons, the rarest words that question and case share, and the place each ranker gave the case."""
    shared = [term for term in question.terms if term in card.counts]
    shared.sort(key=lambda term: (-rarity(term), term))
    words: list[str] = []
    for word in (question.shown[term] for term in shared):
        if not any(word.lower() in named.lower() for named in words):  # a part of a word that is named already
            words.append(word)
    parts = [*reasons, *(["words in common: " + ", ".join(words[:WORDS_SHOWN])] if words else [])]
    ranked = ", ".join(f"{ranker} {place}" for ranker, place in places.items())
    return "; ".join([*parts, f"ranked {ranked}"] if ranked else parts)


NEAREST = 200
NOTHING_ASKED = Reading((), np.zeros(0), 0.0, 0.0)
Nearest = Callable[[str, int], Mapping[str, float]]  # cosine of the nearest cases by id, of a text and at most so many


@dataclass(frozen=True)
class Ranking:
    """The result for one query by case, ``matches`` by cause and mechanism; ``order`` holds rows, best first."""

    order: tuple[int, ...]
    similarity: Scores
    strength: Strength
    matches: Sequence[SignatureMatch]
    parts: Mapping[str, Scores]


class CaseRanker:
    """Answers queries over the cards given; ``nearest`` is the vector ranker over the same cases."""

    def __init__(
        self,
        cards: Sequence[CaseCard],
        nearest: Nearest,
        weights: Weights | None = None,
        reader: CauseReader | None = None,
    ) -> None:
        self._cards = cards
        self._row = {card.id: row for row, card in enumerate(cards)}
        self._nearest = nearest
        self._weights = weights or Weights()
        self._reader = reader
        self._lexical = LexicalIndex([card.counts for card in cards])
        self._votes = fusion.CauseVotes([card.cause for card in cards], self._lexical)
        self._vocabulary = Vocabulary(self._lexical.frequency, lexicon().parts)
        self._places = LexicalIndex([dict.fromkeys(terms(card.setting), 1.0) for card in cards])
        self._private = np.array([card.private for card in cards])
        kinds = {(card.cause, card.mechanism): card for card in cards}  # all that a signature looks at
        self._kinds = list(kinds.values())
        number = {kind: place for place, kind in enumerate(kinds)}
        self._kind_of = np.array([number[card.cause, card.mechanism] for card in cards])

    def weighed(self, weights: Weights) -> CaseRanker:
        """The same cases under other weights."""
        other = copy(self)
        other._weights = weights
        return other

    def reading(self, reader: CauseReader) -> CaseRanker:
        """The same cases with another reader of questions."""
        other = copy(self)
        other._reader = reader
        return other

    def answer(self, query: CaseQuery, limit: int, without: Collection[str] = ()) -> Recall:
        """The most similar cases, at most ``limit``, or why there are none."""
        question = read_question(query.words, self._vocabulary)
        if not (question.terms or query.has_signature or self._read(question).scope > 0):
            return Recall((), "The question names no symptom, signal or cause to compare with.")
        ranking = self.rank(query, question, without)
        reason = fusion.abstention(ranking.strength, question.other_topic)
        if reason:
            return Recall((), reason)
        floor = fusion.TAIL * max((ranking.similarity[row] for row in ranking.order[:1]), default=0.0)
        chosen = [row for row in ranking.order if ranking.similarity[row] >= floor][: max(limit, 0)]
        return Recall(tuple(self._hit(ranking, row, query, question) for row in chosen))

    def causes(self, query: CaseQuery, limit: int) -> list[str]:
        """The causes of the best cases, best first, even where ``answer`` would abstain."""
        order = self.rank(query, read_question(query.words, self._vocabulary)).order
        return [self._cards[row].cause for row in order[:limit]]

    def strength(self, query: CaseQuery) -> Strength:
        """Nearness of the library to a query, by which abstention is decided."""
        return self.rank(query, read_question(query.words, self._vocabulary)).strength

    def rank(self, query: CaseQuery, question: Question, without: Collection[str] = ()) -> Ranking:
        """Every case that may be shown, best first, with the scores of each ranker."""
        allowed = np.array([card.id not in without for card in self._cards])
        asked = question
        if not asked.terms:  # the taxonomy's words then order cases of equal signature
            asked = read_question("\n".join((*map(cause_text, query.causes), *query.mechanisms)), self._vocabulary)
        families = {card.family for card in self._kinds if card.cause in query.causes}
        matches = [compare_signature(query, card, families) for card in self._kinds]
        agreement = np.array([match.score for match in matches])[self._kind_of] * self._weights.signature
        signed = query.has_signature and self._weights.signature > 0
        lexical = self._lexical.score(asked.terms)
        bm25, gain = lexical.bm25 * allowed, lexical.gain * allowed
        cosine = self._cosine(asked) * allowed
        reading = self._read(question)
        votes = self._votes.count(asked.terms, bm25)
        questions = self._votes.read(reading)
        of_cause = {"votes": votes, "questions": questions}
        parts = {"signature": agreement, "words": bm25, "vector": cosine}
        parts |= {name: each[self._votes.of_row] * allowed for name, each in of_cause.items()}
        blend = fusion.blended(parts, self._weights)
        near = self._nearness(question, gain, reading)
        strong = fusion.strength_of(near, agreement * allowed, fusion.scaled(votes + questions), signed)
        close = fusion.similarity(blend * strong.text, agreement, signed) * allowed
        order = self._order(close, blend, query)
        if question.terms and not query.causes and self._weights.spread:
            order = fusion.spread(order, [self._cards[row].cause for row in order])
        return Ranking(tuple(order), close, strong, matches, parts)

    def _read(self, question: Question) -> Reading:
        if not question.text:
            return NOTHING_ASKED  # and the reader is not loaded
        return (self._reader or cause_reader()).read(question.text)

    def _nearness(self, question: Question, gain: Scores, reading: Reading) -> float:
        if not question.terms and reading.scope <= 0:
            return 0.0
        unit = self._lexical.rarity_of_one
        asked = sum(self._lexical.rarity(term) for term in question.terms) / unit
        share = fusion.covered(float(gain.max(initial=0.0)) / unit, asked)
        of = (question.concepts, question.of_pace, bool(question.other_topic))
        return fusion.TextParts(share, *of, reading.scope, reading.familiar).strength

    def _cosine(self, asked: Question) -> Scores:
        found = np.zeros(len(self._cards))
        if asked.terms and self._weights.vector:
            for name, value in self._nearest(asked.text, NEAREST).items():
                found[self._row[name]] = max(value, 0.0)
        return found

    def _order(self, close: Scores, blend: Scores, query: CaseQuery) -> list[int]:
        setting = self._places.score(terms(f"{query.framework} {query.hardware}")).gain
        keys = (-blend, -setting, ~self._private, -np.round(close, 3))  # the last decides first
        return [int(row) for row in np.lexsort(keys) if close[row] > 0]

    def _hit(self, ranking: Ranking, row: int, query: CaseQuery, question: Question) -> CaseHit:
        card = self._cards[row]
        match = ranking.matches[self._kind_of[row]]
        conflicts = (match.conflict, vendor_conflict(f"{query.framework} {query.hardware} {query.text}", card.setting))
        places = {
            ranker: 1 + int((scores > scores[row]).sum()) for ranker, scores in ranking.parts.items() if scores[row] > 0
        }
        return CaseHit(
            id=card.id,
            title=card.title,
            url=card.url,
            cause=card.cause,
            family=card.family,
            similarity=round(float(ranking.similarity[row]), 3),
            shared_signals=shared_signals(set(question.terms), card, self._lexical.rarity),
            why=why(question, card, [match.reason] if match.reason else [], places, self._lexical.rarity),
            private=card.private,
            conflicts=tuple(conflict for conflict in conflicts if conflict),
        )
