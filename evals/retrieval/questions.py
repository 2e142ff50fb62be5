"""The questions people ask, divided into the half to tune on, the half to judge by, and those written after tuning."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, model_validator

from tools.knowledge.taxonomy import causes

QUESTIONS = Path(__file__).parent / "questions.yaml"
Half = Literal["development", "held out", "later"]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    questions: dict[str, list[str]]
    out_of_scope: list[str]
    out_of_scope_seen: list[str]
    out_of_scope_later: list[str]

    @model_validator(mode="after")
    def _known_and_once(self) -> _File:
        unknown = sorted(set(self.questions) - set(causes()))
        if unknown:
            raise ValueError(f"causes {unknown} are not in the taxonomy")
        texts = [*(text for asked in self.questions.values() for text in asked)]
        texts += [*self.out_of_scope, *self.out_of_scope_seen, *self.out_of_scope_later]
        twice = sorted({text for text in texts if texts.count(text) > 1})
        if twice:
            raise ValueError(f"questions {twice} occur twice")
        return self


@dataclass(frozen=True)
class UserQuestion:
    """A question, and the cause a helpful case has; empty where no case can help."""

    text: str
    cause: str
    half: Half


def load_questions(path: Path = QUESTIONS) -> tuple[UserQuestion, ...]:
    """All questions; raises ``ValueError`` if the file has another shape, an unknown cause or a question twice."""
    content = _File.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    found: list[UserQuestion] = []
    for cause, texts in (*content.questions.items(), ("", content.out_of_scope)):
        # Every second question by a hash of its text, so that nobody chooses and each cause is in both halves.
        ordered = sorted(texts, key=lambda text: zlib.crc32(text.encode()))
        halves: tuple[Half, Half] = ("development", "held out")
        found.extend(UserQuestion(text, cause, halves[place % 2]) for place, text in enumerate(ordered))
    found.extend(UserQuestion(text, "", "development") for text in content.out_of_scope_seen)
    return (*found, *(UserQuestion(text, "", "later") for text in content.out_of_scope_later))
