"""One call to a model, listened to until its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hermes_agent.llm.budget import estimated_tokens, request_tokens
from hermes_agent.llm.model import (
    ChatModel,
    Degraded,
    Finished,
    FinishReason,
    Message,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    Usage,
)
from hermes_agent.llm.tool import json_object
from tools.errors import ModelError


@dataclass(frozen=True)
class Reply:
    """What a model said in one turn."""

    text: str
    calls: tuple[ToolCall, ...]
    reasoning: str | None
    usage: Usage
    reason: FinishReason

    def message(self) -> Message:
        """The reply as it goes back into the conversation.

        Arguments that are no JSON object are replaced by an empty one: servers parse them in the history
        and refuse the whole conversation otherwise. The model is told about its fault in the tool's answer.
        """
        calls = tuple(call if _parses(call) else replace(call, arguments_json="{}") for call in self.calls)
        return Message("assistant", self.text, calls, reasoning=self.reasoning)


def listen(
    model: ChatModel,
    request: ModelRequest,
    cancelled: Callable[[], bool],
    on_event: Callable[[TextDelta | Degraded], None],
) -> Reply:
    """Run one call to its end; text and degradations are passed on as they come."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    usage: Usage | None = None
    reason: FinishReason = "cancelled"
    for event in model.stream(request, cancelled):
        match event:
            case TextDelta():
                texts.append(event.text)
                on_event(event)
            case Degraded():
                on_event(event)
            case ReasoningDelta():
                thoughts.append(event.text)
            case ToolCall():
                calls.append(event)
            case Usage():
                usage = event
            case Finished():
                reason = event.reason
    text, reasoning = "".join(texts), "".join(thoughts)
    usage = usage or Usage(request_tokens(request), estimated_tokens(text + reasoning), estimated=True)
    return Reply(text, tuple(calls), reasoning or None, usage, reason)


def _parses(call: ToolCall) -> bool:
    try:
        json_object(call.arguments_json)
    except ModelError:
        return False
    return True
