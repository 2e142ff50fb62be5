"""A question as the rankers read it: its search terms, mended where misspelt, each with a word to show for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from case_library.lexicon import lexicon
from case_library.spelling import Vocabulary
from case_library.words import surface_forms, terms


@dataclass(frozen=True)
class Question:
    """``shown`` has a readable word for each search term of ``terms``; ``text`` is what was asked.

    ``concepts`` counts those among the terms; ``other_topic`` names what the text speaks of that no case is about;
    ``of_pace`` is true if it has a word for how long something takes.
    """

    text: str
    terms: tuple[str, ...]
    shown: Mapping[str, str]
    concepts: int = 0
    other_topic: str = ""
    of_pace: bool = False


def read_question(text: str, vocabulary: Vocabulary) -> Question:
    """The question of a text, its unknown words mended towards the vocabulary."""
    readable = surface_forms(text)
    known = lexicon()
    concepts = known.concepts(text, vocabulary.mend)
    words = {vocabulary.mend(term): readable[term] for term in terms(text)}
    other = next(iter(known.other_topics(text)), "")
    return Question(text, (*words, *concepts), {**words, **concepts}, len(concepts), other, known.speaks_of_pace(text))
