"""A turn of a conversation and the tool calls made for it: what is remembered, stored and shown."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hermes_agent.model.diagnosis import Scalar
from hermes_agent.model.record import Record


class ToolCallRecord(Record):
    """One call of a tool, as a frontend shows it in one line; ``handle`` opens its whole result.

    ``error`` is the sentence of a call that failed, "" otherwise. ``size`` counts the characters of the result.
    """

    handle: str  # "R3"
    name: str
    arguments: dict[str, Scalar | list[Scalar]] = Field(default_factory=dict)
    by: Literal["investigation", "template", "model"] = "template"
    seconds: float
    size: int
    rows: int = 0
    error: str = ""


class Turn(Record):
    """One question and its answer; ``ids`` are the figures, advice and cases that the answer cites.

    ``intent`` is the kind of question it was taken for; ``ranks``, ``steps``, ``names`` and ``subject`` are what it was
    about, so that "and rank 7?" and "why not?" can refer to it.
    """

    question: str
    answer: str
    by: Literal["template", "model"] = "template"
    intent: str = ""
    ranks: list[int] = Field(default_factory=list)
    steps: list[int] = Field(default_factory=list)
    names: list[str] = Field(default_factory=list)
    subject: str = ""  # a cause of the taxonomy
    ids: list[str] = Field(default_factory=list)
    calls: list[ToolCallRecord] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
