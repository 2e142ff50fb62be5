"""A model that plays a script: for tests, evals and the demo, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from hermes_agent.llm import model as llm
from hermes_agent.llm.budget import estimated_tokens, request_tokens
from tools.errors import ModelError

TurnItem: TypeAlias = str | llm.ReasoningDelta | llm.ToolCall | llm.Usage | llm.Finished | ModelError
Turn: TypeAlias = str | Sequence[TurnItem]


class ScriptedModel:
    """Plays one turn per call, in order, and keeps the requests it saw.

    A turn is a text, or a sequence of text chunks, reasoning, tool calls, a usage, a finish and an error to
    raise at that point. Without a usage the tokens are estimated and marked so. A call after the last turn
    is a ModelError.
    """

    def __init__(self, turns: Iterable[Turn], name: str = "scripted") -> None:
        self._turns = [(turn,) if isinstance(turn, str) else tuple(turn) for turn in turns]
        self._name = name
        self.requests: list[llm.ModelRequest] = []

    @property
    def name(self) -> str:
        """The name given to it."""
        return self._name

    def stream(self, request: llm.ModelRequest, cancelled: Callable[[], bool]) -> Iterator[llm.ModelEvent]:
        """The events of the next turn; see ChatModel.stream."""
        played = len(self.requests)
        self.requests.append(request)
        if played >= len(self._turns):
            raise ModelError(f"The script of the model {self._name!r} ended after {len(self._turns)} turns.")
        sent: list[TurnItem] = []
        for item in self._turns[played]:
            if cancelled():
                yield from _closing(request, sent, llm.Finished("cancelled"))
                return
            if isinstance(item, ModelError):
                raise item
            sent.append(item)
            if not isinstance(item, llm.Usage | llm.Finished):
                yield llm.TextDelta(item) if isinstance(item, str) else item
        yield from _closing(request, sent, None)


def _closing(request: llm.ModelRequest, sent: Sequence[TurnItem], end: llm.Finished | None) -> Iterator[llm.ModelEvent]:
    calls = [item for item in sent if isinstance(item, llm.ToolCall)]
    written = "".join([*(item for item in sent if isinstance(item, str)), *(call.arguments_json for call in calls)])
    estimate = llm.Usage(request_tokens(request), estimated_tokens(written), estimated=True)
    yield next((item for item in sent if isinstance(item, llm.Usage)), estimate)
    finish = next((item for item in sent if isinstance(item, llm.Finished)), None)
    yield end or finish or llm.Finished("tool_calls" if calls else "stop")
