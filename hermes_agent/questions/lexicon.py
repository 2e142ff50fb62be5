"""Words by which questions are understood, as ``lexicon.yaml`` lists them."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import yaml
from pydantic import BaseModel, ConfigDict


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class IntentWords(_Entry):
    """One kind of question: what help says of it, and its patterns over normalised words."""

    about: str
    example: str = ""
    patterns: tuple[str, ...]


class SubjectWords(_Entry):
    """Names that people use for some causes."""

    title: str
    causes: tuple[str, ...]
    mechanism: str | None = None
    words: str


class Language(_Entry):
    """Patterns of one language by the English subject or question that they stand for."""

    subjects: dict[str, str]
    questions: dict[str, str]


class Lexicon(_Entry):
    """All of the file."""

    intents: dict[str, IntentWords]
    subjects: tuple[SubjectWords, ...]
    languages: dict[str, Language]


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """The lexicon, read once."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = files("hermes_agent.questions").joinpath("lexicon.yaml").read_text(encoding="utf-8")
    return Lexicon.model_validate(yaml.load(text, Loader=loader))
