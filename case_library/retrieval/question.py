"""Misspelt words of a question, mended towards the words the library knows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from case_library.retrieval.lexicon import lexicon
from case_library.retrieval.words import surface_forms, terms

SHORTEST = 5  # letters; one wrong letter of a shorter word often makes another word
LONG = 9  # letters, from which two may be wrong


class Vocabulary:
    """The known words, trimmed, with how many documents use each."""

    def __init__(self, uses: Mapping[str, int], also: Iterable[str] = ()) -> None:
        self._uses = {**dict.fromkeys(also, 1), **uses}
        self._alike: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        for word in self._uses:
            if word.isalpha():
                self._alike[word[0], len(word)].append(word)

    def mend(self, word: str) -> str:
        """The known word that an unknown one most likely stands for; the word itself if it is known or unlike all."""
        if word in self._uses or len(word) < SHORTEST or not word.isalpha():
            return word
        allowed = 2 if len(word) >= LONG else 1
        close = [
            (wrong, -self._uses[known], known)
            for size in range(len(word) - allowed, len(word) + allowed + 1)
            for known in self._alike.get((word[0], size), ())
            if (wrong := edits(word, known, allowed)) <= allowed
        ]
        return min(close)[2] if close else word


def edits(one: str, other: str, most: int) -> int:
    """Letters to insert, drop, change or swap with a neighbour to make one word the other; ``most + 1`` if more."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        current = [row]
        for column, facing in enumerate(other, start=1):
            cost = min(current[-1] + 1, last[column] + 1, last[column - 1] + (letter != facing))
            if row > 1 < column and letter == other[column - 2] and one[row - 2] == facing:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        if min(current) > most:
            return most + 1
        before, last = last, current
    return min(last[-1], most + 1)


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
