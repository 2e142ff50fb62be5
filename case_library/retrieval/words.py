"""Text to search terms: words, the concepts behind them, and misspelt words corrected."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from case_library.retrieval.thesaurus import UNSPACED, Thesaurus, parse_thesaurus

_TOKEN = re.compile(r"[A-Za-z][A-Za-z0-9_]*|\d+[A-Za-z][A-Za-z0-9]*")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+[A-Za-z]*")
_ACRONYMS = re.compile(r"([A-Z]{2,})s")  # several of an acronym: GPUs
ONE_WORD = 4  # letters; shorter names of mixed case are one word: RoCE, NaN, NVMe
MAX_TEXT = 20_000
WORDS_KEPT = 1 << 14  # words whose parts are kept, since most words occur again and again


@cache
def filler() -> frozenset[str]:
    """Return the words that say nothing in a search, in several languages."""
    lines = files("case_library.retrieval").joinpath("filler.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def terms(text: str) -> list[str]:
    """Search terms of a text in order, repeated as often as they occur; longer text than ``MAX_TEXT`` is cut."""
    return [form for token in _tokens(text) for form in _forms(token)]


def surface_forms(text: str) -> dict[str, str]:
    """For each search term of a text a word that a person can read; the whole word where a part gave the term too."""
    words = _tokens(text)
    parts = {trim(part): part for token in reversed(words) for part in reversed(_parts(token))}
    return parts | {trim(token.lower().strip("_")): token.strip("_") for token in words}


def pieces(text: str) -> list[str]:
    """The trimmed parts of all words in order, fillers included, by which phrases are compared."""
    return [piece for token in _tokens(text) for piece in _trimmed(token)]


def _tokens(text: str) -> list[str]:
    text = text[:MAX_TEXT]
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
        text = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return _TOKEN.findall(text)


@lru_cache(WORDS_KEPT)
def _forms(token: str) -> tuple[str, ...]:
    parts = _parts(token)
    whole = parts[0] if _ACRONYMS.fullmatch(token) else token.lower().strip("_")
    forms = [whole] if len(parts) < 2 else [whole, *parts]
    return tuple(trim(form) for form in forms if len(form) > 1 and not form.isdigit() and form not in filler())


@lru_cache(WORDS_KEPT)
def _trimmed(token: str) -> tuple[str, ...]:
    return tuple(trim(part) for part in _parts(token))


@lru_cache(WORDS_KEPT)
def _parts(token: str) -> tuple[str, ...]:
    return tuple(piece.lower() for part in token.split("_") for piece in _split(part))


def _split(word: str) -> list[str]:
    if several := _ACRONYMS.fullmatch(word):
        return [several[1]]
    return [word] if len(word) <= ONE_WORD and word.isalpha() else _CAMEL.findall(word)


@lru_cache(WORDS_KEPT)
def trim(word: str) -> str:
    """A word without its commonest English endings, so that ``reads`` and ``reading`` meet."""
    for ending in ("ing", "ed", "es", "s"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= 4 and not stem.endswith("s"):
            return stem.removesuffix("e")
    return word.removesuffix("e") if len(word) > 4 else word


MARK = "~"  # begins the term of a concept, which no word of a text can do
OTHER = "!"  # begins the name of a topic that no case is about
PACE = "?"  # begins the name of the words for how long something takes


class Phrase(NamedTuple):
    """A phrase that means a concept: as written, and in the trimmed parts of its words."""

    written: str
    parts: tuple[str, ...]
    concept: str


@dataclass(frozen=True)
class Lexicon:
    """Phrases by the first part of their first word, and phrases of scripts that put no space between words."""

    spaced: Mapping[str, tuple[Phrase, ...]]
    unspaced: tuple[Phrase, ...]
    thesaurus: Thesaurus | None = None

    @property
    def parts(self) -> frozenset[str]:
        """Every part of a word that a phrase has."""
        phrases = (phrase for rows in self.spaced.values() for phrase in rows)
        return frozenset(part for each in phrases if each.concept[0] not in OTHER + PACE for part in each.parts)

    def concepts(self, text: str, correct: Callable[[str], str] = str) -> dict[str, str]:
        """The concept terms of a text, each with the phrase that first gave it; ``correct`` spells a word."""
        parts = [*map(correct, pieces(text))]
        found = self._found(text, parts)
        senses = self.thesaurus.concepts(text, parts) if self.thesaurus else {}
        named = {name: written for name, written in found.items() if name[0] not in OTHER + PACE}
        return {MARK + name: written for name, written in (senses | named).items()}

    def speaks_of_pace(self, text: str) -> bool:
        """Return whether a text has a word for how long something takes."""
        return any(name.startswith(PACE) for name in self._found(text, pieces(text)))

    def other_topics(self, text: str) -> dict[str, str]:
        """Return the topics of a text that no case is about, each with the phrase that first gave it."""
        found = self._found(text, pieces(text))
        return {name.strip(OTHER + " "): written for name, written in found.items() if name.startswith(OTHER)}

    def _found(self, text: str, parts: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for place, first in enumerate(parts):
            for phrase in self.spaced.get(first, ()):
                if tuple(parts[place : place + len(phrase.parts)]) == phrase.parts:
                    found.setdefault(phrase.concept, phrase.written)
        if not text.isascii():
            small = text[:MAX_TEXT].lower()
            for phrase in self.unspaced:
                if phrase.written in small:
                    found.setdefault(phrase.concept, phrase.written)
        return found


def search_terms(text: str) -> list[str]:
    """The words of a text and, once each, the concepts behind them."""
    return [*terms(text), *lexicon().concepts(text)]


@cache
def lexicon() -> Lexicon:
    """The lexicon that comes with the library."""
    folder = files("case_library.retrieval")
    known = parse_lexicon(folder.joinpath("lexicon.txt").read_text(encoding="utf-8"))
    return replace(known, thesaurus=thesaurus())


@cache
def thesaurus() -> Thesaurus:
    """The thesaurus that comes with the library."""
    text = files("case_library.retrieval").joinpath("thesaurus.txt").read_text(encoding="utf-8")
    return parse_thesaurus(text, pieces)


def parse_lexicon(text: str) -> Lexicon:
    """Return a lexicon from lines ``concept = phrase | phrase``; empty lines and comments (``#``) are skipped."""
    spaced: dict[str, list[Phrase]] = {}
    unspaced: list[Phrase] = []
    for line in text.splitlines():
        name, _, phrases = line.partition("=")
        if not phrases or line.startswith("#"):
            continue
        for written in (phrase.strip().lower() for phrase in phrases.split("|")):
            phrase = Phrase(written, tuple(pieces(written)), name.strip())
            if UNSPACED.search(written):
                unspaced.append(phrase)
            elif phrase.parts:
                spaced.setdefault(phrase.parts[0], []).append(phrase)
    return Lexicon({first: tuple(rows) for first, rows in spaced.items()}, tuple(unspaced))


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
    """A text as search terms with a readable word for each; ``other_topic`` is one that no case is about."""

    text: str
    terms: tuple[str, ...]
    shown: Mapping[str, str]
    concepts: int = 0
    other_topic: str = ""
    of_pace: bool = False


def read_question(text: str, vocabulary: Vocabulary) -> Question:
    """The question of a text, its unknown words corrected towards the vocabulary."""
    readable, known = surface_forms(text), lexicon()
    concepts = known.concepts(text, vocabulary.correct)
    words = {vocabulary.correct(term): readable[term] for term in terms(text)}
    other = next(iter(known.other_topics(text)), "")
    return Question(text, (*words, *concepts), {**words, **concepts}, len(concepts), other, known.speaks_of_pace(text))
