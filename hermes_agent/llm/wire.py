"""The Chat Completions protocol: a request as its JSON body, a streamed answer as a reply."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hermes_agent.llm.capabilities import Capabilities, Structured, structured_mode
from hermes_agent.llm.model import (
    FinishReason,
    Message,
    ModelRequest,
    Reply,
    ResponseSchema,
    ToolCall,
    ToolSpec,
    Usage,
)
from tools.errors import ModelError

Body = dict[str, object]

SCHEMA_IN_PROMPT = "Answer with one JSON object and nothing else, no code fence. It has to fit this JSON Schema:\n"
MAX_REPLY_CHARS = 2_000_000  # far over any model's output; keeps a runaway endpoint from filling memory
MAX_CALLS = 64
REASONS: Mapping[str, FinishReason] = {"length": "length", "content_filter": "content_filter"}
# Only the start of an answer can open it: the same words later on are the answer's own.
THINKING = re.compile(r"\s*<think>(.*?)(?:</think>\s*|\Z)", re.DOTALL)


def encode(request: ModelRequest, model: str, capabilities: Capabilities, temperature: float | None) -> Body:
    """The JSON body; features that the endpoint lacks are left out or put into words."""
    messages, schema = request.messages, request.response_schema
    offers_tools = bool(request.tools) and capabilities.tools
    if not offers_tools:
        messages = _tool_traffic_in_words(messages)
    body: Body = {"model": model, "stream": True}
    if capabilities.streamed_usage:
        body["stream_options"] = {"include_usage": True}
    if temperature is not None and capabilities.temperature:
        body["temperature"] = temperature
    if request.max_tokens is not None and capabilities.token_limit != "none":
        body[capabilities.token_limit] = request.max_tokens
    if offers_tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice == "none" and capabilities.tool_choice:
            body["tool_choice"] = "none"
        if not capabilities.parallel_calls and capabilities.parallel_switch:
            body["parallel_tool_calls"] = False
    if schema is not None:
        body |= _held_to(schema, mode := structured_mode(capabilities))
        if mode in ("json_object", "plain"):
            messages = _with_schema_in_prompt(messages, schema.schema)
    body["messages"] = [_message(message, capabilities) for message in messages]
    return body


def _held_to(schema: ResponseSchema, mode: Structured) -> Body:
    match mode:
        case "json_schema":
            form = {"name": schema.name, "strict": True, "schema": dict(schema.schema)}
            return {"response_format": {"type": "json_schema", "json_schema": form}}
        case "forced_tool":
            tool = ToolSpec(schema.name, "Give the answer by calling this.", schema.schema)
            return {"tools": [_tool(tool)], "tool_choice": {"type": "function", "function": {"name": schema.name}}}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
        case "plain":
            return {}


def _with_schema_in_prompt(messages: Sequence[Message], schema: Mapping[str, object]) -> tuple[Message, ...]:
    """The schema as words in the system message, for endpoints that cannot be held to it otherwise."""
    words = SCHEMA_IN_PROMPT + json.dumps(schema, ensure_ascii=False)
    if messages and messages[0].role == "system":
        return (replace(messages[0], content=f"{messages[0].content}\n\n{words}"), *messages[1:])
    return (Message("system", words), *messages)


def _tool(tool: ToolSpec) -> Body:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
    return {"type": "function", "function": function}


def _message(message: Message, capabilities: Capabilities) -> Body:
    body: Body = {"role": message.role, "content": message.content}
    if message.tool_call_id is not None and message.role == "tool":
        body["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}
            for call in message.tool_calls
        ]
        if capabilities.reasoning_echo:
            # The field has to be there even when the model did not think: DeepSeek answers 400 otherwise.
            body["reasoning_content"] = message.reasoning or ""
    return body


def _tool_traffic_in_words(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Calls and results as ordinary messages with alternating roles: many servers refuse them without tools."""
    said: list[Message] = []
    for message in messages:
        role, text = message.role, message.content
        if role == "tool":
            role, text = "user", f"Result of the call {message.tool_call_id}:\n{text}"
        elif message.tool_calls:
            calls = (f"Call {call.id}: {call.name}({call.arguments_json})" for call in message.tool_calls)
            text = "\n".join([text, *calls]).strip()
        if said and role == said[-1].role == "user":
            text = f"{said.pop().content}\n\n{text}"
        said.append(Message(role, text))
    return tuple(said)


