"""Signature ranking: how far a case agrees with the causes, mechanisms and families of the findings."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from case_library.cards import CaseCard
from case_library.lexicon import search_terms
from case_library.query import CaseQuery

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
    """Agreement of one case; ``families`` are those of the causes asked for."""
    if query.causes and card.cause not in query.causes:
        return _compare_family(query, card, families)
    if query.mechanisms and card.mechanism in query.mechanisms:
        return SignatureMatch(SAME_MECHANISM, f"same cause {card.cause} and mechanism {card.mechanism}")
    if not query.causes:
        return _compare_family(query, card, families)
    if not query.mechanisms:
        return SignatureMatch(SAME_CAUSE, f"same cause {card.cause}")
    if not card.mechanism:
        return SignatureMatch(SAME_CAUSE_MECHANISM_UNSTATED, f"same cause {card.cause}, its mechanism is not stated")
    reason = f"same cause {card.cause} by another mechanism, {card.mechanism}"
    return SignatureMatch(SAME_CAUSE_OTHER_MECHANISM, reason, f"another mechanism, {card.mechanism}")


def _compare_family(query: CaseQuery, card: CaseCard, families: Collection[str]) -> SignatureMatch:
    if card.family in query.families and not query.causes:
        return SignatureMatch(SAME_FAMILY_ASKED, f"same family {card.family}")
    if card.family in query.families or card.family in families:
        reason = f"same family {card.family}, another cause {card.cause}"
        return SignatureMatch(SAME_FAMILY_IMPLIED, reason, f"another cause, {card.cause}" if query.causes else "")
    return SignatureMatch(0.0, conflict=f"another family, {card.family}" if query.has_signature else "")


def shared_signals(query: Collection[str], card: CaseCard, rarity: Callable[[str], float]) -> tuple[str, ...]:
    """The case's signals of which the query terms cover at least ``SIGNAL_SHARE`` by rarity."""
    return tuple(signal for signal in card.signals if _covered(signal, query, rarity) >= SIGNAL_SHARE)


def _covered(signal: str, query: Collection[str], rarity: Callable[[str], float]) -> float:
    weights = {term: rarity(term) for term in search_terms(signal)}
    total = sum(weights.values())
    return sum(weight for term, weight in weights.items() if term in query) / total if total else 0.0
