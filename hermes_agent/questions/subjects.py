"""Subjects of a question in the words of the taxonomy: ids, and the names people use for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from hermes_agent.model.display import FAMILY_TITLES, cause_title, plain
from hermes_agent.questions.lexicon import lexicon
from tools.knowledge.taxonomy import causes


@dataclass(frozen=True)
class Subject:
    """One or several causes a question may mean; ``mechanism`` narrows a single cause."""

    title: str
    causes: tuple[str, ...]
    mechanism: str | None = None


def subject_of(words: str) -> Subject | None:
    """The subject of normalised words: the longest name in them; of equal ones a cause before a synonym."""
    return next((subject for *_, subject in _mentions(words)), None)


def subjects_of(words: str) -> tuple[Subject, ...]:
    """All subjects of normalised words in their order; of names that overlap the longest, as in ``subject_of``."""
    taken: list[tuple[int, int, Subject]] = []
    for begin, end, subject in _mentions(words):
        if all(end <= start or stop <= begin for start, stop, _ in taken):
            taken.append((begin, end, subject))
    return tuple(dict.fromkeys(subject for _, _, subject in sorted(taken, key=lambda each: each[0])))


def _mentions(words: str) -> list[tuple[int, int, Subject]]:
    """Every name in the words with its place; the longest first, of equal ones a cause before a synonym."""
    found = [(*match.span(), subject) for pattern, subject in _names() for match in pattern.finditer(words)]
    return sorted(found, key=lambda each: each[0] - each[1])


@lru_cache(maxsize=1)
def _names() -> tuple[tuple[re.Pattern[str], Subject], ...]:
    rows: list[tuple[str, Subject]] = []
    for cause in causes().values():
        for mechanism in (None, *cause.mechanisms):
            title = cause_title(cause.id, mechanism)
            spelt = re.sub(r"[^a-z0-9]+", " ?", title.lower())
            rows.append((f"{_spelt(mechanism or cause.id)}|{spelt}", Subject(title, (cause.id,), mechanism)))
    rows.extend((each.words, Subject(each.title, each.causes, each.mechanism)) for each in lexicon().subjects)
    for family, title in FAMILY_TITLES.items():
        members = tuple(cause.id for cause in causes().values() if cause.family == family)
        rows.append((f"{_spelt(family)}|{title}", Subject(title, members)))
    return tuple((re.compile(rf"\b(?:{pattern})\b"), subject) for pattern, subject in rows)


def _spelt(identifier: str) -> str:
    return plain(identifier).replace(" ", " ?") + "s?"
