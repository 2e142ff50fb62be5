"""The interface of a language model: a request goes in, typed events come out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "cancelled"]


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
class TextDelta:
    """The next piece of the answer."""

    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    """The next piece of the model's thinking: never shown as an answer."""

    text: str


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
class Finished:
    """The call is over."""

    reason: FinishReason


ModelEvent: TypeAlias = TextDelta | ReasoningDelta | ToolCall | Usage | Degraded | Finished


class ChatModel(Protocol):
    """A language model, real, scripted or replayed."""

    @property
    def name(self) -> str:
        """The name that the user knows the model by."""
        ...

    def stream(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Iterator[ModelEvent]:
        """Yield the events of one call as they arrive, the last one Finished; raises ModelError.

        Blocks between events, so run it in a thread; ``cancelled`` is asked often and ends the call early.
        """
        ...
