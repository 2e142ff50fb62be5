"""A question as read: its words, and the ids, ranks, steps and causes it names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hermes_agent.questions.subjects import Subject, subject_of

LIMIT = 2000  # characters read; a longer question is cut
IDENTIFIER = re.compile(r"\b([EAC])(\d{1,6})\b", re.IGNORECASE)
RANKS = re.compile(r"\b(?:ranks?|gpus?|workers?|devices?|process)\s+(\d{1,7})\b")
STEPS = re.compile(r"\b(?:steps?|iterations?|iters?|batch)\s+(\d{1,9})\b")


@dataclass(frozen=True)
class Question:
    """One question; ``words`` is lower case with single spaces and nothing but letters and digits."""

    text: str
    words: str
    ids: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    subject: Subject | None = None


def read_question(text: str) -> Question:
    """The question with everything that can be recognised in it."""
    kept = text[:LIMIT].strip()
    words = normalised(kept)
    return Question(
        kept,
        words,
        ids=tuple(f"{match[1].upper()}{int(match[2])}" for match in IDENTIFIER.finditer(kept)),
        ranks=tuple(int(number) for number in RANKS.findall(words)),
        steps=tuple(int(number) for number in STEPS.findall(words)),
        subject=subject_of(words),
    )


def normalised(text: str) -> str:
    """Lower case, letters and digits only, single spaces; apostrophes close up (``isnt``)."""
    closed = re.sub(r"['’]", "", text.lower())
    return " ".join(re.sub(r"[^a-z0-9]+", " ", closed).split())