@dataclass
class _PartialCall:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class StreamedReply:
    """Takes decoded chunks of any shape; the arguments of ``answer_tool``, a structured answer, become text."""

    answer_tool: str | None = None
    parallel_calls: bool = True
    begun: bool = False
    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _calls: dict[int, _PartialCall] = field(default_factory=dict)
    _latest: int = 0
    _chars: int = 0
    _usage: Usage | None = None
    _reason: FinishReason | None = None

    def feed(self, chunk: Mapping[str, object]) -> None:
        """Take one chunk."""
        self.begun = True
        usage = chunk.get("usage")
        if isinstance(usage, Mapping):
            prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
            if isinstance(prompt, int) and isinstance(completion, int) and prompt >= 0 and completion >= 0:
                self._usage = Usage(prompt, completion)
        for choice in _mappings(chunk.get("choices"))[:1]:
            if isinstance(delta := choice.get("delta"), Mapping):
                self._take(delta)
            if isinstance(reason := choice.get("finish_reason"), str):
                self._reason = REASONS.get(reason, "stop")

    def reply(self, cancelled: bool = False) -> Reply:
        """The whole reply; raises ModelError for a stream that just stopped and was not ``cancelled``."""
        if self._reason is None and not cancelled:
            raise ModelError(
                "The model's answer broke off in the middle (the stream ended without a finish reason); ask again."
            )
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        if thinking := THINKING.match(text):
            text, reasoning = text[thinking.end() :], reasoning + thinking[1]
        named = [call for _, call in sorted(self._calls.items()) if call.name and not cancelled]
        calls = []
        for number, part in enumerate(named if self.parallel_calls else named[:1], start=1):
            if part.name == self.answer_tool:
                text += part.arguments or "{}"
            else:
                calls.append(ToolCall(part.id or f"call_{number}", part.name, part.arguments or "{}"))
        reason = "cancelled" if cancelled or self._reason is None else self._reason
        return Reply(text, tuple(calls), reasoning or None, self._usage, reason)

    def _take(self, delta: Mapping[str, object]) -> None:
        for target, piece in (
            (self._reasoning, delta.get("reasoning_content") or delta.get("reasoning")),
            (self._text, delta.get("content")),
        ):
            if isinstance(piece, str):
                self._count(piece)
                target.append(piece)
        for part in _mappings(delta.get("tool_calls")):
            call, function = self._call_of(part), part.get("function")
            if isinstance(function, Mapping):
                name, arguments = function.get("name"), function.get("arguments")
                call.name = call.name or (name if isinstance(name, str) else "")
                arguments = json.dumps(arguments) if isinstance(arguments, Mapping) else arguments
                if isinstance(arguments, str):
                    self._count(arguments)
                    call.arguments += arguments

    def _call_of(self, part: Mapping[str, object]) -> _PartialCall:
        """The call a piece belongs to: by index, or, where an endpoint leaves that out, by a new id."""
        index, identity = part.get("index"), part.get("id")
        if not isinstance(index, int):
            known = self._calls.get(self._latest)
            new = isinstance(identity, str) and known is not None and known.id not in ("", identity)
            index = self._latest + 1 if new else self._latest
        if index not in self._calls and len(self._calls) >= MAX_CALLS:
            raise ModelError(f"The model asked for more than {MAX_CALLS} tools in one turn; ask again.")
        self._latest = index
        call = self._calls.setdefault(index, _PartialCall())
        call.id = call.id or (identity if isinstance(identity, str) else "")
        return call

    def _count(self, text: str) -> None:
        self._chars += len(text)
        if self._chars > MAX_REPLY_CHARS:
            raise ModelError(f"The model's answer is longer than {MAX_REPLY_CHARS:,} characters; it was broken off.")


def _mappings(value: object) -> list[Mapping[str, object]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
