"""What a model may say about a run: a list of statements, each with slots in place of figures and names."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal["cause", "symptom", "comparison", "advice", "explanation", "question"]
Claim = Literal["present", "absent", "open"]
MOST_STATEMENTS = 14
TEXT_CHARS = 600


class Statement(BaseModel):
    """One sentence or two; ``cause`` may name a mechanism too, as ``slow_data_processing:too_few_workers``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str = Field(default="", description="plain words with slots, no digits")
    kind: Kind
    cause: str | None = Field(default=None, description="id of the cause the statement is about")
    claim: Claim | None = Field(default=None, description="kind cause only: present, absent or open")
    evidence: list[str] = Field(default_factory=list, description="ids it rests on")


class Statements(BaseModel):
    """The whole answer of a model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    statements: list[Statement]
