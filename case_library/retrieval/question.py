"""A question as search terms, with misspelt words corrected towards the words the library knows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from case_library.retrieval.lexicon import lexicon
from case_library.retrieval.words import surface_forms, terms

SHORTEST = 5  # letters; one wrong letter of a shorter word often makes another word
LIKENESS = 0.82  # of difflib: about one wrong letter in six, two in eleven


class Vocabulary:
    """The known words, trimmed, with how many documents use each."""

    def __init__(self, uses: Mapping[str, int], also: Iterable[str] = ()) -> None:
        self._uses = {**dict.fromkeys(also, 1), **uses}
        self._alike: defaultdict[str, list[str]] = defaultdict(list)
        for word in sorted(self._uses, key=lambda word: (-self._uses[word], word)):
            if word.isalpha():
                self._alike[word[0]].append(word)

    def correct(self, word: str) -> str:
        """The known word that an unknown one most likely stands for; the word itself if it is known or unlike all."""
        if word in self._uses or len(word) < SHORTEST or not word.isalpha():
            return word
        near = (known for known in self._alike[word[0]] if abs(len(known) - len(word)) <= 2)
        return next(iter(get_close_matches(word, near, 1, LIKENESS)), word)


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
    """The question of a text, its unknown words corrected towards the vocabulary."""
    readable = surface_forms(text)
    known = lexicon()
    concepts = known.concepts(text, vocabulary.correct)
    words = {vocabulary.correct(term): readable[term] for term in terms(text)}
    other = next(iter(known.other_topics(text)), "")
    return Question(text, (*words, *concepts), {**words, **concepts}, len(concepts), other, known.speaks_of_pace(text))
