"""Why a case was found, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from case_library.cards import CaseCard
from case_library.question import Question

WORDS_SHOWN = 5
Rarity = Callable[[str], float]


def why(question: Question, card: CaseCard, reasons: Sequence[str], places: Mapping[str, int], rarity: Rarity) -> str:
    """The reasons given, the rarest words that question and case share, and the place each ranker gave the case."""
    shared = [term for term in question.terms if term in card.counts]
    shared.sort(key=lambda term: (-rarity(term), term))
    words: list[str] = []
    for word in (question.shown[term] for term in shared):
        if not any(word.lower() in told.lower() for told in words):  # a part of what is told already
            words.append(word)
    parts = [*reasons, *(["words in common: " + ", ".join(words[:WORDS_SHOWN])] if words else [])]
    ranked = ", ".join(f"{ranker} {place}" for ranker, place in places.items())
    return "; ".join([*parts, f"ranked {ranked}"] if ranked else parts)
