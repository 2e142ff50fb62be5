"""The interface of a language model: a request goes in, a reply comes out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from tools.documents import parse_json
from tools.errors import ExitCode, HermesError

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "content_filter", "cancelled"]


class Cancelled(HermesError):
    """The person who asked no longer wants the answer."""

    exit_code = ExitCode.INTERRUPTED


@dataclass(frozen=True)
class ToolCall:
    """A tool call of the model; the arguments are its own text and may not be JSON at all."""

    id: str
    name: str
    arguments_json: str


@dataclass(frozen=True)
class Message:
    """One turn of the conversation."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None  # which call a message of role "tool" answers
    reasoning: str | None = None  # returned unread to endpoints that insist on it


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the model sees it; ``schema`` is the JSON Schema of its arguments object."""

    name: str
    description: str
    schema: Mapping[str, object]


@dataclass(frozen=True)
class ResponseSchema:
    """The JSON object that the whole answer has to be."""

    name: str
    schema: Mapping[str, object]


@dataclass(frozen=True)
class ModelRequest:
    """Everything one call depends on; two equal requests may share a recording."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    response_schema: ResponseSchema | None = None
    max_tokens: int | None = None
    tool_choice: Literal["auto", "none"] = "auto"


@dataclass(frozen=True)
class Usage:
    """Tokens of one call; ``estimated`` when the endpoint did not count them."""

    prompt_tokens: int
    completion_tokens: int
    estimated: bool = False


@dataclass(frozen=True)
class Degraded:
    """The endpoint refused a feature and the call went on without it."""

    feature: str
    detail: str


@dataclass(frozen=True)
class Reply:
    """All that a model answered in one call; ``usage`` is None where the endpoint did not count tokens.

    ``reasoning`` is never shown as an answer; ``over_budget`` is a sentence when the call went over the budget.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    usage: Usage | None = None
    reason: FinishReason = "stop"
    degraded: tuple[Degraded, ...] = ()
    over_budget: str = ""

    def message(self) -> Message:
        """The reply in the conversation; servers refuse arguments that are no JSON object, so these become empty."""
        calls = (call if _is_object(call.arguments_json) else replace(call, arguments_json="{}") for call in self.calls)
        return Message("assistant", self.text, tuple(calls), reasoning=self.reasoning)


def _is_object(text: str) -> bool:
    try:
        value = parse_json(text)
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return isinstance(value, dict)


class ChatModel(Protocol):
    """A language model, real, scripted or replayed."""

    @property
    def name(self) -> str:
        """The name that the user knows the model by."""
        ...

    def complete(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Reply:
        """The reply to one request, or ModelError; blocks, asks ``cancelled`` often and ends early then."""
        ...
