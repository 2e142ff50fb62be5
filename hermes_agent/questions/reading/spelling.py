"""Misspelt words of a question: the nearest of a fixed list of words; names, numbers and known words stay."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

from hermes_agent.questions.reading.question import LIMIT, lexicon
from tools.knowledge.taxonomy import causes

WORD = re.compile(r"`[^`]*`|\"[^\"]*\"|[\w.:/<>~]*[\d_:./<>~]+[\w.:/<>~]*\w|[A-Za-z']+")
PLAIN = re.compile(r"[A-Za-z]+")
SHORTEST, MOST_CORRECTED = 3, 12
LIKENESS = 0.82  # of difflib: one wrong letter of six
ENDING = re.compile(r"(?:e?s|e?d|e?rs?|ing|ly|able|ness)")
SHORTEST_STEM = 3


def corrected(text: str) -> str:
    """The question with misspelt words replaced; the same text where there are none, or where it is not English."""
    if not text.isascii() or len(text) > LIMIT:
        return text
    left = MOST_CORRECTED

    def correct(match: re.Match[str]) -> str:
        nonlocal left
        word = match[0]
        if left == 0 or not PLAIN.fullmatch(word) or len(word) < SHORTEST or is_known(word.lower()):
            return word
        better = _nearest(word.lower())
        left -= better != word.lower()
        return better if better != word.lower() else word

    return WORD.sub(correct, text)


def is_known(word: str) -> bool:
    """Whether it is one of the words that are spelt right, or one of them with an ending."""
    return word in _vocabulary() or any(stem in _vocabulary() for stem in _stems(word))


def _stems(word: str) -> Iterator[str]:
    """What a word may be a form of: "loaded" of load, "sharing" of share, "mapped" of map, "copies" of copy."""
    for length in range(SHORTEST_STEM, len(word)):
        stem = word[:length]
        if ENDING.fullmatch(word, length):
            yield stem
            yield f"{stem}e"
            if stem[-1] == stem[-2]:
                yield stem[:-1]
            if stem[-1] == "i":
                yield f"{stem[:-1]}y"


def _nearest(word: str) -> str:
    """A word with the same letters in another order or one letter more, else the likest with the same first letter."""
    same_start = [each for each in _targets() if each[0] == word[0]]
    for each in same_start:
        if len(each) == len(word) and sorted(each) == sorted(word):
            return each
    if len(word) == SHORTEST:
        one_more = (each for each in same_start if any(each[:at] + each[at + 1 :] == word for at in range(len(each))))
        return next(one_more, word)
    return next(iter(difflib.get_close_matches(word, same_start, 1, LIKENESS)), word)


@lru_cache(maxsize=1)
def _targets() -> tuple[str, ...]:
    return tuple(lexicon().spelling.split())


@lru_cache(maxsize=1)
def _vocabulary() -> frozenset[str]:
    """Words of the product's own texts, which are spelt right."""
    text = files("hermes_agent.questions.reading").joinpath("lexicon.yaml").read_text(encoding="utf-8")
    texts = [
        text.partition("\nlanguages:")[0],
        *(f"{cause.id} {' '.join(cause.mechanisms)} {cause}" for cause in causes().values()),
    ]
    return frozenset(word.lower() for each in texts for word in PLAIN.findall(each))
