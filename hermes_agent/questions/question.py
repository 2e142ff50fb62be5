"""A question as read: its words, and the ids, ranks, steps and causes it names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hermes_agent.questions.subjects import Subject, subject_of, subjects_of

LIMIT = 2000  # characters read; a longer question is cut
IDENTIFIER = re.compile(r"\b([EAC])(\d{1,6})\b", re.IGNORECASE)
LIST = r"(\d{1,9}(?:\s+(?:(?:and|or|to|through|vs|versus)\s+)?\d{1,9})*)\b"
RANKS = re.compile(rf"\b(?:ranks?|gpus?|workers?|devices?|process|processes)\s+{LIST}")
STEPS = re.compile(rf"\b(?:steps?|iterations?|iters?|batch|batches)\s+{LIST}")
RANGE = re.compile(r"(\d+)\s+(?:to|through)\s+(\d+)")
MOST_PLACES = 16  # ranks or steps taken from one question


@dataclass(frozen=True)
class Question:
    """One question; ``words`` is lower case with single spaces and nothing but letters and digits."""

    text: str
    words: str
    ids: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    subject: Subject | None = None
    subjects: tuple[Subject, ...] = ()  # all of them, in the order they are named


def read_question(text: str) -> Question:
    """The question with everything that can be recognised in it."""
    kept = text[:LIMIT].strip()
    words = normalised(kept)
    return Question(
        kept,
        words,
        ids=tuple(f"{match[1].upper()}{int(match[2])}" for match in IDENTIFIER.finditer(kept)),
        ranks=_places(RANKS, words),
        steps=_places(STEPS, words),
        subject=subject_of(words),
        subjects=subjects_of(words),
    )


def _places(pattern: re.Pattern[str], words: str) -> tuple[int, ...]:
    """The numbers of all lists (``5 and 9``) and ranges (``5 to 9``) that the pattern finds, each once."""
    numbers: list[int] = []
    for listed in pattern.findall(words):
        numbers += [int(number) for number in re.findall(r"\d+", listed)]
        for first, last in RANGE.findall(listed):
            numbers += range(int(first), min(int(last), int(first) + MOST_PLACES) + 1)
    once = tuple(dict.fromkeys(numbers))[:MOST_PLACES]
    return tuple(sorted(once)) if RANGE.search(words) else once


def normalised(text: str) -> str:
    """Lower case, letters and digits only, single spaces; apostrophes close up (``isnt``)."""
    closed = re.sub(r"['’]", "", text.lower())
    return " ".join(re.sub(r"[^a-z0-9]+", " ", closed).split())
