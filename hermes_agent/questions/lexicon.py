"""Words by which questions are understood, and fixed texts of answers, as ``lexicon.yaml`` lists them."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import yaml
from pydantic import BaseModel


class IntentWords(BaseModel, extra="forbid", frozen=True):
    """One kind of question: its line in the help, and its patterns over normalised words."""

    about: str
    example: str = ""
    patterns: tuple[str, ...]


class SubjectWords(BaseModel, extra="forbid", frozen=True):
    """Names that people use for some causes."""

    title: str
    causes: tuple[str, ...]
    mechanism: str | None = None
    words: str


class Language(BaseModel, extra="forbid", frozen=True):
    """Patterns of one language by the English subject or question that they stand for."""

    subjects: dict[str, str]
    questions: dict[str, str]


class Lexicon(BaseModel, extra="forbid", frozen=True):
    """All of the file."""

    intents: dict[str, IntentWords]
    subjects: tuple[SubjectWords, ...]
    languages: dict[str, Language]
    texts: dict[str, str]


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """The lexicon, read once."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = files("hermes_agent.questions").joinpath("lexicon.yaml").read_text(encoding="utf-8")
    return Lexicon.model_validate(yaml.load(text, Loader=loader))


def wording(name: str) -> str:
    """A fixed text of the answers."""
    return lexicon().texts[name]
