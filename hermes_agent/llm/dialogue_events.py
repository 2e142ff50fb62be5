"""What a dialogue with tools reports while it runs; every frontend draws these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from hermes_agent.llm.model import Degraded


@dataclass(frozen=True)
class ModelText:
    """The next piece of what the model writes."""

    text: str


@dataclass(frozen=True)
class ToolStarted:
    """A tool begins; the arguments have been checked."""

    call_id: str
    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True)
class ToolFinished:
    """A call is over; ``detail`` is the sentence of a failure, ``bytes`` the size of the full result.

    A call that was refused (unknown tool, arguments that do not fit, a repetition) has no ToolStarted before.
    """

    call_id: str
    name: str
    ok: bool
    seconds: float
    bytes: int
    handle: str | None = None
    detail: str = ""


DialogueEvent: TypeAlias = ModelText | ToolStarted | ToolFinished | Degraded
