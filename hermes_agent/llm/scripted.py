"""A model that plays a script: for tests, evals and the demo, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from hermes_agent.llm.budget import estimated_tokens, request_tokens
from hermes_agent.llm.model import (
    Finished,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    Usage,
)
from tools.errors import ModelError

TurnItem: TypeAlias = str | ReasoningDelta | ToolCall | Usage | Finished | ModelError
Turn: TypeAlias = str | Sequence[TurnItem]


class ScriptedModel:
    """Plays one turn per call, in order, and keeps the requests it saw.

    A turn is a text, or a sequence of text chunks, reasoning, tool calls, a usage, a finish and an error to
    raise at that point. Without a usage the tokens are estimated and marked so. A call after the last turn
    is a ModelError: a script that is too short shows.
    """

    def __init__(self, turns: Iterable[Turn], name: str = "scripted") -> None:
        self._turns = [(turn,) if isinstance(turn, str) else tuple(turn) for turn in turns]
        self._name = name
        self.requests: list[ModelRequest] = []

    @property
    def name(self) -> str:
        """The name given to it."""
        return self._name

    def stream(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Iterator[ModelEvent]:
        """The events of the next turn; see ChatModel.stream."""
        played = len(self.requests)
        self.requests.append(request)
        if played >= len(self._turns):
            raise ModelError(f"The script of the model {self._name!r} ended after {len(self._turns)} turns.")
        sent: list[TurnItem] = []
        for item in self._turns[played]:
            if cancelled():
                yield from _closing(request, sent, Finished("cancelled"))
                return
            if isinstance(item, ModelError):
                raise item
            sent.append(item)
            if not isinstance(item, Usage | Finished):
                yield TextDelta(item) if isinstance(item, str) else item
        yield from _closing(request, sent, None)


def _closing(request: ModelRequest, sent: Sequence[TurnItem], end: Finished | None) -> Iterator[ModelEvent]:
    texts = (
        item.arguments_json if isinstance(item, ToolCall) else item for item in sent if isinstance(item, str | ToolCall)
    )
    counted = next((item for item in sent if isinstance(item, Usage)), None)
    yield counted or Usage(request_tokens(request), estimated_tokens("".join(texts)), estimated=True)
    written = next((item for item in sent if isinstance(item, Finished)), None)
    asked = any(isinstance(item, ToolCall) for item in sent)
    yield end or written or Finished("tool_calls" if asked else "stop")
