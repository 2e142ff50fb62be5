"""Statements of a model, with slots in place of figures and names, and how a diagnosis stores their words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hermes_agent.llm.sanitize import one_line
from hermes_agent.model.diagnosis import Diagnosis

Kind = Literal["measured", "predicted", "causal", "advice", "unknown"]
Claim = Literal["present", "absent", "guess", "about"]
Part = Literal["compute", "exposed_communication", "exposed_memcpy", "data_wait", "host", "idle"]
MOST_STATEMENTS = 14
TEXT_CHARS = 600
NAME_CHARS = 80


class Statement(BaseModel):
    """One sentence or two; ``cause`` may name a mechanism too, as ``slow_data_processing:too_few_workers``.

    A causal statement is an edge of the diagnosis: ``cause`` on ``ranks`` spends time in ``part`` of the step, which
    shows in the figures of ``evidence``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str = Field(default="", description="plain words with slots, no digits")
    kind: Kind
    cause: str | None = Field(default=None, description="id of the cause the statement is about")
    claim: Claim | None = Field(default=None, description="kind causal only: present, absent, guess or about")
    ranks: list[int] = Field(default_factory=list, description="kind causal only: where the cause is")
    part: Part | None = Field(default=None, description="kind causal only: the part of the step it spends")
    evidence: list[str] = Field(default_factory=list, description="ids it rests on")


class Statements(BaseModel):
    """The whole answer of a model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    statements: list[Statement]


def introduction(model: str) -> str:
    """The line between what the templates say and what a model wrote."""
    name = re.sub(r"[^\w .:/@+-]", "", one_line(model, NAME_CHARS)).strip() or "the model"
    return f"In the words of {name} (figures checked against the evidence; the wording is the model's):"


def with_words(diagnosis: Diagnosis, words: Sequence[str], model: str) -> Diagnosis:
    """The diagnosis with a model's paragraphs after its own answer, which stays as it is."""
    name = one_line(model, NAME_CHARS)
    answer = [*diagnosis.answer, introduction(name), *words]
    return diagnosis.model_copy(update={"answer": answer, "answer_by": "model", "answer_model": name})


def words_of_model(diagnosis: Diagnosis) -> list[str]:
    """The paragraphs that a model wrote; none where it wrote nothing."""
    return _parts(diagnosis)[1]


def without_words(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with the answer of the templates alone."""
    if diagnosis.answer_by != "model":
        return diagnosis
    return diagnosis.model_copy(update={"answer": _parts(diagnosis)[0], "answer_by": "template", "answer_model": ""})


def _parts(diagnosis: Diagnosis) -> tuple[list[str], list[str]]:
    between = introduction(diagnosis.answer_model)
    if diagnosis.answer_by != "model" or between not in diagnosis.answer:
        return list(diagnosis.answer), []
    place = diagnosis.answer.index(between)
    return diagnosis.answer[:place], diagnosis.answer[place + 1 :]
