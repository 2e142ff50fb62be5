"""A request as the body of a Chat Completions call, within what the endpoint can do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hermes_agent.llm.capabilities import Capabilities, Structured, structured_mode
from hermes_agent.llm.model import Message, ModelRequest, ResponseSchema, ToolSpec

Body = dict[str, object]

SCHEMA_IN_PROMPT = "Answer with one JSON object and nothing else, no code fence. It has to fit this JSON Schema:\n"


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
    """Calls and results as ordinary messages: many servers refuse them in a request that offers no tools.

    Results join the user's message after them, since some chat templates want the roles to alternate.
    """
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
