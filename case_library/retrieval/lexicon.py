"""Concepts behind words: ``all-reduce``, ``allreduce`` and ``gradient sync`` are one thing to a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from case_library.retrieval.words import MAX_TEXT, pieces, terms

MARK = "~"  # begins the term of a concept, which no word of a text can do
OTHER = "!"  # begins the name of a topic that no case is about
PACE = "?"  # begins the name of the words for how long something takes


@dataclass(frozen=True)
class Phrase:
    """A phrase that means a concept: as written, and in the trimmed parts of its words."""

    written: str
    parts: tuple[str, ...]
    concept: str


@dataclass(frozen=True)
class Lexicon:
    """Phrases by the first part of their first word, and phrases of scripts that put no space between words."""

    spaced: Mapping[str, tuple[Phrase, ...]]
    unspaced: tuple[Phrase, ...]

    @property
    def parts(self) -> frozenset[str]:
        """Every part of a word that a phrase has."""
        phrases = (phrase for rows in self.spaced.values() for phrase in rows)
        return frozenset(part for each in phrases if each.concept[0] not in OTHER + PACE for part in each.parts)

    def concepts(self, text: str, correct: Callable[[str], str] = str) -> dict[str, str]:
        """The concept terms of a text, each with the phrase that first gave it; ``correct`` spells a word."""
        found = self._found(text, correct)
        return {MARK + name: written for name, written in found.items() if name[0] not in OTHER + PACE}

    def speaks_of_pace(self, text: str) -> bool:
        """Return whether a text has a word for how long something takes."""
        return any(name.startswith(PACE) for name in self._found(text, str))

    def other_topics(self, text: str) -> dict[str, str]:
        """The topics of a text that no case is about, each with the phrase that first gave it."""
        found = self._found(text, str)
        return {name.strip(OTHER + " "): written for name, written in found.items() if name.startswith(OTHER)}

    def _found(self, text: str, correct: Callable[[str], str]) -> dict[str, str]:
        found: dict[str, str] = {}
        parts = [correct(part) for part in pieces(text)]
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
    return parse_lexicon(files("case_library.retrieval").joinpath("lexicon.txt").read_text(encoding="utf-8"))


def parse_lexicon(text: str) -> Lexicon:
    """A lexicon from lines ``concept = phrase | phrase``; empty lines and those that begin with ``#`` are passed."""
    spaced: dict[str, list[Phrase]] = {}
    unspaced: list[Phrase] = []
    for line in text.splitlines():
        name, _, phrases = line.partition("=")
        if not phrases or line.startswith("#"):
            continue
        for written in (phrase.strip().lower() for phrase in phrases.split("|")):
            phrase = Phrase(written, tuple(pieces(written)), name.strip())
            if any(_unspaced(letter) for letter in written):
                unspaced.append(phrase)
            elif phrase.parts:
                spaced.setdefault(phrase.parts[0], []).append(phrase)
    return Lexicon({first: tuple(rows) for first, rows in spaced.items()}, tuple(unspaced))


def _unspaced(letter: str) -> bool:
    return "\u3040" <= letter <= "\u30ff" or "\u3400" <= letter <= "\u9fff"
