"""A question as read: its words, and the ids, ranks, steps, names and causes in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hermes_agent.questions.subjects import Subject, subject_of, subjects_of

LIMIT = 2000  # characters read; a longer question is cut
MOST_PLACES = 64  # ranks or steps taken from one question
IDENTIFIER = re.compile(r"\b([EAC])(\d{1,6})\b", re.IGNORECASE)
TO = r"\s*(?:\bto\b|\bthrough\b|-|–|\.{2,3}|:)\s*"
AND = r"\s*(?:,\s*(?:and|or)\b|,|\band\b|\bor\b|\bvs\b|\bversus\b|&)\s*"
# A number belongs to the word before it, and is no place where a unit follows it: "batch 64", "a step of 60 ms".
OWNED = re.compile(
    rf"(?P<owner>(?:loader )?[a-z_]+)[\s#:=-]*(?:from\s+)?(?P<numbers>\d{{1,9}}(?:(?:{TO}|{AND})\d{{1,9}})*)\b"
    r"(?!\s*(?:ns|us|ms|s|seconds?|x|%|percent)(?!\w)|\.\d)"
)
SPAN = re.compile(rf"(\d+)(?:{TO}(\d+))?")
RANK_WORDS = {"rank", "ranks", "gpu", "gpus", "device", "devices", "process", "processes", "worker"}
STEP_WORDS = {"step", "steps", "iteration", "iterations", "iter", "iters"}
# Names of kernels and operators: quoted, with colons, or after their kind and before a verb.
NAME = re.compile(
    r"[`\"“]([^`\"“”]{2,200})[`\"”]|([\w<>~]+(?:::[\w<>~]+)+)"
    r"|\b(?:kernels?|operators?|ops?|calls?|functions?)\s+(?:named\s+|called\s+)?(\w+)\s+(?:take|run|cost|last)s?\b"
)


@dataclass(frozen=True)
class Question:
    """One question; ``words`` is lower case with single spaces and nothing but letters and digits."""

    text: str
    words: str
    ids: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    names: tuple[str, ...] = ()  # of kernels or operators, as typed
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
        ranks=_places(kept.lower(), RANK_WORDS),
        steps=_places(kept.lower(), STEP_WORDS),
        names=tuple(dict.fromkeys(next(filter(None, match.groups())) for match in NAME.finditer(kept))),
        subject=subject_of(words),
        subjects=subjects_of(words),
    )


def _places(text: str, owners: set[str]) -> tuple[int, ...]:
    """The numbers of all lists (``5 and 9``) and ranges (``5 to 9``) that belong to one of the words, each once."""
    numbers: dict[int, None] = {}
    for match in OWNED.finditer(text):
        for first, last in SPAN.findall(match["numbers"] if match["owner"] in owners else ""):
            low, high = sorted((int(first), int(last or first)))
            numbers.update(dict.fromkeys(range(low, min(high, low + MOST_PLACES) + 1)))
    return tuple(numbers)[:MOST_PLACES]


def normalised(text: str) -> str:
    """Lower case, letters and digits only, single spaces; apostrophes close up (``isnt``)."""
    closed = re.sub(r"['’]", "", text.lower())
    return " ".join(re.sub(r"[^a-z0-9]+", " ", closed).split())
